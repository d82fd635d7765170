/** Curves over rounds, plain or with a band around them. */
import type { Look } from "./palette";

export type Point = [number, number];

export function line(name: string, data: Point[] | number[], { colour, dash, symbol }: Look, most_marks = 30) {
  return {
    type: "line" as const, name, data, symbol, showSymbol: data.length <= most_marks, symbolSize: 6,
    lineStyle: { color: colour, type: dash, width: 2 }, itemStyle: { color: colour }, emphasis: { focus: "series" as const },
  };
}

/** A mean with its deviation on both sides: the band is an invisible line below and a filled one stacked upon it. */
export function banded(name: string, mean: Point[], deviation: number[], look: Look) {
  const edge = { type: "line" as const, stack: `band ${name}`, stackStrategy: "all" as const, symbol: "none", silent: true, lineStyle: { opacity: 0 }, tooltip: { show: false } };
  return [
    line(name, mean, look),
    { ...edge, data: mean.map(([x, y], i) => [x, y - deviation[i]!]) },
    { ...edge, data: mean.map(([x], i) => [x, 2 * deviation[i]!]), areaStyle: { color: look.colour, opacity: 0.16 } },
  ];
}
