/** Light or dark: as the system says until the reader chooses. */
import { element } from "./dom";

const system = matchMedia("(prefers-color-scheme: dark)");
let chosen: boolean | undefined;

export const is_dark = (): boolean => chosen ?? system.matches;

export function theme_switch(changed: () => void): HTMLElement {
  const button = element("button", { id: "theme", type: "button", class: "quiet" });
  const show = () => {
    document.documentElement.dataset["theme"] = is_dark() ? "dark" : "light";
    button.textContent = is_dark() ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", is_dark() ? "Switch to light colours" : "Switch to dark colours");
  };
  const update = () => {
    show();
    changed();
  };
  button.addEventListener("click", () => {
    chosen = !is_dark();
    update();
  });
  system.addEventListener("change", update);
  show();
  return button;
}
