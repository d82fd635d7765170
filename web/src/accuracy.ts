/** Accuracy and loss by round. Of several runs each group has a chart; of one, all groups share one. */
import { chart_card, thinned, type Drawing } from "./chart";
import { element } from "./dom";
import { share, short } from "./format";
import { limits, type Range } from "./limits";
import { banded, best_of, end_mark, faint, line, ring, round_axis, with_marks, with_room, type Aim, type Point } from "./lines";
import { dashed_look, type Look } from "./palette";
import { group_names, groups, type Curves, type Group, type Run } from "./report";
import { most_rounds, shortfall, shortfalls } from "./rounds";
import { by_experiment, counted, mean_curve } from "./seeds";
import { smoothed } from "./smoothing";
import { is_dark } from "./theme";
import { look_of, look_of_experiment, on_change, seeds_are_one, set_smoothing, shown_runs, smoothing } from "./view";

type Key = Exclude<keyof Curves, keyof { round: 0; every: 0 }>;

/** A line of a chart: of a run, or of the seeds of an experiment. */
interface Curve {
  name: string;
  look: Look;
  seeds: Point[][];
  /** What is written at its end, where that comes before the end of others. */
  ended: string;
}

function points(curves: Curves, key: Key): Point[] {
  const values = curves[key] ?? [];
  return curves.round.flatMap((round, i) => (values[i] == null ? [] : [[round, values[i]] as Point]));
}

const most_texts = 4; // beside marks: more of them would cover each other and the lines

/** What is drawn of a curve, before anything is marked on it. */
function drawn_of(curve: Curve) {
  const recorded = mean_curve(curve.seeds);
  const drawn = mean_curve(curve.seeds.map((seed) => smoothed(seed, smoothing())));
  const reach = drawn.mean.flatMap(([, value], i) => [value - drawn.deviation[i]!, value + drawn.deviation[i]!]);
  return { curve, recorded, drawn, values: [...reach, ...recorded.mean.map(([, value]) => value)] };
}

function series_of({ curve, recorded, drawn }: ReturnType<typeof drawn_of>, marks: ReturnType<typeof ring>[]) {
  const [first, ...band] = curve.seeds.length > 1 ? banded(curve.name, drawn.mean, drawn.deviation, curve.look) : [line(curve.name, drawn.mean, curve.look)];
  return [...(smoothing() > 0 ? [faint(recorded.mean, curve.look)] : []), with_marks(first!, marks), ...band];
}

function drawing_of(curves: Curve[], label: string, aim: Aim, within: Range, note: string): Drawing {
  const rounds = curves.reduce((most, { seeds }) => seeds.reduce((m, seed) => Math.max(m, seed[seed.length - 1]?.[0] ?? 0), most), 1);
  const all = curves.map(drawn_of);
  const [min, max] = limits(all.flatMap(({ values }) => values), within);
  const bests = all.map(({ recorded }) => best_of(recorded.mean, aim));
  const sign = aim === "most" ? -1 : 1;
  const ordered = bests.filter((point) => point !== undefined).sort((a, b) => sign * (a[1] - b[1]));
  const texts = with_room(ordered.slice(0, most_texts), 0.15 * rounds, 0.12 * (max - min));
  const say_ends = curves.filter(({ ended }) => ended).length <= most_texts;
  const marks = all.map(({ curve, drawn }, i) => {
    const point = bests[i];
    const last = drawn.mean[drawn.mean.length - 1];
    const text = point && texts.has(point) ? (aim === "most" ? share(point[1]) : short(point[1])) : "";
    return [...(point ? [ring(point, curve.look, aim, rounds, text)] : []), ...(curve.ended && last ? [end_mark(last, curve.look, rounds, say_ends ? curve.ended : "")] : [])];
  });
  return {
    option: {
      grid: { top: 26 }, // room for the text of a best value
      tooltip: { trigger: "axis", order: "valueDesc", valueFormatter: (value) => Number(value).toFixed(3) },
      xAxis: round_axis(Math.max(rounds, 2)),
      yAxis: { type: "value", name: label, min, max },
      series: all.flatMap((each, i) => series_of(each, marks[i]!)),
    },
    note: [note, smoothing() > 0 ? "Smoothed; faint: as recorded." : "", `Ring: ${aim === "most" ? "best" : "lowest"} value.`].filter(Boolean).join(" "),
    height: 260,
  };
}

const coarsest = (runs: Run[]): string => thinned(Math.max(1, ...runs.map((run) => run.curves?.every ?? 1)));

/** How many seeds each mean is over, and where it ends before its runs do. */
function mean_note(experiments: [string, Run[]][], key: Key): string {
  const sizes = [...new Set(experiments.map(([, seeds]) => counted(seeds).length))].sort((a, b) => a - b);
  const cut = experiments.flatMap(([name, seeds]) => {
    const ends = counted(seeds).map((run) => points(run.curves!, key).at(-1)?.[0] ?? 0);
    const [first, last] = [Math.min(...ends), Math.max(...ends)];
    return first < last ? [`${name}: the mean ends at round ${first}, with the shortest of its runs.`] : [];
  });
  return [`Mean ± deviation over seeds (${sizes.join(" to ")}), those that have ended.`, ...cut].join(" ");
}

function by_run(key: Key, label: string): Drawing | null {
  const runs = shown_runs().filter((run) => run.curves && points(run.curves, key).length > 0);
  if (runs.length === 0) return null;
  const aim: Aim = key.includes("loss") ? "least" : "most";
  const within: Range = key.includes("loss") ? [0, Infinity] : [0, 1];
  const most = most_rounds(runs);
  const curve = (run: Run): Point[] => points(run.curves!, key);
  if (!seeds_are_one()) {
    const curves = runs.map((run) => ({ name: run.name, look: look_of(run), seeds: [curve(run)], ended: shortfall(run, most) }));
    return drawing_of(curves, label, aim, within, [shortfalls(runs), coarsest(runs)].filter(Boolean).join(" "));
  }
  const experiments = [...by_experiment(runs)];
  const curves = experiments.map(([name, seeds]) => {
    const all = counted(seeds);
    const shortest = all.reduce((a, b) => (b.done < a.done ? b : a));
    return { name, look: look_of_experiment(name), seeds: all.map(curve), ended: shortfall(shortest, most) };
  });
  return drawing_of(curves, label, aim, within, [mean_note(experiments, key), shortfalls(runs), coarsest(runs)].filter(Boolean).join(" "));
}

function of_one_run(): Drawing | null {
  const [run, ...others] = shown_runs();
  if (!run?.curves || others.length > 0) return null;
  const drawn = groups.filter((group) => points(run.curves!, group).length > 0);
  if (drawn.length === 0) return null;
  const ended = shortfall(run, most_rounds([run]));
  const curves = drawn.map((group, i) => ({ name: group_names[group], look: dashed_look(i, is_dark()), seeds: [points(run.curves!, group)], ended: i === 0 ? ended : "" }));
  const drawing = drawing_of(curves, "accuracy", "most", [0, 1], [shortfalls([run]), coarsest([run])].filter(Boolean).join(" "));
  return { ...drawing, option: { ...drawing.option, legend: { data: drawn.map((group) => group_names[group]) }, grid: { top: 44 } }, of: run.name };
}

const several = (drawing: () => Drawing | null) => () => (shown_runs().length > 1 ? drawing() : null);

/** How much the curves are smoothed, for all of them at once. */
export function smoothing_slider(): HTMLElement {
  const shown = element("output", {}, "off");
  const slider = element("input", { type: "range", id: "smoothing", min: 0, max: 0.98, step: 0.02, value: 0, input: () => set_smoothing(slider.valueAsNumber) });
  const box = element("div", { class: "controls" }, element("label", {}, "Smoothing", slider, shown));
  on_change(() => {
    shown.textContent = smoothing() > 0 ? smoothing().toFixed(2) : "off";
    box.hidden = !shown_runs().some((run) => (run.curves?.round.length ?? 0) > 2);
  });
  return box;
}

export function accuracy_cards(): HTMLElement[] {
  return [
    chart_card("Accuracy by round", of_one_run),
    ...groups.map((group: Group) => chart_card(`${group_names[group]}: accuracy by round`, several(() => by_run(group, "accuracy")))),
    chart_card("Macro F1", () => by_run("macro_f1", "macro F1")),
    chart_card("Training loss", () => by_run("loss", "loss")),
    chart_card("Test loss", () => by_run("test_loss", "loss")),
  ];
}
