/** Puts the page together: from the data inside it, or, where there is none, from the server it came from. */
import { accuracy_cards } from "./accuracy";
import { balance_cards, prior_cards } from "./balance";
import { class_cards, detail_cards } from "./classes";
import { configuration_card } from "./configuration";
import { cost_cards } from "./cost";
import { element } from "./dom";
import { follow } from "./live";
import type { Report } from "./report";
import { detail_chooser, run_chooser } from "./runs";
import { summary_card } from "./summary";
import { theme_switch } from "./theme";
import { all_runs, changed, on_change, show_report } from "./view";

/** A titled part of the page. It is there only while one of its cards is. */
function section(id: string, title: string, cards: HTMLElement[], head?: HTMLElement): HTMLElement {
  const part = element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), head, element("div", { class: "cards" }, ...cards));
  const update = () => (part.hidden = cards.every((card) => card.hidden));
  on_change(update);
  update();
  return part;
}

const embedded = JSON.parse(document.getElementById("data")!.textContent!) as Report | null;
const sections = () => [
  section("summary", "Summary", [summary_card()]),
  section("accuracy", "Accuracy", accuracy_cards()),
  section("classes", "Classes", class_cards()),
  section("detail", "One run in detail", [...detail_cards(), ...balance_cards()], detail_chooser()),
  section("prior", "Prior", prior_cards()),
  section("cost", "Cost", cost_cards()),
  section("configuration", "Configuration", [configuration_card()]),
];

const waiting = element("p", { class: "note" });
on_change(() => {
  waiting.hidden = all_runs().length > 0;
  waiting.textContent = "No runs here yet. They appear as soon as they begin.";
});
document.getElementById("head")!.append(
  element("div", { class: "title" }, element("h1", {}, "fedgrab"), embedded ? "" : follow(), theme_switch(changed)),
  run_chooser(),
);
document.getElementById("page")!.replaceChildren(waiting, ...sections());
if (embedded) show_report(embedded);
