import assert from "node:assert/strict";
import { test } from "node:test";
import { best_of, with_room, type Point } from "../src/lines";
import { counted, mean_curve, spread } from "../src/seeds";
import { smoothed } from "../src/smoothing";
import { run } from "./runs";

const curve: Point[] = [[1, 0.2], [2, 0.8], [3, 0.4], [4, 0.8]];

test("no smoothing leaves a curve as it was recorded", () => {
  assert.deepEqual(smoothed(curve, 0), curve);
});

test("a smoothed curve begins at its first value and is a mean of those so far", () => {
  const [first, second] = smoothed(curve, 0.5);
  assert.deepEqual(first, [1, 0.2]);
  assert.ok(Math.abs(second![1] - (0.5 * 0.2 + 0.8) / 1.5) < 1e-12);
});

test("a constant stays constant, however much it is smoothed", () => {
  for (const [, value] of smoothed(Array.from({ length: 500 }, (_, i): Point => [i, 0.7]), 0.98)) assert.ok(Math.abs(value - 0.7) < 1e-9);
});

test("smoothing takes noise away", () => {
  const noisy = Array.from({ length: 200 }, (_, i): Point => [i, i % 2]);
  const values = smoothed(noisy, 0.9).slice(100).map(([, value]) => value);
  assert.ok(Math.max(...values) - Math.min(...values) < 0.12);
});

test("the best point is the first of the highest, or of the lowest", () => {
  assert.deepEqual(best_of(curve, "most"), [2, 0.8]);
  assert.deepEqual(best_of(curve, "least"), [1, 0.2]);
  assert.equal(best_of([], "most"), undefined);
});

test("the mean of several seeds is at the rounds that all of them have", () => {
  const { mean, deviation } = mean_curve([[[1, 0], [2, 1], [3, 1]], [[1, 1], [2, 2]]]);
  assert.deepEqual(mean, [[1, 0.5], [2, 1.5]]);
  assert.ok(deviation.every((value) => Math.abs(value - Math.SQRT1_2) < 1e-12));
  assert.deepEqual(spread([3]), { mean: 3, deviation: 0 });
});

test("an experiment is judged by the seeds that have ended", () => {
  const [ended, stopped] = [run({ result: {} as never }), run({ state: "stopped" })];
  assert.deepEqual(counted([stopped, ended]), [ended]);
  assert.deepEqual(counted([stopped]), [stopped]);
});

test("texts beside marks keep apart, the first ones stay", () => {
  const [first, near, far]: Point[] = [[100, 0.9], [110, 0.88], [110, 0.3]];
  assert.deepEqual([...with_room([first!, near!, far!], 50, 0.1)], [first, far]);
});
