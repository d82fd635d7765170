import assert from "node:assert/strict";
import { test } from "node:test";
import { limits, marked, nice_step } from "../src/limits";

test("steps are 1, 2 or 5 times a power of ten", () => {
  assert.deepEqual([1, 0.3, 7, 60, 0.012].map((length) => nice_step(length, 5)), [0.2, 0.1, 2, 20, 0.005]);
});

test("an axis fits its values", () => {
  assert.deepEqual(limits([0.71, 0.74], [0, 1]), [0.71, 0.74]);
  assert.deepEqual(limits([0.713, 0.738, NaN], [0, 1]), [0.71, 0.74]);
  assert.deepEqual(limits([0.013, 0.995], [0, 1]), [0, 1]);
});

test("an axis never goes beyond what the measure can be", () => {
  assert.deepEqual(limits([0.96, 1.04, -0.2], [0, 1]), [0, 1]);
  assert.equal(limits([0.001, 2.4], [0, Infinity])[0], 0);
});

test("a single value has room on both sides, and no value an axis", () => {
  assert.deepEqual(limits([0.5, 0.5], [0, 1]), [0.44, 0.56]);
  assert.deepEqual(limits([0], [0, 1]), [0, 0.6]);
  assert.deepEqual(limits([], [0, 1]), [0, 1]);
});

test("what was marked becomes numbers that an axis can carry", () => {
  assert.deepEqual(marked(120.73, 40.21, false), [40, 130]);
  assert.deepEqual(marked(3.4, 3.3, true), [3, 4]);
  const [low, high] = marked(0.71234, 0.73456, false);
  assert.ok(low <= 0.71234 && high >= 0.73456 && String(low).length <= 6 && String(high).length <= 6, `${low} ${high}`);
});
