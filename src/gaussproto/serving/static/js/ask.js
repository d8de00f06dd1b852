/** Ask: the query on the pad, and its answer, which follows the pen. */

import { classify } from "./api.js";
import { byId, count, h, say } from "./element.js";
import { dropZone, fromBase64, fromInput, fromPaste, readable } from "./files.js";
import { Pad } from "./pad.js";
import { track } from "./progress.js";
import { on, set, state, way } from "./state.js";

const WHILE_DRAWING = 120; // milliseconds between two questions during a stroke
const TOP = 5; // classes with a bar, so few that the reason below them is in sight
const NEAREST = 4;
const TRIES = "gaussproto-tries";

/** @type {Pad} */
let pad;
let running = null;
let lastSent = 0;
let shown = null; // the gallery

export function startAsk() {
  pad = new Pad(byId("ask-pad"), byId("ask-sheet"), "gaussproto-ask");
  pad.addEventListener("move", () => {
    if (!running && performance.now() - lastSent > WHILE_DRAWING) askPad();
  });
  pad.addEventListener("change", () => (pad.empty ? clear() : askPad()));
  byId("ask-clear").addEventListener("click", () => pad.wipe());
  byId("ask-files").addEventListener("change", (event) => {
    takeFiles(fromInput(event.target.files));
    event.target.value = "";
  });
  dropZone(byId("ask"), takeFiles);
  addEventListener("paste", (event) => {
    const here = document.body.dataset.tab === "ask" || byId("ask").contains(document.activeElement);
    const images = here ? fromPaste(event) : [];
    if (images.length) takeFiles(images);
  });
  on("gallery", () => {
    changeGallery();
    drawLead();
    if (state.query && state.answer?.version !== state.gallery?.version) ask();
    else if (!state.query && !pad.empty && way() >= 2) askPad();
  });
  on("weights", () => state.query && ask());
  on("query", drawLead);
  on("tries", drawTries);
  new ResizeObserver(fadeTries).observe(byId("tries"));
  drawLead();
}

/** Drawings to try belong to a gallery, and so does an image on the pad. */
function changeGallery() {
  const id = state.gallery?.id;
  if (!id || id === shown) return;
  if (shown && pad.given.length) pad.reset();
  shown = id;
  const kept = JSON.parse(sessionStorage.getItem(TRIES) ?? "{}");
  if (kept.gallery === id) set({ tries: kept.tries });
}

function askPad() {
  lastSent = performance.now();
  const [query] = pad.files();
  set({ query: { ...query } });
  return ask();
}

async function takeFiles(images) {
  const { good, sentence } = await readable(images);
  if (good.length > 1) set({ tries: good.slice(0, 60).map((image) => ({ file: image.file, name: image.name })) });
  if (good.length) await askImage(good[0]);
  if (sentence) say(byId("ask-error"), sentence);
}

async function askImage({ file, name }) {
  await pad.take([{ file, name }]);
  await askPad();
}

/** Send the query. A question that is still open is cancelled. */
export async function ask() {
  running?.abort();
  running = null;
  if (way() < 2) {
    set({ answer: null });
    return drawLead();
  }
  const own = (running = new AbortController());
  drawBusy();
  const { query, weights, gallery } = state;
  try {
    const request = { top: TOP, nearest: NEAREST, plane: true, weights };
    const reply = await track("Asking the network", () => classify(gallery.id, [query], request, own.signal));
    if (own.signal.aborted || state.query !== query) return;
    say(byId("ask-error"), null);
    set({ answer: { ...reply.answers[0], version: reply.version, weights, query } });
  } catch (error) {
    if (own.signal.aborted) return;
    set({ answer: null });
    say(byId("ask-error"), error);
  } finally {
    if (running === own) running = null;
    drawBusy();
  }
}

/** Ask again what was asked while the server did not answer. */
export function askAgain() {
  if (state.query && !state.answer && !running) ask();
}

function clear() {
  running?.abort();
  running = null;
  say(byId("ask-error"), null);
  set({ query: null, answer: null });
  drawLead();
}

/** A verdict that is about to change is not read out. */
const drawBusy = () => byId("verdict").setAttribute("aria-busy", String(running !== null));

function drawLead() {
  const n = way();
  byId("ask-clear").disabled = !state.query && pad.empty;
  byId("ask").classList.toggle("waiting", n < 2);
  byId("ask-hint").textContent = n < 2 ? "First teach two symbols" : "Draw one of your symbols";
  byId("ask-lead").textContent =
    n === 0 ? "The network will tell your symbols apart."
    : n === 1 ? "One symbol is there. It needs one more."
    : `Draw one of your ${count(n, "symbol")} again.`;
}

function drawTries() {
  const box = byId("tries");
  const tries = state.tries ?? [];
  if (tries.every((one) => one.image)) sessionStorage.setItem(TRIES, JSON.stringify({ gallery: shown, tries }));
  box.hidden = tries.length === 0;
  box.replaceChildren(
    h("p", { class: "lead" }, tries[0]?.file ? "Your files. Ask about one:" : "Other drawings to ask about:"),
    h("div", { class: "try-row", onscroll: fadeTries }, ...tries.map(tryButton)),
  );
  fadeTries();
}

/** Fade the row of drawings at the sides where it goes on. */
function fadeTries() {
  const row = byId("tries").querySelector(".try-row");
  if (!row) return;
  row.classList.toggle("before", row.scrollLeft > 4);
  row.classList.toggle("after", row.scrollLeft + row.clientWidth < row.scrollWidth - 4);
}

function tryButton(given, index) {
  const file = given.file ?? fromBase64(given.image);
  const name = given.name ?? `try ${index + 1}`;
  const src = URL.createObjectURL(file);
  const release = () => URL.revokeObjectURL(src);
  const image = h("img", { alt: "", src, width: 40, height: 40, onload: release, onerror: release });
  return h("button", { class: "try paper", type: "button", "aria-label": `Ask about ${name}`, title: name, onclick: () => askImage({ file, name }) }, image);
}
