/** The classes of the gallery as cards, and their examples as thumbnails with what they count for. */

import { moveExample, removeClass, removeExample, renameClass } from "./edits.js";
import { byId, CROSS, count, h, icon, PENCIL, percent, PLUS, reconcile, say } from "./element.js";
import { dropZone } from "./files.js";
import { show } from "./images.js";
import { classes, colour, exampleById, on, set, state } from "./state.js";
import { addHere, hasDrawing } from "./teach.js";

const MOVED = "application/x-gaussproto-example";
const cards = new Map();

export function startClasses() {
  on("gallery", draw);
  on("hot selected", mark);
}

async function attempt(work) {
  say(byId("teach-error"), null);
  try {
    await work();
  } catch (error) {
    say(byId("teach-error"), error);
  }
}

function draw() {
  reconcile(byId("classes"), cards, classes(), card);
  mark();
}

function card(given) {
  const { id } = given;
  const thumbs = new Map();
  const name = h("h3", { class: "class-name" });
  const shots = h("span", { class: "shots" });
  const grid = h("div", { class: "thumbs" });
  const add = h("button", { class: "tool class-add", type: "button", onclick: () => addHere(name.textContent) }, icon(PLUS));
  const rename = h("button", { class: "tool quiet", type: "button", onclick: () => edit(name, id, rename) }, icon(PENCIL));
  const remove = h("button", { class: "tool quiet", type: "button", onclick: () => attempt(() => removeClass(id)) }, icon(CROSS));
  const empty = h("p", { class: "empty" }, "No examples. Drag one here, or draw one and press +.");
  const element = h("article", { class: "card", role: "listitem" },
    h("header", {}, h("span", { class: "swatch" }), name, shots, h("span", { class: "card-tools" }, rename, remove, add)), empty, grid);
  dropZone(element, (images) => addHere(name.textContent, images));
  takeMoved(element, () => name.textContent);
  return {
    element,
    update(c) {
      element.className = `card ${colour(c.name)}`;
      if (!name.querySelector("input")) name.textContent = c.name;
      name.title = c.name;
      shots.textContent = String(c.examples.length);
      shots.title = count(c.examples.length, "example");
      add.setAttribute("aria-label", `Add the drawing to ${c.name}`);
      add.title = "Add the drawing here";
      add.disabled = !hasDrawing();
      rename.setAttribute("aria-label", `Rename ${c.name}`);
      remove.setAttribute("aria-label", `Delete ${c.name}`);
      empty.hidden = c.examples.length > 0;
      reconcile(grid, thumbs, c.examples, (e) => thumb(e, () => name.textContent));
    },
  };
}

function takeMoved(element, nameOf) {
  const moved = (event) => event.dataTransfer.types.includes(MOVED);
  element.addEventListener("dragover", (event) => {
    if (!moved(event)) return;
    event.preventDefault();
    element.classList.add("drop");
  });
  element.addEventListener("dragleave", () => element.classList.remove("drop"));
  element.addEventListener("drop", (event) => {
    element.classList.remove("drop");
    if (!moved(event)) return;
    event.preventDefault();
    attempt(() => moveExample(event.dataTransfer.getData(MOVED), nameOf()));
  });
}

function thumb(given, nameOf) {
  const { id } = given;
  const image = h("img", { alt: "", draggable: "false", width: 96, height: 96 });
  const bar = h("span", { class: "weight-fill" });
  const share = h("span", { class: "weight-text" });
  const choose = () => set({ selected: state.selected === id ? null : id });
  // not a button element: Firefox does not drag what begins on one
  const select = h("div", {
    class: "thumb-face", role: "button", tabindex: "0", onclick: choose,
    onfocus: () => set({ hot: id }), onblur: () => set({ hot: null }),
    onkeydown: (event) => {
      if (event.key === "Delete") attempt(() => removeExample(id));
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose();
    },
  }, h("span", { class: "paper" }, image), h("span", { class: "weight-bar" }, bar), share);
  const remove = h("button", { class: "thumb-delete", type: "button", tabindex: "-1", onclick: () => attempt(() => removeExample(id)) }, icon(CROSS));
  const element = h("div", {
    class: "thumb", draggable: "true", "data-example": id,
    onpointerenter: () => set({ hot: id }), onpointerleave: () => set({ hot: null }),
    ondragstart: (event) => {
      event.dataTransfer.setData(MOVED, id);
      event.dataTransfer.effectAllowed = "move";
    },
  }, select, remove);
  return {
    element,
    update(e) {
      if (e.has_image) show(image, e, 96, "given");
      element.classList.toggle("no-image", !e.has_image);
      bar.style.width = `${100 * e.weight}%`;
      share.textContent = e.blank ? "blank" : percent(e.weight);
      const blank = e.blank ? ", blank" : "";
      select.setAttribute("aria-label", `Example of ${nameOf()}, counts ${percent(e.weight)} of its class${blank}`);
      select.title = `Counts for ${percent(e.weight)} of “${nameOf()}”${blank}`;
      remove.setAttribute("aria-label", `Delete this example of ${nameOf()}`);
    },
  };
}

function mark() {
  for (const element of document.querySelectorAll("[data-example]")) {
    const id = element.dataset.example;
    element.classList.toggle("hot", id === state.hot);
    element.classList.toggle("selected", id === state.selected);
    element.querySelector(".thumb-face")?.setAttribute("aria-pressed", String(id === state.selected));
  }
  if (state.selected && !exampleById(state.selected)) set({ selected: null });
}

/** Turn the name of a class into a field. Enter keeps the new name, Escape the old one. */
function edit(name, id, button) {
  const before = name.textContent;
  const field = h("input", { value: before, maxlength: 100, "aria-label": `New name of ${before}` });
  let over = false;
  const end = async (keep) => {
    if (over) return;
    over = true;
    const after = field.value.trim();
    name.textContent = before;
    button.focus();
    if (keep && after && after !== before) await attempt(() => renameClass(id, after));
  };
  field.addEventListener("blur", () => end(true));
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault(); // else Enter would press the button that gets the focus
    end(event.key === "Enter");
  });
  name.replaceChildren(field);
  field.select();
}
