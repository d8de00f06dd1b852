/** Keep: several galleries, gallery files, and the examples as a zip. */

import * as api from "./api.js";
import { BIN, byId, count, CROSS, h, icon, say } from "./element.js";
import { track } from "./progress.js";
import { on, set, state } from "./state.js";
import { changed, open, store } from "./sync.js";
import { did, forget, forgetAll, inLine } from "./undo.js";

/** The galleries that this page has deleted, the last first. @type {{id: string, name: string, here: boolean}[]} */
let deleted = [];

const dialog = () => byId("galleries");
const LOOPBACK = /^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

export function startKeep() {
  byId("gallery-button").addEventListener("click", showGalleries);
  on("gallery", () => {
    const name = state.gallery?.name ?? "…";
    byId("gallery-name").textContent = name;
    document.title = `${name} · gaussproto studio`;
  });
  byId("privacy").textContent = LOOPBACK.test(location.hostname)
    ? "Nothing leaves this machine."
    : `Your images go to ${location.host} and nowhere else.`;
  store.addEventListener("gone", () => {
    forgetAll();
    say(byId("teach-error"), "The gallery was deleted elsewhere. This is another one.");
  });
}

async function showGalleries() {
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const attempt = async (work) => {
    say(error, null);
    try {
      await work();
    } catch (reason) {
      say(error, reason);
    }
  };
  const list = h("ul", { class: "gallery-list" });
  const body = h("div", {});
  dialog().replaceChildren(
    h("header", {}, h("h2", { id: "galleries-title" }, "Galleries"),
      h("button", { class: "tool quiet close", type: "button", "aria-label": "Close", onclick: () => dialog().close() }, icon(CROSS))),
    h("p", { class: "lead" }, `A gallery holds your classes and their examples. It is saved with every change. ${byId("privacy").textContent}`),
    list, body, error,
  );
  if (!dialog().open) dialog().showModal();
  await attempt(async () => {
    const [galleries, encoders] = await track("Reading the galleries", () => Promise.all([api.listGalleries(), api.listEncoders()]));
    deleted = deleted.filter((one) => !galleries.some((g) => g.id === one.id));
    list.replaceChildren(...deleted.slice(0, 1).map((g) => deletedRow(g, attempt)), ...galleries.map((g) => row(g, attempt)));
    body.replaceChildren(thisOne(attempt), newOne(encoders, attempt));
  });
}

function row(g, attempt) {
  const here = g.id === state.gallery?.id;
  return h("li", { class: here ? "here" : null },
    h("button", { class: "choose", type: "button", "aria-current": here ? "true" : null, onclick: () => attempt(() => choose(g.id)) },
      h("strong", {}, g.name), h("span", {}, `${count(g.classes, "class", "classes")}, ${count(g.examples, "example")}`)),
    h("button", { class: "tool quiet", type: "button", "aria-label": `Delete ${g.name}`, title: "Delete", onclick: () => attempt(() => remove({ id: g.id, name: g.name, here })) }, icon(BIN)));
}

async function choose(id) {
  if (id !== state.gallery?.id) {
    forgetAll();
    set({ query: null, answer: null, tries: [] });
    await track("Opening the gallery", () => open(id));
  }
  dialog().close();
}

/** A gallery that was just deleted, in its place in the list. */
function deletedRow(g, attempt) {
  return h("li", { class: "deleted" },
    h("span", { role: "status" }, `“${g.name}” is deleted.`),
    h("button", { class: "button", type: "button", onclick: () => attempt(async () => {
      await inLine(() => bringBack(g));
      forget(g);
      await showGalleries();
    }) }, "Undo"));
}

/** Delete a gallery. It can be brought back from the list, and by undo. */
async function remove(g) {
  const away = () => track(`Deleting ${g.name}`, async () => {
    if (g.id === state.gallery?.id) {
      // leave it first, else the page would look for changes of a gallery that is gone
      const rest = (await api.listGalleries()).filter((one) => one.id !== g.id);
      const next = rest[0] ?? (await api.createGallery({ name: "My symbols" }));
      set({ query: null, answer: null, tries: [] });
      await open(next.id);
    }
    await api.deleteGallery(g.id);
    deleted = [g, ...deleted];
  });
  await inLine(away);
  if (g.here) forgetAll(); // the steps before it belong to the gallery that is gone
  did({ label: `delete ${g.name}`, scope: g, undo: () => bringBack(g), redo: away });
  await showGalleries();
  dialog().querySelector(".deleted button")?.focus();
}

async function bringBack(g) {
  await track(`Bringing back ${g.name}`, () => api.restoreGallery(g.id));
  deleted = deleted.filter((one) => one !== g);
  if (g.here) await open(g.id);
}

function thisOne(attempt) {
  const name = h("input", { id: "gallery-rename", value: state.gallery.name, maxlength: 100, autocomplete: "off" });
  const reject = h("input", { type: "checkbox", id: "reject" });
  reject.checked = state.gallery.reject !== null;
  reject.addEventListener("change", () => attempt(async () => {
    await api.changeGallery(state.gallery.id, { reject: reject.checked ? 0.05 : null });
    await changed();
  }));
  const rename = async (event) => {
    event.preventDefault();
    await attempt(async () => {
      await api.changeGallery(state.gallery.id, { name: name.value });
      await changed();
      await showGalleries();
      byId("gallery-rename").focus();
    });
  };
  const empty = state.gallery.classes.every((c) => c.examples.length === 0);
  const save = (what, ending, text) => h("button", {
    class: "button", type: "button", disabled: empty,
    onclick: () => attempt(() => track(text, () => api.download(state.gallery.id, what, `${state.gallery.name}${ending}`))),
  }, text);
  return h("section", { class: "part" },
    h("h3", {}, "This gallery"),
    h("form", { class: "field", onsubmit: rename }, h("label", { for: "gallery-rename" }, "Name"), name, h("button", { class: "button", type: "submit" }, "Rename")),
    h("label", { class: "check" }, reject, "Say “unknown” to a drawing that is far from every class"),
    h("p", { class: "soft" }, `The encoder is ${state.gallery.encoder}.`),
    h("div", { class: "row" }, save("file", ".gallery", "Save as a gallery file"), save("examples.zip", ".zip", "Download the examples")),
    h("p", { class: "soft" }, "Read the file with gp.load in Python. Pass the folders in the zip to gaussproto classify --support."));
}

function newOne(encoders, attempt) {
  const name = h("input", { id: "gallery-new", maxlength: 100, autocomplete: "off", placeholder: "for example Road signs" });
  const encoder = h("select", { id: "gallery-encoder" }, ...encoders.map((e) => h("option", { value: e.name, title: e.about }, e.name)));
  encoder.value = encoders.find((e) => e.default)?.name ?? encoder.value;
  const about = h("p", { class: "soft" });
  const tell = () => (about.textContent = encoders.find((e) => e.name === encoder.value)?.about ?? "");
  encoder.addEventListener("change", tell);
  tell();
  const create = (event) => {
    event.preventDefault();
    return attempt(async () => {
      const made = await api.createGallery({ name: name.value.trim() || "My symbols", encoder: encoder.value });
      await choose(made.id);
    });
  };
  const file = h("input", { type: "file", accept: ".gallery,.safetensors" });
  file.addEventListener("change", () => attempt(async () => {
    const [given] = file.files;
    file.value = "";
    const made = await track(`Opening ${given.name}`, () => api.openGallery(given, given.name.replace(/\.[^.]*$/, "") || "Opened"));
    await choose(made.id);
  }));
  return h("section", { class: "part" },
    h("h3", {}, "Another gallery"),
    h("form", { onsubmit: create },
      h("div", { class: "field" }, h("label", { for: "gallery-new" }, "Name"), name),
      h("div", { class: "field" }, h("label", { for: "gallery-encoder" }, "Encoder"), encoder), about,
      h("div", { class: "row" }, h("button", { class: "button", type: "submit" }, "New gallery"),
        h("label", { class: "button file" }, file, h("span", {}, "Open a gallery file")))));
}
