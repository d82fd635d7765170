/** Noisy curves made readable. */
import type { Point } from "./lines";

/** The exponential mean of the values so far; `weight` is that of the past, from 0 (as recorded) to below 1. */
export function smoothed(curve: Point[], weight: number): Point[] {
  let sum = 0;
  let past = 1;
  return curve.map(([x, value]): Point => {
    sum = weight * sum + (1 - weight) * value;
    past *= weight;
    return [x, sum / (1 - past)]; // a mean from the first value on
  });
}
