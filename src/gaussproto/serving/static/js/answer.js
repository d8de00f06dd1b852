/** The answer in words, the classes by probability, and why: the nearest examples. */

import { byId, h, percent, reconcile } from "./element.js";
import { show } from "./images.js";
import { classById, colour, exampleById, on, set, state, way } from "./state.js";

const rows = new Map();
const faces = new Map();
let bars = null;
let head = null;
let why = null;
let more = null;

export function startAnswer() {
  on("answer gallery query", draw);
  draw();
}

const number = (value) => value.toPrecision(3);

function draw() {
  drawVerdict();
  const place = byId("answer");
  const { answer } = state;
  if (!answer || answer.blank) {
    bars = why = null;
    rows.clear();
    faces.clear();
    return place.replaceChildren(...(state.query ? [] : [emptyState()]));
  }
  if (!bars) {
    bars = h("ol", { class: "bars" });
    more = h("p", { class: "soft" });
    why = h("div", { class: "why" }, h("h3", {}, "Why"), h("p"), h("div", { class: "near" }));
    head = h("span");
    place.replaceChildren(h("p", { class: "bars-head", "aria-hidden": "true" }, head, h("span", {}, "distance")), bars, more, why);
  }
  bars.classList.toggle("unsure", answer.unknown);
  bars.setAttribute("aria-label", answer.unknown ? "Classes by probability, if it were one of them" : "Classes by probability");
  head.textContent = answer.unknown ? "if it were one of these" : "probability";
  reconcile(bars, rows, answer.classes, bar);
  const others = way() - answer.classes.length;
  more.hidden = others <= 0;
  more.textContent = `and ${others} more`;
  drawWhy(answer);
}

function drawVerdict() {
  const place = byId("verdict");
  const { answer } = state;
  place.className = "verdict";
  if (!answer) return place.replaceChildren();
  if (answer.blank) return place.replaceChildren(h("strong", {}, "Blank"), h("span", {}, "There is nothing in this image."));
  const [best] = answer.classes;
  if (answer.unknown) {
    place.classList.add("unknown");
    return place.replaceChildren(h("strong", {}, "Unknown"), h("span", {}, `It is far from every class. The nearest is “${best.name}”.`));
  }
  place.className = `verdict ${colour(best.name)}`;
  return place.replaceChildren(
    h("strong", { title: best.name }, best.name),
    h("span", { class: "sure" }, `${percent(best.probability)} sure`),
  );
}

function bar() {
  const name = h("span", { class: "bar-name" });
  const fill = h("span", { class: "bar-fill" });
  const share = h("span", { class: "bar-share" });
  const distance = h("span", { class: "bar-distance" });
  const element = h("li", {}, name, h("span", { class: "bar-line" }, fill), share, distance);
  return {
    element,
    update(c) {
      element.className = colour(c.name);
      name.textContent = name.title = c.name;
      fill.style.width = `${100 * c.probability}%`;
      share.textContent = percent(c.probability);
      distance.textContent = number(c.distance);
      const far = state.answer?.unknown && c.threshold !== null && c.distance > c.threshold;
      distance.classList.toggle("far", Boolean(far));
      distance.title = c.threshold === null ? "" : `Up to ${number(c.threshold)} counts as ${c.name}.`;
    },
  };
}

function drawWhy(answer) {
  const [best, next] = answer.classes;
  const near = answer.nearest.filter((one) => exampleById(one.id));
  why.querySelector("p").textContent = reason(answer, best, next) + (near.length ? " Nearest examples:" : "");
  reconcile(why.querySelector(".near"), faces, near, nearExample);
}

function reason(answer, best, next) {
  const shots = classById(best.id)?.examples.length ?? 0;
  if (answer.unknown && best.threshold !== null) {
    return `Its distance to “${best.name}” is ${number(best.distance)}. Up to ${number(best.threshold)} would count as “${best.name}”.`;
  }
  const mean = shots > 1 ? `the mean of your ${shots} examples of “${best.name}”` : `your example of “${best.name}”`;
  if (!next) return `It is nearest to ${mean}.`;
  return `It is at distance ${number(best.distance)} from ${mean}, and at ${number(next.distance)} from “${next.name}”.`;
}

function nearExample({ id }) {
  const image = h("img", { alt: "", width: 64, height: 64 });
  const text = h("span", { class: "near-text" });
  const element = h("button", {
    type: "button", "data-example": id,
    onpointerenter: () => set({ hot: id }), onpointerleave: () => set({ hot: null }),
    onfocus: () => set({ hot: id }), onblur: () => set({ hot: null }),
    onclick: () => set({ selected: id }),
  }, h("span", { class: "paper" }, image), text);
  return {
    element,
    update({ distance }) {
      const example = exampleById(id);
      const name = classById(example.class)?.name ?? "";
      element.className = `near-face ${colour(name)}`;
      element.setAttribute("aria-label", `Example of ${name} at distance ${number(distance)}`);
      text.textContent = number(distance);
      if (example.has_image) show(image, example, 96, "given", true);
    },
  };
}

function emptyState() {
  const steps = way() < 2
    ? ["Teach two symbols or more.", "Draw one of them here, a little differently.", "The answer appears while you draw."]
    : ["Draw one of your symbols here, a little differently.", "The answer appears while you draw.", "Then draw something else: it is “unknown”."];
  return h("ol", { class: "how" }, ...steps.map((step) => h("li", {}, step)));
}
