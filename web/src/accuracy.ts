/** Accuracy and loss by round. Of several runs each group has a chart; of one, all groups share one. */
import { chart_card, thinned, type Drawing } from "./chart";
import { line, banded, type Point } from "./lines";
import { dashed_look } from "./palette";
import { group_names, groups, type Curves, type Group, type Run } from "./report";
import { by_experiment, counted, mean_curve } from "./seeds";
import { is_dark } from "./theme";
import { look_of, look_of_experiment, seeds_are_one, shown_runs } from "./view";

type Key = Exclude<keyof Curves, keyof { round: 0; every: 0 }>;

function points(curves: Curves, key: Key): Point[] {
  const values = curves[key] ?? [];
  return curves.round.flatMap((round, i) => (values[i] == null ? [] : [[round, values[i]] as Point]));
}

const axes = (label: string, share: boolean) => ({
  tooltip: { trigger: "axis" as const, order: "valueDesc" as const, valueFormatter: (value: unknown) => Number(value).toFixed(3) },
  xAxis: { type: "value" as const, name: "round", minInterval: 1, min: 1, max: "dataMax" as const },
  yAxis: { type: "value" as const, name: label, ...(share ? { min: 0, max: 1 } : { scale: true }) },
});

const coarsest = (runs: Run[]): string => thinned(Math.max(1, ...runs.map((run) => run.curves?.every ?? 1)));

function of_experiment(name: string, curves: Point[][]) {
  const { mean, deviation } = mean_curve(curves);
  return curves.length > 1 ? banded(name, mean, deviation, look_of_experiment(name)) : [line(name, mean, look_of_experiment(name))];
}

function by_run(key: Key, label: string): Drawing | null {
  const runs = shown_runs().filter((run) => run.curves && points(run.curves, key).length > 0);
  if (runs.length === 0) return null;
  const series = seeds_are_one()
    ? [...by_experiment(runs)].flatMap(([name, seeds]) => of_experiment(name, counted(seeds).map((run) => points(run.curves!, key))))
    : runs.map((run) => line(run.name, points(run.curves!, key), look_of(run)));
  const note = `${seeds_are_one() ? "Mean ± deviation over seeds, those that have ended. " : ""}${coarsest(runs)}`;
  return { option: { ...axes(label, !key.includes("loss")), series }, note, height: 260 };
}

function of_one_run(): Drawing | null {
  const [run, ...others] = shown_runs();
  if (!run?.curves || others.length > 0) return null;
  const drawn = groups.filter((group) => points(run.curves!, group).length > 0);
  if (drawn.length === 0) return null;
  const series = drawn.map((group, i) => line(group_names[group], points(run.curves!, group), dashed_look(i, is_dark())));
  return { option: { ...axes("accuracy", true), legend: {}, grid: { top: 36 }, series }, note: coarsest([run]), height: 260 };
}

const several = (drawing: () => Drawing | null) => () => (shown_runs().length > 1 ? drawing() : null);

export function accuracy_cards(): HTMLElement[] {
  return [
    chart_card("Accuracy by round", of_one_run),
    ...groups.map((group: Group) => chart_card(`${group_names[group]}: accuracy by round`, several(() => by_run(group, "accuracy")))),
    chart_card("Macro F1", () => by_run("macro_f1", "macro F1")),
    chart_card("Training loss", () => by_run("loss", "loss")),
    chart_card("Test loss", () => by_run("test_loss", "loss")),
  ];
}
