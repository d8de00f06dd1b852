/** Keep the page in step with the store: after an edit, when another tab says so, and by looking every second. */

import * as api from "./api.js";
import { forgetColours, set, state } from "./state.js";

const EVERY = 1000; // milliseconds
const HIDDEN_EVERY = 10_000;
const REMEMBERED = "gaussproto-gallery";

const tabs = new BroadcastChannel("gaussproto");
let etag = null;
let current = null;
let again = false;

/** Emits `gone` when the gallery was deleted elsewhere. */
export const store = new EventTarget();

/** Open the gallery of the last visit, else the newest, else a new one. */
export async function start() {
  const galleries = await api.listGalleries();
  const last = localStorage.getItem(REMEMBERED);
  const newest = [...galleries].sort((a, b) => (a.changed < b.changed ? 1 : -1))[0];
  const found = galleries.find((g) => g.id === last) ?? newest ?? (await api.createGallery({ name: "My symbols" }));
  await open(found.id);
}

export async function open(id) {
  localStorage.setItem(REMEMBERED, id);
  forgetColours();
  etag = null;
  set({ selected: null, hot: null, answer: null, plane: null, gallery: { ...EMPTY, id } });
  await refresh();
}

const EMPTY = { name: "…", encoder: "", reject: null, version: -1, classes: [] };

/** After an edit in this tab. */
export async function changed() {
  tabs.postMessage({ gallery: state.gallery?.id });
  await refresh();
}

export function setWeights(weights) {
  etag = null;
  set({ weights });
  return refresh();
}

/** Read the gallery and its plane, if they changed. Calls that come meanwhile share one more reading. */
export function refresh() {
  if (current) {
    again = true;
    return current;
  }
  current = (async () => {
    try {
      do {
        again = false;
        await load();
      } while (again);
    } finally {
      current = null;
    }
  })();
  return current;
}

async function load() {
  const { weights } = state;
  const id = state.gallery?.id;
  if (!id) return;
  let found;
  try {
    found = await api.readGallery(id, weights, etag);
  } catch (error) {
    if (error.status === 404 && state.gallery?.id === id) await fallBack();
    else throw error;
    return;
  }
  if (!found) return;
  const read = found.gallery.classes.some((c) => c.examples.length) ? await api.readPlane(id, weights) : null;
  if (state.gallery?.id !== id || state.weights !== weights) {
    again = true;
    return;
  }
  etag = found.etag;
  if (read && read.version !== found.gallery.version) {
    etag = null; // changed between the two readings
    again = true;
  }
  set({ gallery: found.gallery, plane: read?.examples.length ? read : null });
}

async function fallBack() {
  store.dispatchEvent(new Event("gone"));
  set({ gallery: null });
  current = null;
  await start();
}

/** Look for changes of other tabs and programs. */
export async function follow() {
  tabs.addEventListener("message", ({ data }) => {
    if (data.gallery === state.gallery?.id) refresh().catch(() => {});
  });
  document.addEventListener("visibilitychange", () => document.hidden || refresh().catch(() => {}));
  for (;;) {
    await api.pause(document.hidden ? HIDDEN_EVERY : EVERY);
    try {
      if (state.gallery) await refresh();
      else await start();
    } catch {
      // the banner says it; the next look tries again
    }
  }
}
