/** A table that sorts by a click on a heading and gives itself as CSV. */
import { element, name as named } from "./dom";

export interface Cell {
  text: string;
  /** What it is sorted by, where that is not its text. */
  value?: number;
  /** Marks it, and says why. */
  mark?: { style: "best" | "short"; why: string };
}

/** A spreadsheet executes what begins like a formula, unless an apostrophe says that it is text. */
const harmless = (text: string) => (/^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text);
const quoted = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csv_field = (text: string) => quoted(harmless(text));

/** Numbers before texts; what is missing stays last whichever way it is sorted. */
function compare(a: Cell, b: Cell, sign: number): number {
  const [missing_a, missing_b] = [a.text === "–", b.text === "–"];
  if (missing_a || missing_b) return Number(missing_a) - Number(missing_b);
  return sign * (a.value !== undefined && b.value !== undefined ? a.value - b.value : a.text.localeCompare(b.text));
}

export class SortedTable {
  readonly table = element("table");
  private column = -1;
  private sign = 1;
  private rows: Cell[][] = [];

  constructor(private readonly headings: string[]) {}

  show(rows: Cell[][]): void {
    this.rows = rows;
    this.draw();
  }

  csv(): string {
    return [this.headings, ...this.sorted().map((row) => row.map((cell) => cell.text))].map((row) => `${row.map(csv_field).join(",")}\n`).join("");
  }

  private sorted(): Cell[][] {
    return this.column < 0 ? this.rows : [...this.rows].sort((a, b) => compare(a[this.column]!, b[this.column]!, this.sign));
  }

  private sort_by(column: number): void {
    this.sign = this.column === column ? -this.sign : this.rows[0]?.[column]?.value === undefined ? 1 : -1;
    this.column = column;
    this.draw();
    this.table.querySelectorAll<HTMLElement>("thead button")[column]?.focus();
  }

  private draw(): void {
    const is_text = this.headings.map((_, i) => this.rows.every((row) => row[i]!.value === undefined));
    const heads = this.headings.map((heading, i) => {
      const order = this.column !== i ? "none" : this.sign > 0 ? "ascending" : "descending";
      const arrow = { none: "", ascending: " ▲", descending: " ▼" }[order];
      return element("th", { scope: "col", class: is_text[i] ? "text" : "", "aria-sort": order }, element("button", { type: "button", click: () => this.sort_by(i) }, heading + arrow));
    });
    const body = this.sorted().map((row) =>
      element("tr", {}, ...row.map((cell, i) => element(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : { class: `${is_text[i] ? "text" : ""} ${cell.mark?.style ?? ""}`.trim(), title: cell.mark?.why }, named(cell.text.replace("± ", "±\u00a0"))))), // a narrow cell breaks before the ±
    );
    this.table.replaceChildren(element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body));
  }
}
