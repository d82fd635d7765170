/** Runs that differ in nothing but the seed, taken together: mean and deviation over the seeds. */
import type { Point } from "./lines";
import type { Run } from "./report";

export interface Spread {
  mean: number;
  deviation: number; // of a sample; 0 of a single value
}

export function spread(values: number[]): Spread {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const squares = values.reduce((a, b) => a + (b - mean) ** 2, 0);
  return { mean, deviation: values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0 };
}

/** By the name of their experiment, in order of appearance. */
export function by_experiment(runs: Run[]): Map<string, Run[]> {
  const experiments = new Map<string, Run[]>();
  for (const run of runs) experiments.set(run.experiment, [...(experiments.get(run.experiment) ?? []), run]);
  return experiments;
}

/** Those whose numbers stand for the experiment: the ended ones, or where none has ended, all. */
export function counted(seeds: Run[]): Run[] {
  const ended = seeds.filter((run) => run.state === "finished" && run.result);
  return ended.length > 0 ? ended : seeds;
}

/** The curves' mean at the rounds that all of them have. */
export function mean_curve(curves: Point[][]): { mean: Point[]; deviation: number[] } {
  const others = curves.slice(1).map((curve) => new Map(curve));
  const shared = curves[0]!.filter(([round]) => others.every((curve) => curve.has(round)));
  const spreads = shared.map(([round, value]) => spread([value, ...others.map((curve) => curve.get(round)!)]));
  return { mean: shared.map(([round], i) => [round, spreads[i]!.mean]), deviation: spreads.map(({ deviation }) => deviation) };
}
