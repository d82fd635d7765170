/** Classes: accuracy against size, who is taken for whom, and who holds what. */
import { chart_card, Choice, thinned, type Drawing } from "./chart";
import { element, name } from "./dom";
import { count_on_log_axis, none_on_log_axis } from "./format";
import { distinct, middle } from "./labels";
import { limits } from "./limits";
import { ramp } from "./palette";
import { group_names, type Group, type Run } from "./report";
import { is_dark } from "./theme";
import { detailed_run, look_of, on_change, shown_runs } from "./view";

/** Classes from the largest to the smallest. */
export function by_size(run: Run): number[] {
  const counts = run.classes?.counts ?? [];
  return counts.map((_, c) => c).sort((a, b) => counts[b]! - counts[a]!);
}

function against_size(): Drawing | null {
  const runs = shown_runs().filter((run) => run.classes && run.per_class);
  if (runs.length === 0) return null;
  const last_of = (run: Run) => run.per_class!.accuracy[run.per_class!.accuracy.length - 1]!;
  const [min, max] = limits(runs.flatMap(last_of), [0, 1]);
  const series = runs.map((run) => {
    const { names, counts, group } = run.classes!;
    const last = last_of(run);
    const { colour, symbol } = look_of(run);
    return {
      type: "scatter" as const, name: run.name, symbol, symbolSize: 10,
      itemStyle: { color: colour, opacity: 0.8 },
      data: last.map((value, c) => ({ value: [Math.max(counts[c]!, none_on_log_axis), value], name: `${names[c]} (${group_names[group[c]!]})` })),
    };
  });
  return {
    option: {
      tooltip: { trigger: "item", formatter: (item: unknown) => {
        const { seriesName, name, value } = item as { seriesName: string; name: string; value: [number, number] };
        return `${name}\n${count_on_log_axis(value[0])} training images\naccuracy ${value[1].toFixed(3)}\n${seriesName}`;
      } },
      xAxis: { type: "log", name: "training images of the class", min: "dataMin", max: "dataMax", axisLabel: { formatter: count_on_log_axis } },
      yAxis: { type: "value", name: "accuracy", min, max },
      series,
    },
    note: "One mark a class, at the last evaluation.",
    height: 340,
  };
}

interface Cells {
  columns: string[];
  rows: string[];
  cells: [number, number, number][];
  column_label: string;
  row_label: string;
  value_label: string;
  colours?: string[];
  range?: [number, number];
}

/** An axis of names, each with at most so many letters. */
export function name_axis(names: string[], label: string, most: number, rotate = 0) {
  const labels = distinct(names, most);
  return { type: "category" as const, data: names, name: label, axisLabel: { rotate, ...(names.length > 40 ? { fontSize: 10 } : {}), formatter: (_: unknown, i: number) => labels[i] ?? "" } };
}

/** Cells in colours, with a scale above. */
export function heat_map({ columns, rows, cells, column_label, row_label, value_label, colours, range }: Cells): Drawing {
  const values = cells.map((cell) => cell[2]);
  const [low, high] = range ?? [0, values.reduce((a, b) => Math.max(a, b), 0)];
  const height = Math.min(Math.max(rows.length * 18, 200), rows.length > 60 ? 760 : 620) + 130;
  const slanted = columns.some((label) => label.length > 3);
  return {
    option: {
      grid: { top: 44, left: rows.some((label) => label.length > 5) ? 122 : 72, bottom: slanted ? 96 : 44 },
      tooltip: { trigger: "item", formatter: (item: unknown) => {
        const [x, y, value] = (item as { value: [number, number, number] }).value;
        return `${column_label} ${columns[x]}\n${row_label} ${rows[y]}\n${value_label} ${Number(value.toPrecision(4))}`;
      } },
      xAxis: { ...name_axis(columns, column_label, 13, slanted ? 45 : 0), nameGap: slanted ? 78 : 26, splitArea: { show: false } },
      yAxis: { ...name_axis(rows, row_label, 15), nameGap: rows.some((label) => label.length > 5) ? 106 : 56, inverse: true },
      visualMap: {
        type: "continuous", min: low, max: high > low ? high : low + 1, orient: "horizontal", top: 0, right: 12, itemHeight: 120, itemWidth: 12,
        text: [Number(high.toPrecision(3)).toString(), `${value_label} ${Number(low.toPrecision(3))}`], inRange: { color: colours ?? ramp(is_dark()) },
      },
      series: [{ type: "heatmap", data: cells, progressive: 0, itemStyle: { borderWidth: rows.length * columns.length < 1500 ? 1 : 0, borderColor: "transparent" } }],
    },
    height,
  };
}

function confusion(): Drawing | null {
  const run = detailed_run();
  if (!run?.confusion || !run.classes) return null;
  const order = by_size(run);
  const names = order.map((c) => run.classes!.names[c]!);
  const cells = order.flatMap((truth, y) => {
    const row = run.confusion!.counts[truth]!;
    const all = row.reduce((a, b) => a + b, 0);
    return order.map((answer, x): [number, number, number] => [x, y, all > 0 ? row[answer]! / all : 0]);
  });
  return {
    ...heat_map({ columns: names, rows: names, cells, column_label: "answer", row_label: "truth", value_label: "share", range: [0, 1] }),
    note: `Share of each class's test images by answer, in round ${run.confusion.round}; classes from common to rare.`,
    of: run.name,
  };
}

const some = (count: number, step: number) => Array.from({ length: count }, (_, i) => i * step);

function clients(): Drawing | null {
  const run = detailed_run();
  if (!run?.clients || !run.classes) return null;
  const { counts, client_step, class_step } = run.clients;
  const { names } = run.classes;
  // Where columns stand for several classes they cannot be put in order of size.
  const order = class_step === 1 ? by_size(run) : some(counts[0]?.length ?? 0, 1);
  const columns = order.map((c) => (class_step === 1 ? names[c]! : `${names[c * class_step]} …`));
  const cells = counts.flatMap((row, y) => order.map((c, x): [number, number, number] => [x, y, row[c]!]));
  const drawing = heat_map({ columns, rows: some(counts.length, client_step).map(String), cells, column_label: "class", row_label: "client", value_label: "images" });
  const sums = [client_step > 1 && `each row sums ${client_step} clients`, class_step > 1 && `each column sums ${class_step} classes`].filter(Boolean);
  return { ...drawing, of: run.name, note: sums.length > 0 ? `Training images: ${sums.join(", ")}.` : "Training images of each class at each client." };
}

function over_time(): Drawing | null {
  const run = detailed_run();
  if (!run?.per_class || !run.classes) return null;
  const { round, every, accuracy } = run.per_class;
  if (round.length < 2) return null;
  const order = by_size(run);
  const cells = round.flatMap((_, x) => order.map((c, y): [number, number, number] => [x, y, accuracy[x]![c]!]));
  return {
    ...heat_map({ columns: round.map(String), rows: order.map((c) => run.classes!.names[c]!), cells, column_label: "round", row_label: "class", value_label: "accuracy", range: [0, 1] }),
    note: thinned(every),
    of: run.name,
  };
}

const most_names = 12;

function names_of(run: Run, group: Group): Node[] {
  const { names, group: group_of } = run.classes!;
  const labels = distinct(names, 30);
  const all = by_size(run).filter((c) => group_of[c] === group).map((c) => labels[c]!);
  const rest = all.length > most_names ? ` and ${all.length - most_names} more` : "";
  const list = all.slice(0, most_names).flatMap((each, i) => [i > 0 ? ", " : "", name(each)]);
  return all.length > 0 ? [element("span", {}, `${group_names[group]}: `, ...list, rest)] : [];
}

/** Which classes are Many, Med and Few, where the shown runs are of one mind. */
export function class_groups(): HTMLElement {
  const line = element("p", { class: "note groups" });
  on_change(() => {
    const runs = shown_runs().filter((run) => run.classes);
    const agree = new Set(runs.map(({ classes }) => JSON.stringify([classes!.names, classes!.group]))).size === 1;
    const parts = agree ? (["many", "med", "few"] as const).flatMap((group) => names_of(runs[0]!, group)) : [];
    line.replaceChildren(...parts.flatMap((part, i) => (i > 0 ? [" · ", part] : [part])));
  });
  return line;
}

export const class_cards = (): HTMLElement[] => [chart_card("Accuracy of a class against its size", against_size)];

export const detail_cards = (): HTMLElement[] => [
  chart_card("Confusion matrix", confusion),
  chart_card("Client × class", clients),
  chart_card("Accuracy of each class over time", over_time),
];

/** A choice among the classes of the detailed run, from common to rare. */
export function class_choice(first: { value: string; label: string }): Choice {
  return new Choice("Class", () => {
    const run = detailed_run();
    return run?.classes ? [first, ...by_size(run).map((c) => ({ value: String(c), label: middle(run.classes!.names[c]!, 60) }))] : [first];
  });
}
