/** Curves over rounds, plain or with a band around them, and the marks on them. */
import type { Look } from "./palette";

export type Point = [number, number];

/** Which end of its values is the good one. */
export type Aim = "most" | "least";

interface Mark {
  coord: Point;
  value: string;
  symbol: string;
  symbolSize: number | number[];
  itemStyle: object;
  label: object;
}

export function line(name: string, data: Point[] | number[], { colour, dash, symbol }: Look, most_marks = 30) {
  return {
    type: "line" as const, name, data, symbol, showSymbol: data.length <= most_marks, symbolSize: 6,
    lineStyle: { color: colour, type: dash, width: 2 }, itemStyle: { color: colour }, emphasis: { focus: "series" as const },
  };
}

/** An axis of rounds, from the first to the last. */
export const round_axis = (last: number | "dataMax", first: number | "dataMin" = 1) =>
  ({ type: "value" as const, name: "round", minInterval: 1, min: first, max: last, axisPointer: { label: { precision: 0 } } });

/** As recorded, behind its smoothed line. */
export function faint(data: Point[], { colour }: Look) {
  return {
    type: "line" as const, data, symbol: "none", silent: true, tooltip: { show: false }, z: 1,
    lineStyle: { color: colour, width: 1, opacity: 0.35 }, itemStyle: { color: colour },
  };
}

interface Drawn {
  coord: (point: Point) => number[];
}

/** A mean with its deviation on both sides. The band is one polygon: stacked areas would need an axis that begins at zero. */
export function banded(name: string, mean: Point[], deviation: number[], look: Look) {
  const edge = (sign: 1 | -1): Point[] => mean.map(([x, y], i) => [x, y + sign * deviation[i]!]);
  const outline = [...edge(1), ...edge(-1).reverse()];
  const renderItem = (_: unknown, api: Drawn) => ({
    type: "polygon" as const, shape: { points: outline.map((point) => api.coord(point)) }, style: { fill: look.colour, opacity: 0.16 },
  });
  const band = { type: "custom" as const, data: mean.slice(0, 1), renderItem, clip: true, silent: true, tooltip: { show: false }, itemStyle: { color: look.colour }, z: 1 };
  return [line(name, mean, look), band];
}

/** The first of its best points. */
export function best_of(curve: Point[], aim: Aim): Point | undefined {
  const better = (a: number, b: number) => (aim === "most" ? a > b : a < b);
  return curve.reduce<Point | undefined>((best, point) => (best === undefined || better(point[1], best[1]) ? point : best), undefined);
}

/** A text stays inside the chart when it grows away from the nearer side. */
const towards_the_middle = ([x]: Point, rounds: number) => (x > 0.75 * rounds ? "right" : x < 0.25 * rounds ? "left" : "center");

/** A ring around a best value. */
export function ring(coord: Point, look: Look, aim: Aim, rounds: number, text: string): Mark {
  const label = { show: text !== "", formatter: text, color: look.colour, position: aim === "most" ? "top" : "bottom", align: towards_the_middle(coord, rounds) };
  return { coord, value: text, symbol: "circle", symbolSize: 11, itemStyle: { color: "transparent", borderColor: look.colour, borderWidth: 2 }, label };
}

/** A bar across the end of a curve that is shorter than others. */
export function end_mark(coord: Point, look: Look, rounds: number, text: string): Mark {
  const label = { show: text !== "", formatter: text, color: look.colour, position: "bottom", align: towards_the_middle(coord, rounds), distance: 8 };
  return { coord, value: text, symbol: "rect", symbolSize: [3, 16], itemStyle: { color: look.colour }, label };
}

/** Which of some points have room for a text beside them: the first ones do, and others that are far from them. */
export function with_room(all: Point[], width: number, height: number): Set<Point> {
  const placed: Point[] = [];
  for (const point of all) if (placed.every(([x, y]) => Math.abs(x - point[0]) > width || Math.abs(y - point[1]) > height)) placed.push(point);
  return new Set(placed);
}

export const with_marks = <Series extends object>(series: Series, marks: Mark[]) => ({ ...series, markPoint: { silent: true, animation: false, z: 6, data: marks } });
