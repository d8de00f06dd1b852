/** Say what is going on when it takes longer than a moment. */

import { byId, h } from "./element.js";

const PATIENCE = 400; // milliseconds
const running = new Set();
const place = byId("progress");

/**
 * @template T
 * @param {string} text for example "Adding 12 images"
 * @param {(step: (done: number, of: number) => void) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function track(text, work) {
  const bar = h("progress", { "aria-label": text });
  const entry = { element: h("div", {}, h("span", {}, `${text} …`), bar), shown: false };
  const timer = setTimeout(() => {
    entry.shown = true;
    draw();
  }, PATIENCE);
  running.add(entry);
  try {
    return await work((done, of) => {
      bar.max = of;
      bar.value = done;
    });
  } finally {
    clearTimeout(timer);
    running.delete(entry);
    draw();
  }
}

function draw() {
  const shown = [...running].filter((entry) => entry.shown);
  const parent = document.querySelector("dialog[open]") ?? document.body; // a dialog hides what is not in it
  if (place.parentNode !== parent) parent.append(place);
  place.replaceChildren(...shown.map((entry) => entry.element));
  place.hidden = shown.length === 0;
}
