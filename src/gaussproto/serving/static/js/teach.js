/** The desk of Teach: draw or choose images, name the class, add. */

import { listSamples } from "./api.js";
import { openCamera } from "./camera.js";
import { addImages, addSamples } from "./edits.js";
import { byId, count, h, say } from "./element.js";
import { dropZone, fromInput, fromPaste, readable } from "./files.js";
import { Pad } from "./pad.js";
import { classByName, classes, examples, on, state, way } from "./state.js";

/** @type {Pad} */
let pad;
let samples = [];
const TOUCH = matchMedia("(hover: none)");

const field = () => byId("class-name");
const ready = () => !pad.empty;

export function startTeach() {
  pad = new Pad(byId("teach-pad"), byId("teach-sheet"), "gaussproto-teach");
  pad.addEventListener("change", () => {
    draw();
    // a hand on a mouse or pen is near the keyboard; on a phone the keyboard would hide the page
    if (pad.strokes.length && ["mouse", "pen"].includes(pad.byPointer)) field().focus({ preventScroll: true });
  });
  pad.addEventListener("move", () => byId("add").disabled && draw());
  field().addEventListener("input", draw);
  byId("teach-form").addEventListener("submit", (event) => {
    event.preventDefault();
    addHere(nameNow());
  });
  byId("teach-clear").addEventListener("click", () => pad.wipe());
  for (const id of ["teach-files", "teach-folder"]) {
    byId(id).addEventListener("change", (event) => {
      take(fromInput(event.target.files));
      event.target.value = "";
    });
  }
  byId("camera-button").addEventListener("click", () => openCamera((image) => take([image])));
  dropZone(byId("teach"), take);
  addEventListener("paste", (event) => {
    const images = fromPaste(event);
    if (images.length && document.body.dataset.tab !== "ask" && !byId("ask").contains(document.activeElement)) take(images);
  });
  on("gallery", draw);
  loadSamples();
  draw();
}

export async function loadSamples() {
  try {
    samples = await listSamples();
    draw();
  } catch {
    samples = []; // a shortcut only; the page works without it
  }
}

/** Whether the pad holds something to add. */
export const hasDrawing = () => ready();

/** The name in the field, or a free one. */
function nameNow() {
  const typed = field().value.trim();
  if (typed) return typed;
  let n = classes().length + 1;
  while (classByName(`symbol ${n}`)) n++;
  return `symbol ${n}`;
}

/** Take images: those whose folder names a class are added at once, the others wait for a name. */
async function take(images) {
  const { good, sentence } = await readable(images);
  const named = good.filter((image) => image.class);
  const unnamed = good.filter((image) => !image.class);
  if (unnamed.length) {
    await pad.take(unnamed);
    draw();
    field().focus();
  }
  await attempt(() => addAll(named, sentence));
}

/** Add images, and then say why others were left out. */
async function addAll(images, sentence) {
  if (images.length) await addImages(images);
  if (sentence) throw new Error(sentence);
}

async function attempt(work) {
  say(byId("teach-error"), null);
  try {
    await work();
    return true;
  } catch (error) {
    say(byId("teach-error"), error);
    return false;
  }
}

/** Add what is on the pad, or waits, to a class. */
export async function addHere(name, images = null) {
  if (images) {
    const { good, sentence } = await readable(images);
    return attempt(() => addAll(good.map((image) => ({ ...image, class: name })), sentence));
  }
  if (!ready() || byId("add").dataset.busy) return false;
  byId("add").dataset.busy = "yes";
  const files = pad.files();
  const done = await attempt(() => addImages(files.map((image) => ({ ...image, class: name }))));
  delete byId("add").dataset.busy;
  if (!done) return false;
  pad.reset();
  field().value = "";
  draw();
  return true;
}

function draw() {
  const name = nameNow();
  const known = classByName(name);
  const what = pad.given.length > 1 ? `${pad.given.length} images` : "";
  const button = byId("add");
  button.disabled = !ready();
  button.textContent = !ready() ? "Add" : known ? `Add ${what} to “${name}”` : `Add ${what} as “${name}”`;
  button.title = ready() ? button.textContent : ""; // a long name is cut
  byId("teach-clear").disabled = !ready();
  byId("class-names").replaceChildren(...classes().map((c) => h("option", { value: c.name })));
  if (byId("coach").textContent !== coach()) byId("coach").textContent = coach(); // else it would be read out again
  for (const plus of document.querySelectorAll(".class-add")) plus.disabled = !ready();
  drawSamples();
}

/** One sentence that says what to do next. */
function coach() {
  const n = way();
  const shots = examples().length;
  if (ready() && n === 0) return `Now type its name and ${TOUCH.matches ? "tap Add" : "press Enter"}.`;
  if (n === 0) return "Draw a symbol, then name it.";
  if (n === 1) return "Now draw a different symbol.";
  if (n === 2 && shots < 4) return "Draw a third symbol, or try Ask.";
  if (shots < 2 * n) return "A second example makes a class surer.";
  return `${count(n, "class", "classes")}, ${count(shots, "example")}. ${TOUCH.matches ? "Tap" : "Click"} an example to damage or move it.`;
}

function drawSamples() {
  const box = byId("ready-sets");
  const first = classes().length === 0;
  byId("first").hidden = !first || !state.gallery;
  byId("teach").classList.toggle("is-first", first && !ready());
  box.hidden = samples.length === 0;
  box.classList.toggle("small", !first);
  const key = `${first} ${samples.map((sample) => sample.id).join()}`;
  if (box.dataset.shows === key) return;
  box.dataset.shows = key;
  const real = samples.filter((sample) => sample.id.startsWith("omniglot"));
  const sets = [row(samples.filter((sample) => !real.includes(sample)))];
  if (real.length) sets.push(h("details", {}, h("summary", {}, `${real.length} test alphabets of Omniglot`), row(real)));
  box.replaceChildren(...(first
    ? [h("p", {}, "No pen at hand? Load five characters of an invented alphabet:"), ...sets]
    : [h("details", {}, h("summary", {}, "Add a ready alphabet"), ...sets)]));
}

const row = (sets) => h("div", { class: "row" }, ...sets.map((sample) =>
  h("button", { class: "button", type: "button", title: sample.about, onclick: () => loadSet(sample) }, sample.name)));

export async function loadSet(sample = samples[0]) {
  if (!sample) return;
  await attempt(() => addSamples(sample));
}

export const hasSamples = () => samples.length > 0;
