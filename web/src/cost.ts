/** What a run costs: rounds to a target, bytes sent, time by phase. */
import { chart_card, Choice, type Drawing } from "./chart";
import { element } from "./dom";
import { bytes, duration } from "./format";
import { distinct } from "./labels";
import { look } from "./palette";
import { group_names, groups, type Group, type Run } from "./report";
import { is_dark } from "./theme";
import { look_of, shown_runs } from "./view";

interface Stack {
  name: string;
  values: number[];
}

/** Bars of the shown runs, one below the other; a stack where there are several values. */
function bars(runs: Run[], stacks: Stack[], label: string, text: (value: number) => string): Drawing {
  const series = stacks.map(({ name, values }, i) => ({
    type: "bar" as const, name, stack: "all", barMaxWidth: 26, itemStyle: { color: look(i, is_dark()).colour },
    data: values.map((value, r) => (stacks.length > 1 ? value : { value, itemStyle: { color: look_of(runs[r]!).colour } })),
  }));
  const labels = distinct(runs.map((run) => run.name), 18);
  return {
    whole: true,
    option: {
      ...(stacks.length > 1 ? { legend: {} } : {}),
      grid: { left: 130, top: stacks.length > 1 ? 36 : 12 },
      tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, valueFormatter: (value) => text(Number(value)) },
      xAxis: { type: "value", name: label, axisLabel: { formatter: text } },
      yAxis: { type: "category", data: runs.map((run) => run.name), inverse: true, axisLabel: { formatter: (_: unknown, i: number) => labels[i] ?? "" } },
      series,
    },
    height: 110 + 34 * runs.length,
  };
}

const first_reached = (run: Run, group: Group, target: number): number | undefined => run.records?.[group]?.find(([, value]) => value >= target)?.[0];

function to_target(group: Group, target: number): Drawing | string | null {
  const runs = shown_runs().filter((run) => run.records?.[group]);
  if (runs.length === 0) return null;
  if (!(target >= 0 && target <= 1)) return "Give an accuracy between 0 and 1.";
  const reached = runs.map((run) => first_reached(run, group, target));
  const never = runs.filter((_, i) => reached[i] === undefined).map((run) => run.name);
  const drawing = bars(runs, [{ name: "round", values: reached.map((round) => round ?? 0) }], "round", String);
  drawing.option.xAxis = { ...(drawing.option.xAxis as object), max: Math.max(...runs.map((run) => run.done)), minInterval: 1 } as typeof drawing.option.xAxis;
  return { ...drawing, note: never.length > 0 ? `Not reached: ${never.join(", ")}.` : "First evaluated round that reached the target." };
}

function target_card(): HTMLElement {
  const group = new Choice("Group", () => ["few", "all", "many", "med"].map((value) => ({ value, label: group_names[value as Group] })));
  const number = element("input", { type: "number", min: 0, max: 1, step: 0.05, value: 0.55, input: () => number.dispatchEvent(new Event("redraw", { bubbles: true })) });
  const draw = () => to_target(groups.find((each) => each === group.value) ?? "few", number.valueAsNumber);
  return chart_card("Rounds to a target", draw, [group, { box: element("label", {}, "Accuracy", number) }]);
}

function sent(): Drawing | null {
  const runs = shown_runs().filter((run) => run.cost && run.cost.bytes_up + run.cost.bytes_down > 0);
  if (runs.length === 0) return null;
  return bars(runs, [{ name: "to the server", values: runs.map((run) => run.cost!.bytes_up) }, { name: "to the clients", values: runs.map((run) => run.cost!.bytes_down) }], "bytes sent", bytes);
}

function phases(): Drawing | null {
  const runs = shown_runs().filter((run) => run.cost);
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.cost!.phases)))];
  if (names.length === 0) return null;
  return bars(runs, names.map((name) => ({ name, values: runs.map((run) => run.cost!.phases[name] ?? 0) })), "time", duration);
}

export const cost_cards = (): HTMLElement[] => [target_card(), chart_card("Bytes sent", sent), chart_card("Time by phase", phases)];
