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
 * @returns {Promise<string>}
 */
export function picture(example, size = 96, view = "given") {
  const key = [state.gallery?.id, example.id, example.damage, size, view].join("/");
  if (!kept.has(key)) {
    kept.set(key, fetchLater(state.gallery?.id, example.id, { size, view }));
    kept.get(key).catch(() => kept.delete(key));
    if (kept.size > KEPT) dropOldest();
  }
  return kept.get(key);
}

/** Show an example in an image element; a later call wins. */
export function show(image, example, size, view) {
  const wanted = `${example.id}/${example.damage}/${view}`;
  if (image.dataset.shows === wanted) return;
  image.dataset.shows = wanted;
  picture(example, size, view).then(
    (url) => image.dataset.shows === wanted && image.setAttribute(image.localName === "image" ? "href" : "src", url),
    () => image.dataset.shows === wanted && delete image.dataset.shows,
  );
}

function fetchLater(gallery, id, query) {
  return new Promise((done, failed) => {
    waiting.push(() => readImage(gallery, id, query).then((blob) => done(URL.createObjectURL(blob)), failed));
    next();
  });
}

function next() {
  while (running < AT_ONCE && waiting.length) {
    running++;
    waiting.shift()().finally(() => {
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
