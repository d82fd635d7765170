import assert from "node:assert/strict";
import { test } from "node:test";
import { distinct, middle } from "../src/labels";

test("a long text keeps its beginning and its end", () => {
  assert.equal(middle("short", 5), "short");
  assert.equal(middle("abcdefghij", 5), "ab…ij");
  assert.equal(middle("😀😀😀😀😀😀", 5), "😀😀…😀😀");
});

test("names that fit stay as they are", () => {
  const names = ["class 0", "class 1"];
  assert.deepEqual(distinct(names, 10), names);
});

test("ten classes with a common prefix are told apart", () => {
  const names = ["melanoma", "nevus", "keratosis", "basal_cell", "angioma", "wart", "scar", "burn", "cyst", "acne"].map((end) => `dermatoscopic_lesion_${end}`);
  assert.deepEqual(distinct(names, 13).slice(0, 4), ["…melanoma", "…nevus", "…keratosis", "…basal_cell"]);
});

test("a prefix ends at the beginning of a word", () => {
  assert.deepEqual(distinct(["benign_keratosis", "benign_kaposi_sarcoma"], 15), ["…keratosis", "…kaposi_sarcoma"]);
});

test("a common ending goes, too", () => {
  assert.deepEqual(distinct(["left-lung-of-the-patient", "right-lung-of-the-patient"], 12), ["left…", "right…"]);
});

test("names that differ in the middle of a long text are told apart", () => {
  const names = ["cat", "a_very_long_name_with_x_inside_of_it", "a_very_long_name_with_y_inside_of_it"];
  const labels = distinct(names, 12);
  assert.equal(new Set(labels).size, 3);
  assert.match(labels[1]!, /x/);
});

test("pairs of words keep both, as far as there is room", () => {
  const words = ["superficial", "left", "anterior", "posterior"];
  const names = words.flatMap((a) => words.map((b) => `dermatoscopic_finding_${a}_${b}`));
  const labels = distinct(names, 13);
  assert.equal(new Set(labels).size, 16);
  assert.equal(labels[10], "…an…anterior");
});

test("labels are different and short, whatever the names are", () => {
  let seed = 7;
  const dice = (sides: number) => (seed = (seed * 48271) % 2147483647) % sides;
  for (let round = 0; round < 200; ++round) {
    const parts = ["alpha", "beta_", "-gamma", " delta", "x", "é", "😀"];
    const names = [...new Set(Array.from({ length: 2 + dice(40) }, () => Array.from({ length: 1 + dice(12) }, () => parts[dice(parts.length)]).join("")))];
    const labels = distinct(names, 14);
    assert.equal(new Set(labels).size, names.length, JSON.stringify([names, labels]));
    for (const label of labels) assert.ok(Array.from(label).length <= 14, label);
  }
});

test("equal names have equal labels", () => {
  assert.deepEqual(distinct(["a long name of a class", "a long name of a class"], 9), ["a lo…lass", "a lo…lass"]);
});
