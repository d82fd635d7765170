/** Runs that have fewer rounds than they, or the runs beside them, were to have. */
import type { Run } from "./report";

const configured = (run: Run): number => Number(run.config["train.rounds"] ?? 0) || 0;

/** What all the runs would have, had each of them trained as long as any. */
export const most_rounds = (runs: Run[]): number => runs.reduce((most, run) => Math.max(most, run.rounds, run.done, configured(run)), 0);

/** "262 of 500 rounds", or nothing for a run that has them all or is still gaining. */
export function shortfall(run: Run, most: number): string {
  return run.state !== "running" && run.done > 0 && run.done < most ? `${run.done} of ${most} rounds` : "";
}

const most_named = 3;

/** Which of the runs ended early, in a sentence; empty where all are of one length. */
export function shortfalls(runs: Run[]): string {
  const most = most_rounds(runs);
  const short = runs.flatMap((run) => (shortfall(run, most) ? [`${run.name} has ${shortfall(run, most)}`] : []));
  if (short.length === 0) return "";
  const rest = short.length > most_named ? `, and ${short.length - most_named} more have fewer` : "";
  return `${short.slice(0, most_named).join(", ")}${rest}.`;
}
