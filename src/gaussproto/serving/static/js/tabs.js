/** On a phone the page shows one part at a time; the bar at the bottom changes it. */

import { byId } from "./element.js";
import { set } from "./state.js";

const buttons = () => document.querySelectorAll(".tabs button");

export function showTab(tab) {
  if (tab !== document.body.dataset.tab) set({ selected: null }); // the sheet of an example would cover the other part
  document.body.dataset.tab = tab;
  for (const button of buttons()) {
    if (button.dataset.tab === tab) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

export function startTabs() {
  for (const button of buttons()) {
    button.addEventListener("click", () => {
      showTab(button.dataset.tab);
      scrollTo(0, 0);
    });
  }
}

/** The links at the top, for those who come with the Tab key. */
export function startSkipping() {
  for (const link of document.querySelectorAll(".skip")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      showTab(link.dataset.tab);
      byId(link.getAttribute("href").slice(1)).focus();
    });
  }
}
