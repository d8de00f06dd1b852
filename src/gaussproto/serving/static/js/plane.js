/** See: the embedding plane, as in figure 2 of the paper, animated when something changes. */

import { byId, h, percent, s, say } from "./element.js";
import { show } from "./images.js";
import { arrange } from "./labels.js";
import { track } from "./progress.js";
import { classById, exampleById, on, set, state, way } from "./state.js";
import { scene } from "./scene.js";
import { setWeights } from "./sync.js";

const DURATION = 500; // milliseconds
const FACE = 30; // side of a thumbnail
const FACES = 60; // more marks than this are dots
const DOT = 6; // half the side of one, for the texts beside it
const ROOMY = 13; // up to so many marks the thumbnails are larger
const STAR = "M0-9l2.6 5.6 6.1.8-4.5 4.2 1.2 6.1L0 3.7l-5.4 3 1.2-6.1-4.5-4.2 6.1-.8z";
const still = matchMedia("(prefers-reduced-motion: reduce)");

let svg, layers, caption;
const shown = new Map(); // key → {mark, from, to, parts}
let frame = 0;
let began = 0;
let compared = null;
let zoom = 1; // of the thumbnails

export function startPlane() {
  layers = ["areas", "lines", "circles", "faces", "query", "stars", "texts"].map((name) => s("g", { class: name }));
  layers = Object.fromEntries(layers.map((g) => [g.getAttribute("class"), g]));
  svg = s("svg", { role: "group", "aria-label": "The embedding plane" }, ...Object.values(layers));
  caption = h("p", { class: "plane-caption" });
  byId("plane").append(svg, caption);
  new ResizeObserver(() => draw(true)).observe(svg);
  on("plane answer gallery", () => draw());
  on("hot selected", mark);
  on("answer weights gallery", note);
  byId("weights").addEventListener("change", async (event) => {
    compared = state.answer && { weights: state.weights, answer: state.answer };
    try {
      await track("Weighing the examples", () => setWeights(event.target.value));
      say(byId("see-error"), null);
    } catch (error) {
      say(byId("see-error"), error);
    }
  });
  note();
}

function draw(jump = false) {
  const { width, height } = svg.getBoundingClientRect();
  byId("plane").classList.toggle("is-empty", !state.plane);
  drawCaption();
  if (!width) return;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const found = scene(width, height);
  const many = found.length > FACES;
  svg.classList.toggle("many", many);
  zoom = found.length > 2 * ROOMY ? 0.72 : found.length > ROOMY ? 0.85 : 1.25;
  const side = (FACE / 2) * zoom;
  const marks = arrange(found, many ? DOT : side, side, width, height);
  const keep = new Set(marks.map((one) => one.key));
  for (const [key, entry] of shown) {
    if (keep.has(key)) continue;
    entry.parts.all.forEach((part) => part.remove());
    shown.delete(key);
  }
  for (const one of marks) {
    const entry = shown.get(one.key) ?? enter(one);
    entry.from = entry.now ?? { ...one, r: 0 };
    entry.to = one;
    entry.parts.update(one);
  }
  began = jump || still.matches ? -Infinity : performance.now();
  cancelAnimationFrame(frame);
  step(performance.now());
  mark();
}

function step(time) {
  const t = Math.min(1, Math.max(0, (time - began) / DURATION));
  const ease = t === 1 ? 1 : 1 - (1 - t) ** 3;
  for (const entry of shown.values()) {
    entry.now = { ...entry.to };
    for (const key of ["x", "y", "r", "x2", "y2", "lx", "ly"]) {
      if (entry.to[key] !== undefined) entry.now[key] = entry.from[key] + (entry.to[key] - entry.from[key]) * ease;
    }
    entry.parts.place(entry.now);
  }
  if (t < 1) frame = requestAnimationFrame(step);
}

function enter(one) {
  const parts = { example: exampleParts, class: classParts, query: queryParts, line: lineParts }[one.kind](one);
  const entry = { parts, from: null, to: null, now: null };
  shown.set(one.key, entry);
  return entry;
}

const move = (part, { x, y }, scale = 1) => part.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${scale})`);

function join(line, ...ends) {
  ["x1", "y1", "x2", "y2"].forEach((name, i) => line.setAttribute(name, ends[i].toFixed(2)));
}

function exampleParts({ id }) {
  const circle = s("circle", { class: "confidence", "data-example": id });
  const image = s("image", { x: -FACE / 2 + 2, y: -FACE / 2 + 2, width: FACE - 4, height: FACE - 4 });
  const face = s("g", {
    class: "face", tabindex: "0", role: "button", "data-example": id,
    onpointerenter: () => set({ hot: id }), onpointerleave: () => set({ hot: null }),
    onfocus: () => set({ hot: id }), onblur: () => set({ hot: null }),
    onclick: () => set({ selected: id }),
    onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      set({ selected: id });
    },
  }, s("rect", { x: -FACE / 2, y: -FACE / 2, width: FACE, height: FACE, rx: 6 }), image, s("circle", { class: "dot", r: 5 }));
  layers.circles.append(circle);
  layers.faces.append(face);
  return {
    all: [circle, face],
    update(one) {
      const example = exampleById(id);
      circle.setAttribute("class", `confidence ${one.colour}`);
      face.setAttribute("class", `face ${one.colour}`);
      face.classList.toggle("no-image", !example?.has_image);
      if (example?.has_image) show(image, example, 96, "given");
      face.setAttribute("aria-label", `Example of ${one.label}, counts ${percent(example?.weight ?? 0)}`);
    },
    place(now) {
      move(circle, now);
      circle.setAttribute("r", Math.max(0, now.r).toFixed(2));
      move(face, now, zoom);
    },
  };
}

function classParts() {
  const area = s("circle", {});
  const star = s("path", { d: STAR });
  const text = s("text", {});
  layers.areas.append(area);
  layers.stars.append(star);
  layers.texts.append(text);
  return {
    all: [area, star, text],
    update(one) {
      area.setAttribute("class", `area ${one.colour}`);
      star.setAttribute("class", `star ${one.colour}`);
      text.setAttribute("class", `name ${one.colour}${one.far ? " far" : ""}`);
      text.textContent = one.label;
    },
    place(now) {
      move(area, now);
      area.setAttribute("r", Math.max(0, now.r).toFixed(2));
      // the prototype of one example is the example: the star sits on its corner, not on the drawing
      const aside = now.beside ? (FACE / 2) * zoom : 0;
      move(star, { x: now.x + aside, y: now.y - aside });
      move(text, { x: now.lx, y: now.ly });
    },
  };
}

function queryParts() {
  const image = s("image", { x: -FACE / 2 + 2, y: -FACE / 2 + 2, width: FACE - 4, height: FACE - 4 });
  const group = s("g", { class: "query-face" }, s("rect", { x: -FACE / 2, y: -FACE / 2, width: FACE, height: FACE, rx: 6 }), image);
  const text = s("text", { class: "query-name", y: FACE / 2 + 13 });
  const leader = s("line", { class: "leader" });
  const point = s("circle", { class: "query-point", r: 4.5 });
  layers.query.append(leader, point, group);
  layers.texts.append(text);
  let file = null;
  return {
    all: [leader, group, point, text],
    update() {
      text.textContent = "query";
      if (file === state.query?.file) return;
      file = state.query?.file;
      URL.revokeObjectURL(image.getAttribute("href") ?? "");
      if (file) image.setAttribute("href", URL.createObjectURL(file));
    },
    place(now) {
      join(leader, now.x, now.y, now.lx, now.ly);
      move(point, now);
      move(group, { x: now.lx, y: now.ly }, zoom);
      move(text, { x: now.lx, y: now.ly + (FACE / 2) * (zoom - 1) });
    },
  };
}

function lineParts() {
  const line = s("line", {});
  const text = s("text", {});
  layers.lines.append(line);
  layers.texts.append(text);
  return {
    all: [line, text],
    update(one) {
      line.setAttribute("class", `distance ${one.colour}${one.strong ? " strong" : ""}`);
      text.setAttribute("class", `distance-text${one.strong ? " strong" : ""}`);
      text.textContent = one.label;
    },
    place({ x, y, x2, y2, lx, ly, free }) {
      join(line, x, y, x2, y2);
      move(text, { x: lx, y: ly });
      text.toggleAttribute("hidden", !free);
    },
  };
}

function mark() {
  for (const element of svg.querySelectorAll("[data-example]")) {
    element.classList.toggle("hot", element.dataset.example === state.hot);
    element.classList.toggle("selected", element.dataset.example === state.selected);
  }
  const top = state.hot && layers.faces.querySelector(`.face.hot:not(:focus)`);
  if (top && !top.matches(":hover")) layers.faces.append(top);
}

function drawCaption() {
  const { plane } = state;
  if (!plane) {
    caption.textContent = "Each example becomes a point here: the network puts drawings that look alike close together.";
  } else if (way() < 2) {
    const name = classById(plane.classes[0]?.id)?.name ?? "the class";
    caption.textContent = `The star is the prototype of “${name}”. Add another symbol to see the distance between them.`;
  } else {
    const share = percent(Math.min(1, plane.share[0] + plane.share[1]));
    caption.textContent = `★ prototype. A wide circle is an uncertain example, which counts for less. The plane shows ${share} of the variance; numbers are true distances.`;
  }
}

/** What the chosen weights mean, and what they change in the answer. */
function note() {
  const place = byId("weights-note");
  const { weights, answer } = state;
  const meaning = weights === "precision" ? "Gaussian: a clear, typical example counts for more." : "Vanilla: all examples count the same.";
  const other = compared?.weights !== weights && compared?.answer.query === answer?.query && compared?.answer;
  place.textContent = other && answer?.weights === weights ? `${meaning} ${compare(other, answer, weights)}` : meaning;
}

function compare(before, after, weights) {
  const words = (answer) => (answer.blank ? "blank" : answer.unknown ? "unknown" : `“${answer.classes[0].name}” ${percent(answer.classes[0].probability)}`);
  if (words(before) === words(after)) return `The answer stays ${words(after)}.`;
  return `The answer is ${words(after)}; ${weights === "precision" ? "with vanilla" : "with Gaussian"} it was ${words(before)}.`;
}
