/** Colours that every kind of eye tells apart (Okabe and Ito), and marks and dashes for those that see none. */

const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const on_dark = ["#4fa8e0", "#f0803c", "#2fc79a", "#dd9cc0", "#f0b93a", "#9ad4f5"];
const dashes = ["solid", "dashed", "dotted"] as const;
const symbols = ["circle", "rect", "triangle", "diamond", "roundRect", "pin"];

export interface Look {
  colour: string;
  dash: (typeof dashes)[number];
  symbol: string;
}

export function look(index: number, dark: boolean): Look {
  const set = dark ? on_dark : colours;
  return {
    colour: set[index % set.length]!,
    dash: dashes[Math.floor(index / set.length) % dashes.length]!,
    symbol: symbols[index % symbols.length]!,
  };
}

/** Of the few lines of one chart each has a dash too. */
export const dashed_look = (index: number, dark: boolean): Look => ({ ...look(index, dark), dash: dashes[index % dashes.length]! });

/** Lightness alone carries the value, which every eye and printer keeps. */
export const ramp = (dark: boolean): string[] =>
  dark ? ["#16222e", "#1d4a6e", "#2f7db3", "#7ebbe3", "#e3f2fc"] : ["#f4f8fc", "#b9d7ee", "#63a3d3", "#1f66a5", "#08306b"];
