/** Light or dark: as the system has it, until the user chooses. */

import { byId } from "./element.js";

const KEY = "gaussproto-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export function startTheme() {
  const draw = () => {
    const chosen = localStorage.getItem(KEY);
    const dark = chosen ? chosen === "dark" : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    byId("theme").setAttribute("aria-pressed", String(dark));
  };
  system.addEventListener("change", draw);
  byId("theme").addEventListener("click", () => {
    localStorage.setItem(KEY, document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    draw();
  });
  draw();
}
