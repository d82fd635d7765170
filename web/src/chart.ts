/** A card with a chart. It draws itself when it comes into view, and again, while it is there, when what is shown changes. */
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, BrushComponent, GridComponent, LegendComponent, MarkPointComponent, TitleComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import { init, use, type EChartsType } from "echarts/core";
import type { EChartsOption } from "echarts";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";
import { element } from "./dom";
import { download, download_all, type Kind, type Source } from "./picture";
import { on_change } from "./view";
import { Zoom } from "./zoom";

use([
  AriaComponent, BarChart, BrushComponent, CanvasRenderer, CustomChart, GridComponent, HeatmapChart, LegendComponent, LineChart, MarkPointComponent,
  ScatterChart, SVGRenderer, TitleComponent, TooltipComponent, VisualMapComponent,
]);

export interface Drawing {
  option: EChartsOption;
  /** What the reader should know of these very numbers. */
  note?: string;
  height?: number;
  /** The run that it is of, where it is of one. */
  of?: string;
  /** Bars begin at zero and are not zoomed into. */
  whole?: boolean;
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

/** Texts of marks are laid on the ground, so that they can be read above the lines. */
function series_look(series: EChartsOption["series"]): EChartsOption["series"] {
  const label = { fontSize: 11, padding: [1, 3], backgroundColor: colour("card") };
  return [series ?? []].flat().map((each) => ("markPoint" in each ? { ...each, markPoint: { ...each.markPoint, label } } : each)) as EChartsOption["series"];
}

/** Ours over ECharts' defaults: quiet axes, and tooltips drawn as text, so that a name in one is never markup. */
function dressed(option: EChartsOption): EChartsOption {
  return {
    animation: false,
    aria: { enabled: true },
    textStyle: { fontFamily: "inherit" },
    ...option,
    series: series_look(option.series),
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

/** Every chart of the page, for saving all of them. */
const sources: Source[] = [];

export const save_all = (kind: Kind): Promise<void> => download_all(sources, kind);

/** Buttons that save the chart and end its zoom. */
function tools_of(source: Source, zoom: Zoom, note: HTMLElement) {
  const save = async (kind: Kind) => {
    try {
      await download(source, kind);
    } catch (error) {
      note.textContent = `cannot be saved: ${error instanceof Error ? error.message : error}`;
    }
  };
  const button = (text: string, label: string, click: () => void, style = "") => element("button", { type: "button", class: `tool ${style}`, title: label, "aria-label": label, click }, text);
  const reset = button("Reset zoom", "Show the whole chart again", () => zoom.reset());
  const touch = button("Zoom", "Zoom by dragging", () => zoom.mark_by_touch(!zoom.marks), "by-touch");
  const save_as = (["svg", "png"] as const).map((kind) => button(kind.toUpperCase(), `Save as ${kind.toUpperCase()}`, () => void save(kind)));
  const update = (drawing: Drawing | null) => {
    reset.hidden = !zoom.is_on;
    touch.hidden = !drawing || drawing.whole === true;
    touch.setAttribute("aria-pressed", String(zoom.marks));
    for (const each of save_as) each.hidden = !drawing;
  };
  return { box: element("div", { class: "tools" }, reset, touch, ...save_as), update };
}

/** `draw` gives a drawing, or a word on why there is none, or null where the card has no place. */
export function chart_card(title: string, draw: () => Drawing | string | null, controls: Control[] = []): HTMLElement {
  const canvas = element("div", { class: "chart", role: "img", "aria-label": title });
  const note = element("p", { class: "note", "aria-live": "polite" });
  const zoom = new Zoom(() => update());
  const source = () => {
    const drawing = draw();
    if (!drawing || typeof drawing === "string") return null;
    return { title: drawing.of ? `${title}: ${drawing.of}` : title, option: dressed(zoom.cut(drawing.option)), height: drawing.height ?? 300 };
  };
  sources.push(source);
  const tools = tools_of(source, zoom, note);
  const card = element(
    "figure", { class: "card" },
    element("figcaption", {}, element("h3", {}, title), tools.box, element("div", { class: "controls" }, ...controls.map((control) => control.box))),
    canvas, note,
  );
  let chart: EChartsType | undefined;
  let near = false; // to what the reader sees
  let stale = true;

  const show = () => {
    controls.forEach((control) => control.update?.());
    const drawing = draw();
    const drawn = typeof drawing === "string" ? null : drawing;
    card.hidden = drawing === null;
    canvas.hidden = drawn === null;
    note.textContent = typeof drawing === "string" ? drawing : (drawing?.note ?? "");
    stale = !near;
    if (drawn === null || stale) {
      tools.update(drawn);
      if (drawn) canvas.style.height = `${drawn.height ?? 300}px`;
      return;
    }
    canvas.style.height = `${drawn.height ?? 300}px`;
    if (!chart) {
      chart = init(canvas);
      zoom.follow(chart);
    }
    chart.resize();
    chart.setOption(dressed(drawn.whole ? drawn.option : zoom.applied(drawn.option)), true);
    if (!drawn.whole) zoom.arm(chart);
    tools.update(drawn);
    canvas.style.touchAction = !drawn.whole && zoom.marks ? "none" : "";
  };
  // A run's numbers may not fit together. Then this card says so, and the others are as they would be without it.
  const update = () => {
    if (zoom.wait()) return;
    try {
      show();
    } catch (error) {
      chart?.dispose();
      chart = undefined;
      card.hidden = false;
      canvas.hidden = true;
      tools.update(null);
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
