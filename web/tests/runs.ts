/** Runs for tests. */
import type { Run } from "../src/report";

export const run = (values: Partial<Run> = {}): Run => ({ name: "run", experiment: "run", state: "finished", rounds: 500, done: 500, config: {}, ...values });
