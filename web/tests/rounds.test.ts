import assert from "node:assert/strict";
import { test } from "node:test";
import { read_report } from "../src/report";
import { most_rounds, shortfall, shortfalls } from "../src/rounds";
import { in_order } from "../src/sample_order";
import { bytes, duration, share } from "../src/format";
import { run } from "./runs";

test("a run that ended early says how far it came", () => {
  const runs = [run({ name: "a" }), run({ name: "b", state: "stopped", done: 262 })];
  assert.equal(shortfalls(runs), "b has 262 of 500 rounds.");
  assert.equal(shortfalls([run()]), "");
});

test("a run is compared with the longest beside it and with its own configuration", () => {
  const patient = run({ rounds: 262, done: 262, config: { "train.rounds": "500" } });
  assert.equal(shortfall(patient, most_rounds([patient])), "262 of 500 rounds");
  assert.equal(shortfall(run({ rounds: 100, done: 100 }), most_rounds([run({ rounds: 100 }), run()])), "100 of 500 rounds");
});

test("a run that still trains, or has not begun, did not end early", () => {
  assert.equal(shortfalls([run(), run({ state: "running", done: 3 }), run({ state: "waiting", done: 0 })]), "");
});

test("of many short runs three are named", () => {
  const runs = Array.from({ length: 7 }, (_, i) => run({ name: `r${i}`, state: "stopped", done: 5 }));
  assert.equal(shortfalls(runs), "r0 has 5 of 500 rounds, r1 has 5 of 500 rounds, r2 has 5 of 500 rounds, and 4 more have fewer.");
});

test("the most confident mistakes come first, and the surest right answers last", () => {
  const sample = (truth: number, answer: number, confidence: number) => ({ truth, answer, confidence, png: "" });
  const samples = [sample(0, 0, 0.9), sample(0, 1, 0.6), sample(1, 1, 0.4), sample(1, 0, 0.99)];
  assert.deepEqual(in_order(samples).map(({ confidence }) => confidence), [0.99, 0.6, 0.4, 0.9]);
});

test("a name cannot turn the text around it", () => {
  assert.equal(read_report('{"runs":[{"name":"left\u202etfel"}]}')!.runs[0]!.name, "left[U+202E]tfel");
});

test("numbers are written as people read them", () => {
  assert.deepEqual([share(null), share(0.81249), bytes(1_234_567), bytes(12), duration(3725), duration(75), duration(1.234)], ["–", "0.812", "1.23 MB", "12 B", "1:02:05", "1:15", "1.23 s"]);
});
