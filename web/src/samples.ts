/** Test images of one run with their predictions, the most confident mistakes first. */
import { by_size } from "./classes";
import { Choice } from "./chart";
import { element, name } from "./dom";
import { share } from "./format";
import { distinct, middle } from "./labels";
import type { Run, Sample } from "./report";
import { in_order } from "./sample_order";
import { detailed_run, on_change } from "./view";

function picture({ truth, answer, confidence, png }: Sample, names: string[], labels: string[]): HTMLElement {
  const [right, said] = [names[truth]!, names[answer]!];
  const wrong = truth !== answer;
  const image = element("img", { src: `data:image/png;base64,${png}`, alt: `test image of ${right}` });
  const texts = [
    element("b", { title: said }, wrong ? "✗ " : "✓ ", name(labels[answer]!)),
    element("span", {}, `confidence ${share(confidence)}`),
    wrong && element("span", { title: right }, "truth: ", name(labels[truth]!)),
  ];
  return element("li", { class: wrong ? "wrong" : "right" }, image, ...texts);
}

function class_filter(): Choice {
  return new Choice("Class", () => {
    const run = detailed_run();
    const seen = new Set(run?.samples?.images.flatMap(({ truth, answer }) => [truth, answer]));
    const classes = run ? by_size(run).filter((c) => seen.has(c)) : [];
    return [{ value: "", label: "all" }, ...classes.map((c) => ({ value: String(c), label: middle(run!.classes!.names[c]!, 60) }))];
  });
}

const note_of = (run: Run): string =>
  `Predictions of round ${run.samples!.round}: mistakes from the most confident on, then right answers from the least confident on. The images are inside this page: fedgrab report --no-samples leaves them out.`;

export function samples_card(): HTMLElement {
  const choice = class_filter();
  const list = element("ul", { class: "samples" });
  const note = element("p", { class: "note" });
  const card = element(
    "figure", { class: "card wide", id: "samples" },
    element("figcaption", {}, element("h3", {}, "Test images and predictions"), element("div", { class: "controls" }, choice.box)),
    list, note,
  );
  let drawn = "";
  const update = () => {
    choice.update();
    const run = detailed_run();
    card.hidden = !run?.samples || !run.classes || run.classes.names.length === 0;
    if (card.hidden) return;
    const { names } = run!.classes!;
    const shown = in_order(run!.samples!.images).filter(({ truth, answer }) => choice.value === "" || [truth, answer].includes(Number(choice.value)));
    const now = JSON.stringify([run!.name, run!.samples!.round, choice.value]);
    if (now === drawn) return;
    drawn = now;
    const labels = distinct(names, 30);
    list.replaceChildren(...shown.map((sample) => picture(sample, names, labels)));
    note.textContent = note_of(run!);
  };
  card.addEventListener("redraw", update);
  on_change(update);
  update();
  return card;
}
