/** A walk through the page: six words, each shown on the user's own drawings. */

import { byId, count, h, percent } from "./element.js";
import { classes, examples, set, state, way } from "./state.js";
import { showTab } from "./tabs.js";
import { hasSamples, loadSet } from "./teach.js";

let at = 0;
let back = null;

const first = () => classes().find((c) => c.examples.length > 0);
const richest = () => [...classes()].sort((a, b) => b.examples.length - a.examples.length)[0];
const quoted = (names) => names.map((name) => `“${name}”`).join(", ");

const STEPS = [
  {
    word: "Support", tab: "teach", target: () => document.querySelector(".thumb") ?? byId("teach-sheet"),
    text: () => examples().length
      ? `This drawing is an example of “${first().name}”. Papers call it a support. Nothing is trained on it: the network only looks at it.`
      : "What you draw here is an example. Papers call it a support. You have none yet: draw one, or load a ready set.",
  },
  {
    word: "Shot", tab: "teach", target: () => document.querySelector(".card") ?? byId("teach-form"),
    text: () => richest()?.examples.length
      ? `“${richest().name}” has ${count(richest().examples.length, "example")}. That makes it a ${richest().examples.length}-shot class. One shot is enough to start; two or three are surer.`
      : "The number of examples of a class is its shots. One is enough to start.",
  },
  {
    word: "Way", tab: "teach", target: () => byId("classes").children.length ? byId("classes") : byId("teach"),
    text: () => way()
      ? `You have ${count(way(), "class", "classes")}: ${quoted(classes().slice(0, 5).map((c) => c.name))}${way() > 5 ? " and more" : ""}. Choosing between them is a ${way()}-way task. More ways are harder.`
      : "The number of classes to choose from is the way of the task. Two symbols make it 2-way.",
  },
  {
    word: "Prototype", tab: "see", target: () => byId("plane"),
    text: () => way()
      ? `Each star is a prototype: the ${state.weights === "uniform" ? "plain" : "weighted"} mean of the examples of a class. ${richest().examples.length > 1 ? `That of “${richest().name}” lies between its ${richest().examples.length} examples.` : "With one example, the star is on the example."}`
      : "When there are examples, each class gets a star here: its prototype, the weighted mean of its examples.",
  },
  {
    word: "Precision", tab: "teach", target: () => document.querySelector(".card .thumb .weight-bar")?.closest(".card") ?? byId("teach"),
    text: () => {
      const all = richest()?.examples ?? [];
      if (all.length < 2) return "The network also says how precise each example is. A blurred example is less precise and counts for less. Add a second example to a class to see it.";
      if (state.weights === "uniform") return "The network also says how precise each example is. Vanilla weights ignore it: all examples count the same. Switch to Gaussian, and a blurred example counts for less.";
      const shares = all.slice(0, 5).map((e) => percent(e.weight)).join(", ");
      return `The network also says how precise each example is. Those of “${richest().name}” count for ${shares}. Choose one and move its damage slider: its share falls. An example unlike the others of its class also counts for less.`;
    },
  },
  {
    word: "Query", tab: "ask", target: () => byId("ask-sheet"),
    text: () => {
      const [best] = state.answer?.classes ?? [];
      const yours = best && !state.answer.unknown ? ` Yours is nearest to “${best.name}”, at distance ${best.distance.toPrecision(3)}.` : "";
      return `A query is a drawing whose class you ask for. It gets the class with the nearest prototype, unless it is far from all of them: then it is unknown.${yours}`;
    },
  },
];

export function startWalk() {
  byId("walk-button").addEventListener("click", () => begin());
  addEventListener("keydown", (event) => event.key === "Escape" && !byId("walk").hidden && end());
  addEventListener("resize", () => byId("walk").hidden || place());
  addEventListener("scroll", () => byId("walk").hidden || place(), true);
}

function begin() {
  back = document.activeElement;
  at = 0;
  set({ selected: null }); // on a phone its sheet would cover what is explained
  draw();
}

function end() {
  byId("walk").hidden = true;
  byId("spot").hidden = true;
  back?.focus();
}

function draw() {
  const step = STEPS[at];
  showTab(step.tab);
  const target = step.target();
  target.scrollIntoView({ block: "nearest" });
  const go = (to) => () => {
    at = to;
    draw();
  };
  const last = at === STEPS.length - 1;
  const next = h("button", { class: "primary", type: "button", onclick: last ? end : go(at + 1) }, last ? "Done" : "Next");
  const load = examples().length === 0 && hasSamples() && h("button", { class: "button", type: "button", onclick: async () => {
    await loadSet();
    draw();
  } }, "Load a ready set");
  byId("walk").replaceChildren(
    h("p", { class: "walk-count" }, `${at + 1} of ${STEPS.length}`),
    h("h2", { id: "walk-title" }, step.word),
    h("p", { role: "status" }, step.text()),
    h("div", { class: "row" }, next, at > 0 && h("button", { class: "button", type: "button", onclick: go(at - 1) }, "Back"), load || null,
      h("button", { class: "link", type: "button", onclick: end }, "Close")),
  );
  byId("walk").hidden = false;
  byId("spot").hidden = false;
  place();
  next.focus({ preventScroll: true });
}

/** Put the frame around the target and the words beside it. */
function place() {
  const box = STEPS[at].target().getBoundingClientRect();
  const spot = byId("spot").style;
  const pad = 8;
  spot.left = `${box.left - pad}px`;
  spot.top = `${box.top - pad}px`;
  spot.width = `${box.width + 2 * pad}px`;
  spot.height = `${box.height + 2 * pad}px`;
  const { offsetWidth: w, offsetHeight: height } = byId("walk");
  const room = { right: innerWidth - box.right, left: box.left };
  let [x, y] = [box.left + box.width / 2 - w / 2, box.bottom + 20];
  if (room.right > w + 40) [x, y] = [box.right + 24, box.top];
  else if (room.left > w + 40) [x, y] = [box.left - w - 24, box.top];
  else if (y + height > innerHeight - 8) y = box.top - height - 20;
  if (y < 8) y = innerHeight - height - 80;
  const walk = byId("walk").style;
  walk.left = `${Math.max(8, Math.min(innerWidth - w - 8, x))}px`;
  walk.top = `${Math.max(8, Math.min(innerHeight - height - 8, y))}px`;
}
