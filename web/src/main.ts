/** Puts the page together: from the data inside it, or, where there is none, from the server it came from. */
import { accuracy_cards, smoothing_slider } from "./accuracy";
import { balance_cards, prior_cards } from "./balance";
import { class_cards, class_groups, detail_cards } from "./classes";
import { configuration_card } from "./configuration";
import { cost_cards } from "./cost";
import { element } from "./dom";
import { follow } from "./live";
import { read_report } from "./report";
import { detail_chooser, run_chooser } from "./runs";
import { samples_card } from "./samples";
import { summary_card } from "./summary";
import { theme_switch } from "./theme";
import { changed, left_out, nothing_shown, on_change, show_report, shown_runs } from "./view";

/** A titled part of the page. It is there only while a run is shown and one of its cards has a place. */
function section(id: string, title: string, cards: HTMLElement[], head?: HTMLElement): HTMLElement {
  const part = element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), head, element("div", { class: "cards" }, ...cards));
  const update = () => (part.hidden = shown_runs().length === 0 || cards.every((card) => card.hidden));
  on_change(update);
  update();
  return part;
}

const embedded = read_report(document.getElementById("data")!.textContent!);
const sections = () => [
  section("summary", "Summary", [summary_card()]),
  section("accuracy", "Accuracy", accuracy_cards(), smoothing_slider()),
  section("classes", "Classes", class_cards(), class_groups()),
  section("detail", "One run in detail", [...detail_cards(), samples_card(), ...balance_cards()], detail_chooser()),
  section("prior", "Prior", prior_cards()),
  section("cost", "Cost", cost_cards()),
  section("configuration", "Configuration", [configuration_card()]),
];

const nothing = element("p", { class: "note", id: "nothing", role: "status" });
on_change(() => (nothing.textContent = nothing_shown()));
const missing = element("p", { class: "note", role: "status" });
on_change(() => (missing.textContent = left_out().map((why) => `Left out: ${why}`).join(" · ")));
document.getElementById("head")!.append(
  element("div", { class: "title" }, element("h1", {}, "fedgrab"), embedded ? "" : follow(), theme_switch(changed)),
  run_chooser(),
);
document.getElementById("page")!.replaceChildren(nothing, missing, ...sections());
if (embedded) show_report(embedded);
