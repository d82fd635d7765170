/** What the reader looks at: the report, which of its runs are shown, and the one shown in detail. */
import { look, type Look } from "./palette";
import { by_experiment } from "./seeds";
import type { Report, Run } from "./report";
import { is_dark } from "./theme";

const hidden = new Set<string>();
const listeners: (() => void)[] = [];
let report: Report = { runs: [] };
let focus = "";
let pooled = true;

export const on_change = (listener: () => void): void => void listeners.push(listener);
export const changed = (): void => listeners.forEach((listener) => listener());

export function show_report(next: Report): void {
  report = next;
  changed();
}

export const is_live = (): boolean => report.live === true;
export const all_runs = (): Run[] => report.runs;
export const shown_runs = (): Run[] => report.runs.filter((run) => !hidden.has(run.name));
export const is_shown = (run: Run): boolean => !hidden.has(run.name);
/** Whether some runs repeat an experiment with another seed. */
export const has_seeds = (): boolean => by_experiment(report.runs).size < report.runs.length;
/** Whether the reader wants such runs as one. */
export const seeds_are_one = (): boolean => pooled && has_seeds();

/** An experiment has its colour, and each of its seeds a dash and a mark. */
export function look_of(run: Run): Look {
  if (!has_seeds()) return look(report.runs.indexOf(run), is_dark());
  const [seeds, nth] = [by_experiment(report.runs).get(run.experiment)!, look_of_experiment(run.experiment)];
  const own = look(6 * seeds.indexOf(run), is_dark());
  return { colour: nth.colour, dash: own.dash, symbol: look(seeds.indexOf(run), is_dark()).symbol };
}

export const look_of_experiment = (name: string): Look => look([...by_experiment(report.runs).keys()].indexOf(name), is_dark());

export function take_seeds_as_one(wanted: boolean): void {
  pooled = wanted;
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

export function set_shown(names: Iterable<string>, shown: boolean): void {
  for (const name of names) shown ? hidden.delete(name) : hidden.add(name);
  changed();
}
