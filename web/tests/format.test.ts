/** Numbers as people read them. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { count_on_log_axis, none_on_log_axis } from "../src/format";

test("places on a logarithmic axis are counts again", () => {
  for (const count of [1, 7, 15, 648, 5000, 1_000_000]) assert.equal(count_on_log_axis(10 ** Math.log10(count)), String(count));
  assert.equal(count_on_log_axis(14.999999999999986), "15");
  assert.equal(count_on_log_axis(none_on_log_axis), "0");
});
