/** Follows the server while runs train: asks every few seconds, and is answered briefly while nothing has changed. */
import { element } from "./dom";
import { read_report } from "./report";
import { show_report } from "./view";

const interval = 2000;

export function follow(): HTMLElement {
  const badge = element("span", { class: "badge", role: "status" }, "connecting …");
  let version = "";
  const ask = async () => {
    try {
      const answer = await fetch("data.json", { headers: version ? { "If-None-Match": version } : {}, cache: "no-store" });
      if (answer.status === 200) {
        version = answer.headers.get("ETag") ?? "";
        show_report({ ...read_report(await answer.text())!, live: true });
      }
      badge.textContent = answer.ok || answer.status === 304 ? "live" : `the server answers ${answer.status}`;
    } catch {
      badge.textContent = "the server is gone; still asking";
    }
    badge.classList.toggle("on", badge.textContent === "live");
    setTimeout(() => void ask(), document.hidden ? 5 * interval : interval);
  };
  void ask();
  return badge;
}
