/** What the program hands to the page. What a run does not record is absent. */

export interface Report {
  runs: Run[];
  live?: boolean;
  left_out?: string[]; // runs that cannot be read, and why
}

/** Characters that turn the text after them around are shown as what they are: no name passes for another. */
export function read_report(text: string): Report | null {
  return JSON.parse(text.replace(/[\u202a-\u202e\u2066-\u2069]/g, (turn) => `[U+${turn.charCodeAt(0).toString(16).toUpperCase()}]`)) as Report | null;
}

export interface Run {
  name: string;
  /** What it has in common with runs that differ from it in nothing but the seed. */
  experiment: string;
  state: "finished" | "running" | "stopped" | "waiting";
  rounds: number; // wanted
  done: number;
  seconds_left?: number;
  config: Record<string, string>;
  classes?: Classes;
  result?: Record<Choice, Scores & { round?: number }>;
  curves?: Curves;
  /** Each group's new best values, [round, value]: exact, however much the curves are thinned. */
  records?: Partial<Record<Group, [number, number][]>>;
  per_class?: Sampled & { accuracy: number[][] };
  diagnostics?: Sampled & Partial<Record<Diagnostic, { mean: number[][]; std?: number[][] }>>;
  prior?: { p: number[]; round: number[]; l2: number[]; tail_hit: number[] };
  confusion?: { round: number; counts: number[][] }; // [truth][answer]
  samples?: { round: number; images: Sample[] };
  clients?: { counts: number[][]; client_step: number; class_step: number };
  cost?: { seconds: number; bytes_up: number; bytes_down: number; phases: Record<string, number>; memory?: number };
}

export interface Classes {
  names: string[];
  counts: number[];
  group: Exclude<Group, "all">[];
}

/** A test image with its prediction. */
export interface Sample {
  truth: number;
  answer: number;
  confidence: number;
  png: string; // base64
}

/** Values at some rounds; `every` says how many rounds one of them stands for. */
export interface Sampled {
  round: number[];
  every: number;
}

export type Curves = Sampled & Partial<Record<Group | "loss" | "test_loss" | "macro_f1", (number | null)[]>>;
export type Group = "all" | "many" | "med" | "few";
export type Choice = "last" | "mean_last_10" | "best";
export type Diagnostic = "delta" | "beta_pos" | "beta_neg";
export type Scores = Partial<Record<Group | "f1", number | null>>;

export const groups: Group[] = ["all", "many", "med", "few"];
export const group_names: Record<Group, string> = { all: "All", many: "Many", med: "Med", few: "Few" };
