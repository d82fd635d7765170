/** Names made short in a way that leaves them different. */

const letters = (text: string): string[] => Array.from(text);

/** The beginning and the end of a text that has more letters than `most`. */
export function middle(text: string, most: number): string {
  const all = letters(text);
  if (all.length <= most) return text;
  const kept = Math.max(2, most - 1);
  const end = Math.floor(kept / 2);
  return `${all.slice(0, kept - end).join("")}…${all.slice(all.length - end).join("")}`;
}

const is_word = (letter: string | undefined): boolean => letter !== undefined && /[\p{L}\p{N}]/u.test(letter);

/** How many first letters all have in common. */
function shared(names: string[][]): number {
  const first = names[0]!;
  let length = 0;
  while (length < first.length && names.every((name) => name[length] === first[length])) ++length;
  return length;
}

/** As many of them as end with a separator. */
function whole_words(letters_shared: string[]): number {
  for (let length = letters_shared.length; length > 0; --length) if (!is_word(letters_shared[length - 1])) return length;
  return 0;
}

const reversed = (names: string[][]): string[][] => names.map((name) => [...name].reverse());

/** Without the beginning and the end that all have in common. */
function without_shared(names: string[]): string[] {
  const all = names.map(letters);
  const same = shared(all);
  const front = whole_words(all[0]!.slice(0, same)) || same;
  const rest = reversed(all.map((name) => name.slice(front)));
  const back = whole_words(rest[0]!.slice(0, shared(rest)));
  const shown = all.map((name) => name.slice(front, name.length - back).join(""));
  if (shown.some((text) => text === "")) return names;
  const mark = (length: number) => (length > 0 ? "…" : "");
  return shown.map((text) => `${mark(front)}${text}${mark(back)}`);
}

/** Renames the texts that are alike, given their places. */
function told_apart(texts: string[], rename: (places: number[]) => string[]): string[] {
  const places = new Map<string, number[]>();
  texts.forEach((text, i) => places.set(text, [...(places.get(text) ?? []), i]));
  const renamed = [...texts];
  for (const alike of places.values()) if (alike.length > 1) rename(alike).forEach((text, i) => (renamed[alike[i]!] = text));
  return renamed;
}

/** The beginning that these texts share, as far as there is room, and that in which they differ. */
function with_tails(texts: string[], most: number): string[] {
  const tails = without_shared(texts);
  const room = most - tails.reduce((longest, tail) => Math.max(longest, letters(tail).length), 0);
  return tails.map((tail, i) => (room > 0 && tail.startsWith("…") ? letters(texts[i]!).slice(0, room).join("") + tail : middle(tail, most)));
}

/** At most `most` letters each. Different names stay different: they lose what they have in common, then their middle. */
export function distinct(names: string[], most: number): string[] {
  const different = [...new Set(names)];
  if (different.length < 2 || different.every((name) => letters(name).length <= most)) return names.map((name) => middle(name, most));
  const stripped = without_shared(different);
  let labels = stripped.map((text) => middle(text, most));
  labels = told_apart(labels, (places) => with_tails(places.map((i) => stripped[i]!), most));
  labels = told_apart(labels, (places) => places.map((i) => `${middle(labels[i]!, most - 1 - String(i).length)}·${i}`));
  const label_of = new Map(different.map((name, i) => [name, labels[i]!]));
  return names.map((name) => label_of.get(name)!);
}
