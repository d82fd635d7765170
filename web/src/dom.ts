/** Elements from values. Text is only ever set as text: no name of a run or class can become markup. */

type Child = Node | string | number | false | null | undefined;
type Attributes = Record<string, string | number | boolean | EventListener | undefined>;

export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, String(value));
  }
  for (const child of children) if (child !== false && child != null) made.append(child instanceof Node ? child : String(child));
  return made;
}

/** A name somebody else chose: its direction is its own and does not turn the text around it. */
export function name(text: string): HTMLElement {
  return element("bdi", {}, text);
}
