/** What the reader looks at: the report, which of its runs are shown, and the one shown in detail. */
import { look, type Look } from "./palette";
import type { Report, Run } from "./report";
import { is_dark } from "./theme";

const hidden = new Set<string>();
const listeners: (() => void)[] = [];
let report: Report = { runs: [] };
let focus = "";

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
export const look_of = (run: Run): Look => look(report.runs.indexOf(run), is_dark());

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
