/** Ends of an axis that fit what is drawn. */

export type Range = [number, number];

/** 1, 2 or 5 times a power of ten, so that about `count` of them cover the length. */
export function nice_step(length: number, count: number): number {
  const rough = length / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5].find((digit) => rough <= digit * power * (1 + 1e-9)) ?? 10) * power;
}

/** A sum of many steps without the dust of binary fractions. */
const clean = (value: number): number => Number(value.toPrecision(12));

/** From below the lowest to above the highest value, in whole steps, and never beyond what the measure can be. */
export function limits(values: number[], within: Range = [-Infinity, Infinity]): Range {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return [Math.max(0, within[0]), Math.min(1, within[1])];
  let [low, high] = finite.reduce<Range>(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  if (high - low < 1e-9 * Math.max(1, Math.abs(high))) {
    const room = high === 0 ? 0.5 : Math.abs(high) / 10;
    [low, high] = [low - room, high + room];
  }
  const step = nice_step(high - low, 5);
  return [Math.max(within[0], clean(Math.floor(low / step + 1e-9) * step)), Math.min(within[1], clean(Math.ceil(high / step - 1e-9) * step))];
}

/** What was marked with the mouse, in numbers that an axis can carry. Places on an axis of names are whole. */
export function marked(a: number, b: number, whole: boolean): Range {
  const [low, high] = [Math.min(a, b), Math.max(a, b)];
  if (whole) return [Math.round(low), Math.max(Math.round(high), Math.round(low) + 1)];
  const step = nice_step(high - low, 10);
  return [clean(Math.floor(low / step) * step), clean(Math.ceil(high / step) * step)];
}
