/** The selected example: what the network sees, what it counts for, and a slider that damages it. */

import { damager, moveExample, removeExample } from "./edits.js";
import { BIN, byId, CROSS, h, icon, percent, say } from "./element.js";
import { show } from "./images.js";
import { unfinished } from "./undo.js";
import { classById, classes, colour, exampleById, on, set, state } from "./state.js";

const PAUSE = 500; // milliseconds after which a slider rests

/** @type {any} */
let view = null;

export function startInspector() {
  on("selected gallery", draw);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.selected && !document.querySelector("dialog[open]")) close();
  });
}

function close() {
  const id = state.selected;
  const inside = byId("inspector").contains(document.activeElement);
  set({ selected: null });
  if (inside) document.querySelector(`.thumb[data-example="${CSS.escape(id)}"] .thumb-face`)?.focus();
}

function draw() {
  const place = byId("inspector");
  const example = exampleById(state.selected);
  place.hidden = !example;
  document.body.classList.toggle("inspecting", Boolean(example));
  if (!example) {
    view = null;
    return place.replaceChildren();
  }
  if (view?.id !== example.id) {
    view = build(example.id);
    place.replaceChildren(...view.parts);
  }
  view.update(example);
}

function build(id) {
  const given = h("img", { alt: "The example as you gave it", width: 96, height: 96 });
  const seen = h("img", { alt: "The example as the network sees it", width: 96, height: 96 });
  const caption = h("figcaption");
  const text = h("p", { class: "counts" });
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const slider = h("input", { id: "damage", type: "range", min: 0, max: 1, step: 0.05 });
  const shown = h("output", { for: "damage" });
  const choice = h("select", { id: "move-to" });
  let running = null;
  let timer = 0;
  const attempt = (work) => work().then(() => say(error, null), (reason) => say(error, reason));
  slider.addEventListener("input", () => {
    clearTimeout(timer);
    if (!running || running.ended) running = damager(id);
    unfinished.add(finish);
    shown.textContent = percent(slider.valueAsNumber);
    attempt(() => running.to(slider.valueAsNumber));
  });
  const finish = async () => {
    clearTimeout(timer);
    const ending = running;
    if (!ending) return;
    await attempt(() => ending.end());
    if (running === ending) running = null;
    unfinished.delete(finish);
  };
  // each arrow key ends a change: several in a row become one step of undo
  slider.addEventListener("change", () => {
    clearTimeout(timer);
    timer = setTimeout(finish, PAUSE);
  });
  slider.addEventListener("blur", finish);
  choice.addEventListener("change", () => attempt(() => moveExample(id, choice.value)));
  const parts = [
    h("div", { class: "views" },
      h("figure", {}, h("span", { class: "paper" }, given), caption),
      h("figure", {}, h("span", { class: "paper dark" }, seen), h("figcaption", {}, "what the network sees"))),
    h("div", { class: "facts" },
      text,
      h("div", { class: "field" }, h("label", { for: "damage" }, "Damage"), slider, shown),
      h("div", { class: "field" }, h("label", { for: "move-to" }, "Class"), choice,
        h("button", { class: "button icon-button", type: "button", "aria-label": "Delete this example", title: "Delete", onclick: () => attempt(() => removeExample(id)) }, icon(BIN))),
      error),
    h("button", { class: "tool quiet close", type: "button", "aria-label": "Close the example", onclick: close }, icon(CROSS)),
  ];
  return {
    id,
    parts,
    update(example) {
      const { name } = classById(example.class);
      byId("inspector").className = `inspector ${colour(name)}`;
      if (example.has_image) {
        show(given, example, 192, "given", true);
        show(seen, example, 192, "seen", true);
      }
      for (const image of [given, seen]) image.closest("figure").hidden = !example.has_image;
      slider.disabled = !example.has_image;
      if (!running) {
        slider.value = String(example.damage);
        shown.textContent = percent(example.damage);
      }
      caption.textContent = example.damage ? `with ${percent(example.damage)} damage` : "yours";
      text.replaceChildren("Counts for ", h("strong", {}, percent(example.weight)), ` of “${name}”`, ...precision(example));
      const names = classes().map((c) => c.name);
      if (choice.dataset.names !== names.join("\n")) {
        choice.dataset.names = names.join("\n");
        choice.replaceChildren(...names.map((one) => h("option", {}, one)));
      }
      choice.value = name;
    },
  };
}

function precision(example) {
  if (example.blank) return [". It is blank."];
  if (state.weights === "uniform" || example.precision === null) return ["."];
  const { name } = classById(example.class);
  const unlike = isUnlike(example) ? ` It is unlike the other examples of “${name}”, so it counts for less than its precision says.` : "";
  return [`. Precision ${example.precision.toPrecision(3)} (higher is surer).${unlike}`];
}

/** Whether an example counts for much less than its share of the precisions: the classifier trusts it less than the others. */
function isUnlike(example) {
  const precisions = classById(example.class).examples.map((e) => e.precision ?? 0);
  const share = example.precision / precisions.reduce((sum, one) => sum + one, 0);
  return example.weight < share / 2;
}
