/** The runs as chips: legend, filter and, while they train, progress. */
import { Choice } from "./chart";
import { element, name } from "./dom";
import { duration } from "./format";
import { distinct } from "./labels";
import type { Run } from "./report";
import { all_runs, detailed_run, has_seeds, is_shown, look_of, on_change, set_shown, show_in_detail, show_matching, shown_runs, take_seeds_as_one } from "./view";

function chip(run: Run, label: string): HTMLElement {
  const { colour, dash } = look_of(run);
  const sample = element("span", { class: "sample", "aria-hidden": "true" });
  sample.style.borderTop = `3px ${dash} ${colour}`;
  const box = element("input", { type: "checkbox", checked: is_shown(run), change: () => set_shown(run.name, box.checked) });
  const left = run.state === "running" && run.seconds_left !== undefined ? ` · ${duration(run.seconds_left)} left` : "";
  const progress = run.state === "finished" ? "" : element("small", {}, `${run.state} ${run.done}/${run.rounds}${left}`, element("progress", { max: run.rounds || 1, value: run.done }));
  return element("label", { class: "chip", title: run.name }, box, sample, element("span", { class: "label" }, name(label)), progress);
}

export function run_chooser(): HTMLElement {
  const chips = element("div", { class: "chips", role: "group", "aria-label": "Runs shown" });
  const find = element("input", { type: "search", id: "filter", placeholder: "Filter runs …", "aria-label": "Show only runs whose name contains" });
  let typing: ReturnType<typeof setTimeout> | undefined;
  find.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => show_matching(find.value), 150); // many runs take a moment to draw: not at every key
  });
  const seeds = element("input", { type: "checkbox", id: "seeds", checked: true, change: () => take_seeds_as_one(seeds.checked) });
  const seeds_label = element("label", { class: "seeds" }, seeds, "Seeds as one");
  let drawn = "";
  const update = () => {
    find.hidden = all_runs().length < 3;
    seeds_label.hidden = !has_seeds();
    const now = JSON.stringify(all_runs().map((run) => [run.name, run.state, run.done, run.rounds, run.seconds_left, is_shown(run), look_of(run)]));
    if (now === drawn) return; // a chip that has the keyboard keeps it
    drawn = now;
    const focused = [...chips.querySelectorAll("input")].indexOf(document.activeElement as HTMLInputElement);
    const labels = distinct(all_runs().map((run) => run.name), 26);
    chips.replaceChildren(...all_runs().map((run, i) => chip(run, labels[i]!)));
    chips.querySelectorAll("input")[focused]?.focus();
  };
  on_change(update);
  update();
  return element("div", { class: "runs" }, find, seeds_label, chips);
}

/** Which run the detailed charts show. */
export function detail_chooser(): HTMLElement {
  const choice = new Choice("Run", () => shown_runs().map((run) => ({ value: run.name, label: run.name })));
  const box = element("div", { class: "controls" }, choice.box);
  box.addEventListener("redraw", () => show_in_detail(choice.value));
  on_change(() => {
    choice.update();
    choice.choose(detailed_run()?.name ?? "");
  });
  return box;
}
