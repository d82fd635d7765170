/** How the runs were configured, and wherein they differ. */
import { element, name } from "./dom";
import type { Run } from "./report";
import { on_change, shown_runs } from "./view";

function table(keys: string[], runs: Run[]): HTMLElement {
  const head = element("tr", {}, element("th", { scope: "col" }, "parameter"), ...runs.map((run) => element("th", { scope: "col", class: "text" }, name(run.name))));
  const rows = keys.map((key) => element("tr", {}, element("th", { scope: "row" }, key), ...runs.map((run) => element("td", { class: "text" }, name(run.config[key] ?? "–")))));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Parameters" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

export function configuration_card(): HTMLElement {
  const differing = element("div");
  const everything = element("div");
  const update = () => {
    const runs = shown_runs();
    const keys = [...new Set(runs.flatMap((run) => Object.keys(run.config)))];
    const differ = keys.filter((key) => new Set(runs.map((run) => run.config[key])).size > 1);
    differing.replaceChildren(
      runs.length < 2 ? "" : differ.length > 0 ? table(differ, runs) : element("p", { class: "note" }, "The shown runs have the same parameters."),
    );
    everything.replaceChildren(table(keys, runs));
  };
  on_change(update);
  update();
  return element("div", { class: "card wide" }, differing, element("details", {}, element("summary", {}, "All parameters"), everything));
}
