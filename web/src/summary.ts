/** The summary of the shown runs, to be sorted and copied. */
import { Choice, save_all } from "./chart";
import { element } from "./dom";
import { bytes, duration, share } from "./format";
import { groups, group_names, type Choice as Which, type Run } from "./report";
import { most_rounds, shortfall } from "./rounds";
import { by_experiment, counted, spread } from "./seeds";
import { SortedTable, type Cell } from "./table";
import { on_change, seeds_are_one, shown_runs } from "./view";

/** How many evaluations its mean is over; a thinned curve may not have them all. */
function averaged(run: Run): number | undefined {
  const drawn = run.curves?.all?.filter((value) => value != null).length ?? 0;
  return drawn >= 10 ? 10 : run.curves?.every === 1 ? drawn : undefined;
}

function mean_of(runs: Run[]): string {
  const [count = 10, ...others] = new Set(runs.filter((run) => run.result).map((run) => averaged(run) ?? "some"));
  if (others.length > 0 || count === "some") return "mean of the last ten evaluations, or of all where there are fewer";
  return count === 1 ? "mean of the only evaluation" : `mean of the last ${count === 10 ? "ten" : count} evaluations`;
}

const which = (): { value: Which; label: string }[] => [
  { value: "mean_last_10", label: mean_of(shown_runs()) },
  { value: "last", label: "last evaluation" },
  { value: "best", label: "best round, chosen on the test set or validation split" },
];

const number = (value: number | null | undefined, text: (value: number) => string): Cell => (value == null ? { text: "–" } : { text: text(value), value });

function short_mark(runs: Run[]): Pick<Cell, "mark"> {
  const most = most_rounds(shown_runs());
  const short = runs.find((run) => shortfall(run, most));
  return short ? { mark: { style: "short", why: `only ${shortfall(short, most)}` } } : {};
}

function row(run: Run, choice: Which): Cell[] {
  const scores = run.result?.[choice];
  return [
    { text: run.name },
    { text: run.config["method.name"] ?? "–" },
    { text: run.state },
    { text: `${run.done}/${run.rounds}`, value: run.done, ...short_mark([run]) },
    ...groups.map((group) => number(scores?.[group], share)),
    number(scores?.f1, share),
    number(run.cost?.seconds, duration),
    number(run.cost && run.cost.bytes_up + run.cost.bytes_down, bytes),
    number(run.cost?.memory, bytes),
  ];
}

/** Several seeds: the mean over those that have ended, of accuracies ± the deviation. */
function row_of_experiment(name: string, seeds: Run[], choice: Which): Cell[] {
  const rows = counted(seeds).map((run) => row(run, choice));
  if (seeds.length === 1) return [{ text: name }, ...rows[0]!.slice(1)];
  const over_seeds = (column: number, text: (value: number) => string, with_deviation = false): Cell => {
    const values = rows.flatMap((cells) => cells[column]!.value ?? []);
    if (values.length === 0) return { text: "–" };
    const { mean, deviation } = spread(values);
    return { text: with_deviation && values.length > 1 ? `${text(mean)} ± ${text(deviation)}` : text(mean), value: mean };
  };
  const states = [...new Set(seeds.map((run) => run.state))].join(", ");
  const range = (values: number[]) => [...new Set([Math.min(...values), Math.max(...values)])].join("–");
  const done = seeds.map((run) => run.done);
  return [
    { text: name }, rows[0]![1]!, { text: `${states} × ${seeds.length}` },
    { text: `${range(done)}/${range(seeds.map((run) => run.rounds))}`, value: Math.min(...done), ...short_mark(seeds) },
    ...[...groups, "f1"].map((_, i) => over_seeds(4 + i, share, true)), over_seeds(9, duration), over_seeds(10, bytes), over_seeds(11, bytes),
  ];
}

/** The best of several in each column of accuracies. */
function with_best(all: Cell[][]): Cell[][] {
  const first = 4;
  const marked = all.map((cells) => [...cells]);
  for (let column = first; column <= first + groups.length && all.length > 1; ++column) {
    const best = Math.max(...all.map((cells) => cells[column]!.value ?? -Infinity));
    for (const cells of marked) if (cells[column]!.value === best) cells[column] = { ...cells[column]!, mark: { style: "best", why: "best of the column" } };
  }
  return marked;
}

function rows(choice: Which): Cell[][] {
  if (!seeds_are_one()) return with_best(shown_runs().map((run) => row(run, choice)));
  return with_best([...by_experiment(shown_runs())].map(([name, seeds]) => row_of_experiment(name, seeds, choice)));
}

export function summary_card(): HTMLElement {
  const table = new SortedTable(["run", "method", "state", "rounds", ...groups.map((group) => group_names[group]), "macro F1", "time", "sent", "memory"]);
  const choice = new Choice("Accuracy", which);
  const copy = element("button", { type: "button", id: "copy", click: () => void copy_csv() }, "Copy as CSV");
  const copy_csv = async () => {
    try {
      await navigator.clipboard.writeText(table.csv());
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "The browser refused";
    }
    setTimeout(() => (copy.textContent = "Copy as CSV"), 2000);
  };
  const save = element("button", { type: "button", id: "save", title: "Save every chart of this page as an SVG file", click: () => void save_all("svg") }, "Save charts as SVG");
  const update = () => {
    choice.update();
    table.show(rows(choice.value as Which));
  };
  const card = element(
    "div", { class: "card wide" },
    element("div", { class: "controls" }, choice.box, copy, save),
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Summary of the runs" }, table.table),
  );
  card.addEventListener("redraw", update);
  on_change(update);
  update();
  return card;
}
