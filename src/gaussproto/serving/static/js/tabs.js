/** On a phone the page shows one part at a time; the bar at the bottom changes it. */

const buttons = () => document.querySelectorAll(".tabs button");

export function showTab(tab) {
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
