/** Pictures of examples as blob addresses: fetched with the token, a few at a time, and kept. */

import { readImage } from "./api.js";
import { state } from "./state.js";

const AT_ONCE = 3; // leaves connections for the answers
const KEPT = 800;
const kept = new Map();
const waiting = [];
let running = 0;

/**
 * The address of an example's picture.
 * @param {import("./state.js").Example} example
 * @param {"given"|"seen"} [view]
 * @param {boolean} [soon] before the thumbnails that wait
 * @returns {Promise<string>}
 */
export function picture(example, size = 96, view = "given", soon = false) {
  const key = [state.gallery?.id, example.id, example.damage, size, view].join("/");
  if (!kept.has(key)) {
    kept.set(key, fetchLater(key, state.gallery?.id, example.id, { size, view }));
    kept.get(key).catch(() => kept.delete(key));
    if (kept.size > KEPT) dropOldest();
  }
  if (soon) {
    const at = waiting.findIndex((one) => one.key === key);
    if (at > 0) waiting.unshift(...waiting.splice(at, 1));
  }
  return kept.get(key);
}

/** Show an example in an image element; a later call wins. */
export function show(image, example, size, view, soon) {
  const wanted = `${example.id}/${example.damage}/${view}`;
  if (image.dataset.shows === wanted) return;
  image.dataset.shows = wanted;
  picture(example, size, view, soon).then(
    (url) => image.dataset.shows === wanted && image.setAttribute(image.localName === "image" ? "href" : "src", url),
    () => image.dataset.shows === wanted && delete image.dataset.shows,
  );
}

function fetchLater(key, gallery, id, query) {
  return new Promise((done, failed) => {
    const run = () => readImage(gallery, id, query).then((blob) => done(URL.createObjectURL(blob)), failed);
    waiting.push({ key, run });
    next();
  });
}

function next() {
  while (running < AT_ONCE && waiting.length) {
    running++;
    waiting.shift().run().finally(() => {
      running--;
      next();
    });
  }
}

function dropOldest() {
  const [key, url] = kept.entries().next().value;
  kept.delete(key);
  url.then((address) => setTimeout(() => URL.revokeObjectURL(address), 10_000), () => {});
}
