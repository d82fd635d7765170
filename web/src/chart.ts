/** A card with a chart. It draws itself when it comes into view, and again, while it is there, when what is shown changes. */
import { BarChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import { init, use, type EChartsType } from "echarts/core";
import type { EChartsOption } from "echarts";
import { CanvasRenderer } from "echarts/renderers";
import { element } from "./dom";
import { on_change } from "./view";

use([
  AriaComponent, BarChart, CanvasRenderer, GridComponent, HeatmapChart, LegendComponent, LineChart, MarkLineComponent,
  ScatterChart, TooltipComponent, VisualMapComponent,
]);

export interface Drawing {
  option: EChartsOption;
  /** What the reader should know of these very numbers. */
  note?: string;
  height?: number;
}

export interface Control {
  box: HTMLElement;
  update?: () => void;
}

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function axis_look(axis: unknown): unknown {
  if (Array.isArray(axis)) return axis.map(axis_look);
  const own = axis as { axisLabel?: object; nameTextStyle?: object } | undefined;
  return {
    ...own,
    nameLocation: "middle",
    axisLine: { lineStyle: { color: colour("line") } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: colour("line"), opacity: 0.6 } },
    axisLabel: { color: colour("soft"), hideOverlap: true, ...own?.axisLabel },
    nameTextStyle: { color: colour("soft"), ...own?.nameTextStyle },
  };
}

/** Ours over ECharts' defaults: quiet axes, and tooltips drawn as text, so that a name in one is never markup. */
function dressed(option: EChartsOption): EChartsOption {
  return {
    animation: false,
    aria: { enabled: true },
    textStyle: { fontFamily: "inherit" },
    ...option,
    grid: { left: 58, right: 18, top: 16, bottom: 44, ...(option.grid as object) },
    tooltip: {
      renderMode: "richText",
      confine: true,
      backgroundColor: colour("card"),
      borderColor: colour("line"),
      textStyle: { color: colour("ink"), fontSize: 12 },
      ...(option.tooltip as object),
    },
    xAxis: axis_look({ nameGap: 28, ...(option.xAxis as object) }) as EChartsOption["xAxis"],
    yAxis: axis_look({ nameGap: 42, ...(option.yAxis as object) }) as EChartsOption["yAxis"],
    ...(option.visualMap ? { visualMap: { textStyle: { color: colour("soft") }, ...(option.visualMap as object) } } : {}),
    ...(option.legend ? { legend: { textStyle: { color: colour("ink") }, inactiveColor: colour("line"), type: "plain", top: 0, left: 0, ...(option.legend as object) } } : {}),
  };
}

/** `draw` gives a drawing, or a word on why there is none, or null where the card has no place. */
export function chart_card(title: string, draw: () => Drawing | string | null, controls: Control[] = []): HTMLElement {
  const canvas = element("div", { class: "chart", role: "img", "aria-label": title });
  const note = element("p", { class: "note" });
  const card = element(
    "figure", { class: "card" },
    element("figcaption", {}, element("h3", {}, title), element("div", { class: "controls" }, ...controls.map((control) => control.box))),
    canvas, note,
  );
  let chart: EChartsType | undefined;
  let near = false; // to what the reader sees
  let stale = true;

  const show = () => {
    controls.forEach((control) => control.update?.());
    const drawing = draw();
    card.hidden = drawing === null;
    canvas.hidden = typeof drawing === "string";
    note.textContent = typeof drawing === "string" ? drawing : (drawing?.note ?? "");
    stale = !near;
    if (drawing === null || typeof drawing === "string") return;
    canvas.style.height = `${drawing.height ?? 300}px`;
    if (stale) return;
    chart ??= init(canvas);
    chart.resize();
    chart.setOption(dressed(drawing.option), true);
  };
  // A run's numbers may not fit together. Then this card says so, and the others are as they would be without it.
  const update = () => {
    try {
      show();
    } catch (error) {
      chart?.dispose();
      chart = undefined;
      card.hidden = false;
      canvas.hidden = true;
      note.textContent = `cannot be drawn: ${error instanceof Error ? error.message : error}`;
    }
  };

  const move = (now_near: boolean) => {
    near = now_near;
    if (near && stale) update();
  };
  new IntersectionObserver((entries) => move(entries[entries.length - 1]!.isIntersecting), { rootMargin: "300px" }).observe(card);
  addEventListener("beforeprint", () => move(true)); // paper shows all of them
  new ResizeObserver(() => chart?.resize()).observe(canvas);
  card.addEventListener("redraw", update);
  on_change(update);
  update();
  return card;
}

/** A choice among texts that redraws the card it stands in. The first one holds until the reader chooses. */
export class Choice implements Control {
  readonly box: HTMLElement;
  private readonly list = element("select");
  private shown = "";

  constructor(label: string, private readonly options: () => { value: string; label: string }[]) {
    this.list.addEventListener("change", () => this.list.dispatchEvent(new Event("redraw", { bubbles: true })));
    this.box = element("label", {}, label, this.list);
    this.update();
  }

  get value(): string {
    return this.list.value;
  }

  choose(value: string): void {
    this.list.value = value;
  }

  /** New options, the same choice where it still exists. */
  update(): void {
    const options = this.options();
    const now = JSON.stringify(options);
    if (now === this.shown) return;
    this.shown = now;
    const chosen = this.value;
    this.list.replaceChildren(...options.map(({ value, label }) => element("option", { value }, label)));
    if (options.some(({ value }) => value === chosen)) this.list.value = chosen;
    this.box.hidden = options.length < 2;
  }
}

/** "Every 3rd round is drawn." where curves were thinned. */
export function thinned(every: number): string {
  return every > 1 ? `Thinned: every ${every}${every % 10 === 2 && every !== 12 ? "nd" : every % 10 === 3 && every !== 13 ? "rd" : "th"} round, the first and the last are drawn.` : "";
}
