/** Light or dark: as the system says until the reader chooses. */
import { element } from "./dom";

const system = matchMedia("(prefers-color-scheme: dark)");
let chosen: boolean | undefined;

export const is_dark = (): boolean => chosen ?? system.matches;

const show = () => (document.documentElement.dataset["theme"] = is_dark() ? "dark" : "light");

/** What `draw` gives in light colours. The page itself is not drawn in between. */
export function in_light<Drawn>(draw: () => Drawn): Drawn {
  const before = chosen;
  chosen = false;
  show();
  try {
    return draw();
  } finally {
    chosen = before;
    show();
  }
}

export function theme_switch(changed: () => void): HTMLElement {
  const button = element("button", { id: "theme", type: "button", class: "quiet" });
  const show_button = () => {
    show();
    button.textContent = is_dark() ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", is_dark() ? "Switch to light colours" : "Switch to dark colours");
  };
  const update = () => {
    show_button();
    changed();
  };
  button.addEventListener("click", () => {
    chosen = !is_dark();
    update();
  });
  system.addEventListener("change", update);
  show_button();
  return button;
}
