/** Δ and β of the gradient balancer per class over time, and the prior it works with. */
import { by_size, class_choice, heat_map, name_axis } from "./classes";
import { chart_card, Choice, thinned, type Drawing } from "./chart";
import { short } from "./format";
import { distinct } from "./labels";
import { limits } from "./limits";
import { banded, line, round_axis, type Point } from "./lines";
import { dashed_look } from "./palette";
import type { Diagnostic, Run } from "./report";
import { is_dark } from "./theme";
import { detailed_run, look_of, shown_runs } from "./view";

const titles: Record<Diagnostic, string> = { delta: "Δ (accumulated gradient)", beta_pos: "β⁺ (positive gradients)", beta_neg: "β⁻ (negative gradients)" };
const diverging = (dark: boolean) => (dark ? ["#f0803c", "#1b2028", "#4fa8e0"] : ["#d55e00", "#f7f7f7", "#0072b2"]);

function measure_choice(): Choice {
  return new Choice("Measure", () => {
    const recorded = detailed_run()?.diagnostics;
    return (Object.keys(titles) as Diagnostic[]).filter((key) => recorded?.[key]).map((value) => ({ value, label: titles[value] }));
  });
}

/** The commonest, the middle and the rarest say most about a long tail. */
function classes_of(run: Run, choice: string): number[] {
  if (choice !== "") return [Number(choice)];
  const order = by_size(run);
  return [...new Set([order[0]!, order[Math.floor(order.length / 2)]!, order[order.length - 1]!])];
}

function curves(measure: string, choice: string): Drawing | null {
  const run = detailed_run();
  const values = run?.diagnostics?.[measure as Diagnostic];
  if (!run?.diagnostics || !run.classes || !values) return null;
  const { round, every } = run.diagnostics;
  const chosen = classes_of(run, choice);
  const series = chosen.flatMap((c, i) => {
    const mean = round.map((r, t): Point => [r, values.mean[t]![c]!]);
    const name = run.classes!.names[c]!;
    return values.std ? banded(name, mean, round.map((_, t) => values.std![t]![c]!), dashed_look(i, is_dark())) : [line(name, mean, dashed_look(i, is_dark()))];
  });
  const names = chosen.map((c) => run.classes!.names[c]!);
  const labels = distinct(names, 28);
  return {
    option: {
      legend: { data: names, formatter: (name: string) => labels[names.indexOf(name)] ?? name },
      grid: { top: 36 },
      tooltip: { trigger: "axis", valueFormatter: (value) => short(Number(value)) },
      xAxis: round_axis("dataMax", "dataMin"),
      yAxis: { type: "value", name: titles[measure as Diagnostic], scale: true },
      series,
    },
    of: run.name,
    note: `${values.std ? "Mean ± deviation over clients. " : ""}${thinned(every)}`,
    height: 340,
  };
}

function map(measure: string): Drawing | null {
  const run = detailed_run();
  const values = run?.diagnostics?.[measure as Diagnostic];
  if (!run?.diagnostics || !run.classes || !values || run.diagnostics.round.length < 2) return null;
  const { round, every } = run.diagnostics;
  const order = by_size(run);
  const cells = round.flatMap((_, x) => order.map((c, y): [number, number, number] => [x, y, values.mean[x]![c]!]));
  const reach = cells.reduce((a, cell) => Math.max(a, Math.abs(cell[2])), 0);
  const signed = measure === "delta";
  return {
    ...heat_map({
      columns: round.map(String), rows: order.map((c) => run.classes!.names[c]!), cells, column_label: "round", row_label: "class", value_label: "mean",
      range: signed ? [-reach, reach] : [0, reach], ...(signed ? { colours: diverging(is_dark()) } : {}),
    }),
    of: run.name,
    note: `Mean over clients; classes from common to rare. ${thinned(every)}`,
  };
}

function prior(): Drawing | null {
  const run = detailed_run();
  if (!run?.prior || !run.classes) return null;
  const { p, l2, tail_hit } = run.prior;
  const order = by_size(run);
  const sum = (values: number[]) => values.reduce((a, b) => a + b, 0);
  const [samples, mass] = [sum(run.classes.counts), sum(p)]; // a prior may be on another scale
  return {
    option: {
      legend: {},
      grid: { top: 36, bottom: 88 },
      tooltip: { trigger: "axis", valueFormatter: (value) => short(Number(value)) },
      xAxis: name_axis(order.map((c) => run.classes!.names[c]!), "", 13, 45),
      yAxis: { type: "value", name: "share of the class" },
      series: [line("truth", order.map((c) => run.classes!.counts[c]! / samples), dashed_look(0, is_dark()), 60), line("prior", order.map((c) => p[c]! / mass), dashed_look(1, is_dark()), 60)],
    },
    of: run.name,
    note: `Last record: distance to the truth (L2) ${short(l2[l2.length - 1]!)}, ${Math.round(100 * tail_hit[tail_hit.length - 1]!)} % of the rare classes found.`,
    height: 340,
  };
}

function prior_scores(key: "l2" | "tail_hit", label: string): Drawing | null {
  const runs = shown_runs().filter((run) => run.prior && run.prior.round.length > 1);
  if (runs.length === 0) return null;
  const series = runs.map((run) => line(run.name, run.prior!.round.map((round, i): Point => [round, run.prior![key][i]!]), look_of(run), 0));
  const [min, max] = limits(runs.flatMap((run) => run.prior![key]), key === "tail_hit" ? [0, 1] : [0, Infinity]);
  return {
    option: {
      tooltip: { trigger: "axis", valueFormatter: (value) => short(Number(value)) },
      xAxis: round_axis("dataMax"),
      yAxis: { type: "value", name: label, min, max },
      series,
    },
    height: 260,
  };
}

export function balance_cards(): HTMLElement[] {
  const [of_curves, of_map] = [measure_choice(), measure_choice()];
  const classes = class_choice({ value: "", label: "commonest, middle, rarest" });
  return [
    chart_card("Balancer of a class over time", () => curves(of_curves.value, classes.value), [of_curves, classes]),
    chart_card("Balancer of all classes over time", () => map(of_map.value), [of_map]),
    chart_card("Prior against the truth", prior),
  ];
}

export const prior_cards = (): HTMLElement[] => [
  chart_card("Prior: distance to the truth", () => prior_scores("l2", "L2 distance")),
  chart_card("Prior: rare classes found", () => prior_scores("tail_hit", "share of Few")),
];
