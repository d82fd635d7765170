/** Charts as files for papers and slides: ECharts draws them once more, in light colours, with their title and a legend. */
import type { EChartsOption } from "echarts";
import { init } from "echarts/core";
import { in_light } from "./theme";

export type Kind = "svg" | "png";

/** What is drawn, and called what; null where there is nothing to draw. */
export type Source = () => { title: string; option: EChartsOption; height: number } | null;

const width = 760;
const margin = 12;
const font = "Helvetica, Arial, sans-serif";

interface Named {
  name?: string;
}

const names_of = (option: EChartsOption): string[] => [...new Set([option.series ?? []].flat().flatMap((series) => (series as Named).name ?? []))];

/** Rows that a legend of these names needs: letters are about 7 pixels wide, and each has its line before it. */
export function legend_rows(names: string[]): number {
  let [rows, used] = [1, 0];
  for (const name of names) {
    const wide = 50 + 7 * name.length;
    if (used > 0 && used + wide > width - 2 * margin) [rows, used] = [rows + 1, 0];
    used += wide;
  }
  return rows;
}

function on_paper({ title, option, height }: NonNullable<ReturnType<Source>>): { option: EChartsOption; height: number } {
  const grid = option.grid as { top?: number };
  const names = names_of(option);
  const legend = option.legend ? (option.legend as object) : names.length > 1 ? { data: names } : undefined;
  const above = 34 + (legend && !option.legend ? 22 * legend_rows(names) : 0);
  return {
    height: height + above,
    option: {
      ...option,
      backgroundColor: "#ffffff",
      textStyle: { fontFamily: font },
      title: { text: title, left: margin, top: 8, textStyle: { fontSize: 14, fontFamily: font, color: "#1d2430" } },
      grid: { ...grid, top: (grid.top ?? 16) + above },
      ...(legend ? { legend: { type: "plain", left: margin, ...legend, top: 34 } } : {}),
      ...(option.visualMap ? { visualMap: { ...(option.visualMap as object), top: 34 } } : {}),
      tooltip: { show: false },
    },
  };
}

function svg_of(option: EChartsOption, height: number): Blob {
  const chart = init(null, null, { renderer: "svg", ssr: true, width, height });
  chart.setOption(option);
  const text = chart.renderToSVGString();
  chart.dispose();
  return new Blob([text], { type: "image/svg+xml" });
}

/** At twice the size, for papers and sharp screens. */
function png_of(option: EChartsOption, height: number): Promise<Blob> {
  const chart = init(document.createElement("div"), null, { renderer: "canvas", devicePixelRatio: 1, width, height });
  chart.setOption(option);
  const canvas = chart.renderToCanvas({ pixelRatio: 2 });
  return new Promise((done, failed) => {
    canvas.toBlob((blob) => {
      chart.dispose();
      if (blob) done(blob);
      else failed(new Error("the browser makes no PNG of it"));
    });
  });
}

export const file_name = (title: string, kind: Kind): string => `${title.replace(/[^\p{L}\p{N}.+]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 100) || "chart"}.${kind}`;

function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** False where there is nothing to draw. */
export async function download(source: Source, kind: Kind): Promise<boolean> {
  const drawn = in_light(source);
  if (!drawn) return false;
  const { option, height } = on_paper(drawn);
  save(kind === "svg" ? svg_of(option, height) : await png_of(option, height), file_name(drawn.title, kind));
  return true;
}

const pause = 150; // milliseconds: browsers drop downloads that follow each other too closely

export async function download_all(sources: Source[], kind: Kind): Promise<void> {
  for (const source of sources) if (await download(source, kind)) await new Promise((done) => setTimeout(done, pause));
}
