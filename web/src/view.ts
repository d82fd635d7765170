/** What the reader looks at: the report, which of its runs are shown, and the one shown in detail. */
import { look, type Look } from "./palette";
import { by_experiment } from "./seeds";
import type { Report, Run } from "./report";
import { is_dark } from "./theme";

const hidden = new Set<string>();
const listeners: (() => void)[] = [];
/** Order of first appearance, of a run's experiment and of the run in it: no run changes its look when others come. */
const places = new Map<string, { experiment: number; seed: number }>();
let report: Report = { runs: [] };
let experiments = by_experiment([]);
let experiments_seen = 0;
let filter = "";
let focus = "";
let pooled = true;
let past_weight = 0;

export const on_change = (listener: () => void): void => void listeners.push(listener);

/** A listener that fails keeps none of the others from what it has to show. */
export function changed(): void {
  for (const listener of listeners)
    try {
      listener();
    } catch (error) {
      console.error(error);
    }
}

export function show_report(next: Report): void {
  report = next;
  experiments = by_experiment(next.runs);
  for (const seeds of experiments.values()) {
    const known = seeds.flatMap((run) => places.get(run.name) ?? []);
    const experiment = known[0]?.experiment ?? experiments_seen++;
    let seed = Math.max(-1, ...known.map((place) => place.seed));
    for (const run of seeds) if (!places.has(run.name)) places.set(run.name, { experiment, seed: ++seed });
  }
  changed();
}

export const is_live = (): boolean => report.live === true;
export const left_out = (): string[] => report.left_out ?? [];
export const all_runs = (): Run[] => report.runs;
export const shown_runs = (): Run[] => report.runs.filter((run) => !hidden.has(run.name));
export const is_shown = (run: Run): boolean => !hidden.has(run.name);
/** Whether some runs repeat an experiment with another seed. */
export const has_seeds = (): boolean => experiments.size < report.runs.length;
/** Whether the reader wants such runs as one. */
export const seeds_are_one = (): boolean => pooled && has_seeds();

/** An experiment has its colour, and each of its seeds a dash and a mark. */
export function look_of(run: Run): Look {
  const { experiment, seed } = places.get(run.name)!;
  const shared = look(experiment, is_dark());
  return has_seeds() ? { colour: shared.colour, dash: look(6 * seed, is_dark()).dash, symbol: look(seed, is_dark()).symbol } : shared;
}

export const look_of_experiment = (name: string): Look => look(places.get(experiments.get(name)![0]!.name)!.experiment, is_dark());

export function take_seeds_as_one(wanted: boolean): void {
  pooled = wanted;
  changed();
}

/** The weight of the past in every curve, from 0 to below 1. */
export const smoothing = (): number => past_weight;

export function set_smoothing(weight: number): void {
  past_weight = weight;
  changed();
}

/** The run of the detailed charts: the chosen one while it is shown, else the last, which is mostly the newest idea. */
export function detailed_run(): Run | undefined {
  const shown = shown_runs();
  return shown.find((run) => run.name === focus) ?? shown[shown.length - 1];
}

export function show_in_detail(name: string): void {
  focus = name;
  changed();
}

function hide_unless(shown: boolean, name: string): void {
  if (shown) hidden.delete(name);
  else hidden.add(name);
}

export function set_shown(name: string, shown: boolean): void {
  hide_unless(shown, name);
  changed();
}

const matches = (run: Run): boolean => run.name.toLowerCase().includes(filter.toLowerCase());

/** Shows the runs whose name contains the text, and no others. */
export function show_matching(text: string): void {
  filter = text;
  for (const run of report.runs) hide_unless(matches(run), run.name);
  changed();
}

/** Why no run is shown; empty where some are. */
export function nothing_shown(): string {
  if (report.runs.length === 0) return "No runs here yet. They appear as soon as they begin.";
  if (shown_runs().length > 0) return "";
  return report.runs.some(matches) ? "No run is chosen above." : `No run's name contains “${filter}”.`;
}
