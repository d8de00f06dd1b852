/** How it learned: the embedding space of the demo at each snapshot of its training. */

import { byId, CROSS, h, icon, percent } from "./element.js";
import { track } from "./progress.js";

const SIDE = 28; // pixels of a drawing
const STAY = 900; // milliseconds of a snapshot when playing
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Filled by the first visit. @type {any} */
let data = null;
let pictures = [];

export function startLearning() {
  byId("learn-button").addEventListener("click", async () => {
    try {
      data ??= await track("Reading how it learned", read);
    } catch {
      byId("learning").replaceChildren(header(), h("p", { class: "error", role: "alert" }, "The server does not answer. Close this and try again."));
      return byId("learning").showModal();
    }
    if (!pictures.length) pictures = data.drawings.map(decode);
    show();
  });
}

async function read() {
  const response = await fetch(new URL("../learning.json", import.meta.url));
  if (!response.ok) throw new Error(String(response.status));
  return response.json();
}

const header = () =>
  h("header", {}, h("h2", { id: "learning-title" }, "How it learned"),
    h("button", { class: "tool quiet close", type: "button", "aria-label": "Close", onclick: () => byId("learning").close() }, icon(CROSS)));

/** Two pixels of four bits in each byte become a stencil whose colour follows the class. */
function decode(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const canvas = h("canvas", { width: SIDE, height: SIDE });
  const context = canvas.getContext("2d");
  const image = context.createImageData(SIDE, SIDE);
  for (let i = 0; i < SIDE * SIDE; i++) image.data[4 * i + 3] = 17 * (i % 2 ? bytes[i >> 1] & 15 : bytes[i >> 1] >> 4);
  context.putImageData(image, 0, 0);
  return canvas;
}

function show() {
  const dialog = byId("learning");
  const canvas = h("canvas", { class: "learning-map", role: "img", "aria-label": "Drawings of test characters in the principal plane of their embeddings" });
  const slider = h("input", { id: "snapshot", type: "range", min: 0, max: data.snapshots.length - 1, step: 1, value: 0 });
  const play = h("button", { class: "primary", type: "button" }, "Play");
  const text = h("p", { role: "status", class: "learning-text" });
  dialog.replaceChildren(
    header(),
    h("p", { class: "lead" }, `${data.classes} characters of invented alphabets, ${data.shots} drawings of each. The network never trains on them. Watch it put drawings of one character together.`),
    canvas, text,
    h("div", { class: "field" }, play, h("label", { for: "snapshot", class: "visually-hidden" }, "Snapshot"), slider),
    h("p", { class: "soft" }, `From a real run: ${data.command}. Each snapshot is shown in its own principal plane, turned to match the next one.`),
  );
  let position = 0;
  let timer = 0;
  let frame = 0;
  const go = (to) => {
    cancelAnimationFrame(frame);
    const snapshot = data.snapshots[to];
    text.replaceChildren("After ", h("strong", {}, `${snapshot.episodes} episodes`), ": accuracy ", h("strong", {}, percent(snapshot.accuracy)), ` on test characters (${data.way}-way ${data.shot}-shot).`);
    slider.setAttribute("aria-valuetext", `after ${snapshot.episodes} episodes, accuracy ${percent(snapshot.accuracy)}`);
    const from = position;
    const began = performance.now();
    const step = (time) => {
      const t = still.matches ? 1 : Math.min(1, Math.max(0, (time - began) / (STAY * 0.7)));
      position = from + (to - from) * (1 - (1 - t) ** 2);
      paint(canvas, position);
      if (t < 1) frame = requestAnimationFrame(step);
    };
    step(began);
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  };
  play.addEventListener("click", () => {
    if (timer) return stop();
    play.textContent = "Pause";
    if (slider.valueAsNumber === data.snapshots.length - 1) slider.value = "0";
    go(slider.valueAsNumber);
    timer = setInterval(() => {
      slider.value = String(slider.valueAsNumber + 1);
      go(slider.valueAsNumber);
      if (slider.valueAsNumber === data.snapshots.length - 1) stop();
    }, STAY);
  });
  slider.addEventListener("input", () => {
    stop();
    go(slider.valueAsNumber);
  });
  dialog.addEventListener("close", stop, { once: true });
  dialog.showModal();
  go(0);
}

/** Between two snapshots the points are on a straight line. */
function paint(canvas, position) {
  const { clientWidth, clientHeight } = canvas;
  const scale = devicePixelRatio;
  if (canvas.width !== Math.round(clientWidth * scale)) [canvas.width, canvas.height] = [clientWidth * scale, clientHeight * scale];
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, clientWidth, clientHeight);
  const [low, high] = [Math.floor(position), Math.ceil(position)];
  const part = position - low;
  const side = Math.min(clientWidth, clientHeight) / 15;
  const style = getComputedStyle(canvas);
  pictures.forEach((picture, i) => {
    const [ax, ay] = data.snapshots[low].points[i];
    const [bx, by] = data.snapshots[high].points[i];
    const x = ((ax + (bx - ax) * part) / 1000) * (clientWidth - side) + side / 2;
    const y = ((ay + (by - ay) * part) / 680) * (clientHeight - side) + side / 2;
    context.drawImage(tinted(picture, style.getPropertyValue(`--c${Math.floor(i / data.shots) % 8}`).trim()), x - side / 2, y - side / 2, side, side);
  });
}

const tints = new Map();

function tinted(picture, colour) {
  const key = `${pictures.indexOf(picture)}${colour}`;
  if (!tints.has(key)) {
    const canvas = h("canvas", { width: SIDE, height: SIDE });
    const context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0);
    context.globalCompositeOperation = "source-in";
    context.fillStyle = colour;
    context.fillRect(0, 0, SIDE, SIDE);
    tints.set(key, canvas);
  }
  return tints.get(key);
}
