/** A part of a chart marked with the mouse fills it, until it is reset. Holds what is marked in numbers of the axes, so that it outlasts new data. */
import type { EChartsOption } from "echarts";
import type { EChartsType } from "echarts/core";
import { marked, type Range } from "./limits";

interface Part {
  x: Range;
  y: Range;
  of: string;
}

const has_finger = matchMedia("(pointer: coarse)").matches;
const smallest = 8; // pixels: less is a click

type Axis = { type?: string; name?: string; data?: unknown[] };
const axis_of = (axis: unknown): Axis => (axis ?? {}) as Axis;
const is_whole = (axis: unknown): boolean => axis_of(axis).type === "category";

/** What the axes are of: another measure, or other classes, are not what was marked. */
const identity = ({ xAxis, yAxis }: EChartsOption): string => JSON.stringify([xAxis, yAxis].map(axis_of).map(({ type, name, data }) => [type, name, is_whole({ type }) ? data : 0]));

export class Zoom {
  private part: Part | undefined;
  private drawn: EChartsOption = {};
  private active = !has_finger;
  private busy = false;
  private missed = false;

  constructor(private readonly changed: () => void) {}

  /** While the mouse marks, no new data may take the mark away: whoever is told to wait is called afterwards. */
  wait(): boolean {
    this.missed ||= this.busy;
    return this.busy;
  }

  get is_on(): boolean {
    return this.part !== undefined;
  }

  /** Whether dragging marks; it does not scroll then. */
  get marks(): boolean {
    return this.active;
  }

  /** A finger scrolls the page unless the reader asks otherwise. */
  mark_by_touch(wanted: boolean): void {
    this.active = wanted;
    this.changed();
  }

  reset(): void {
    this.part = undefined;
    this.changed();
  }

  /** The option with its axes cut to the marked part. */
  cut(option: EChartsOption): EChartsOption {
    if (!this.part || this.part.of !== identity(option)) return option;
    const between = (axis: unknown, [min, max]: Range) => ({ ...(axis as object), min, max });
    return { ...option, xAxis: between(option.xAxis, this.part.x) as EChartsOption["xAxis"], yAxis: between(option.yAxis, this.part.y) as EChartsOption["yAxis"] };
  }

  /** The same, to be marked again. */
  applied(option: EChartsOption): EChartsOption {
    this.drawn = option;
    if (this.part && this.part.of !== identity(option)) this.part = undefined;
    return { ...this.cut(option), brush: { xAxisIndex: 0, yAxisIndex: 0, brushMode: "single", outOfBrush: { colorAlpha: 1 } } };
  }

  /** After each drawing. */
  arm(chart: EChartsType): void {
    chart.dispatchAction({ type: "takeGlobalCursor", key: "brush", brushOption: { brushType: this.active ? "rect" : false, brushMode: "single" } });
  }

  /** Once for each chart. */
  follow(chart: EChartsType): void {
    chart.getZr().on("mousedown", () => void (this.busy = true));
    for (const end of ["mouseup", "globalout"] as const) chart.getZr().on(end, () => void setTimeout(() => this.release())); // after brushEnd
    chart.getZr().on("dblclick", () => void (this.part && this.reset()));
    chart.on("brushEnd", (event) => {
      const [area] = (event as { areas: { range: [Range, Range] }[] }).areas;
      if (area) this.take(chart, area.range);
    });
  }

  private release(): void {
    const { missed } = this;
    this.busy = this.missed = false;
    if (missed) this.changed();
  }

  private take(chart: EChartsType, [across, down]: [Range, Range]): void {
    if (across[1] - across[0] < smallest || down[1] - down[0] < smallest) return this.changed();
    const [left, top] = chart.convertFromPixel({ gridIndex: 0 }, [across[0], down[0]]) as Range;
    const [right, bottom] = chart.convertFromPixel({ gridIndex: 0 }, [across[1], down[1]]) as Range;
    this.part = { x: marked(left, right, is_whole(this.drawn.xAxis)), y: marked(top, bottom, is_whole(this.drawn.yAxis)), of: identity(this.drawn) };
    this.busy = this.missed = false;
    this.changed();
  }
}
