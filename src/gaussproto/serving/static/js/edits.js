/** The edits of a gallery, each with its inverse for undo. */

import * as api from "./api.js";
import { count } from "./element.js";
import { track } from "./progress.js";
import { classById, classByName, classes, exampleById, examples, keepColour, set, state } from "./state.js";
import { changed, refresh } from "./sync.js";
import { did, inLine } from "./undo.js";

const AT_ONCE = 20; // images in one request

const renewed = new Map(); // id of a deleted example → its id after it was added again

/** The id that an example has now. */
function idNow(id) {
  while (renewed.has(id)) id = renewed.get(id);
  return id;
}

/** The files that this page has sent, by the id of their example, so that undo gives back the very same. */
const originals = new Map();

function gallery() {
  if (!state.gallery) throw new Error("No gallery is open yet. Wait until the server answers.");
  return state.gallery.id;
}

/**
 * Add images. They become one step of undo, and all of a class are added in one go.
 * @param {{file: Blob, name: string, class: string}[]} images
 */
export const addImages = (images) => inLine(() => add(images));

async function add(images) {
  const g = gallery();
  const groups = Map.groupBy ? Map.groupBy(images, (image) => image.class) : group(images);
  const before = new Set(classes().map((c) => c.name));
  const ids = [];
  const label = images.length === 1 ? `add to ${images[0].class}` : `add ${images.length} images`;
  const create = () =>
    track(images.length === 1 ? "Adding the example" : `Adding ${images.length} images`, async (step) => {
      const added = [];
      if (ids.length) await deleteAll(g, ids); // what a redo that failed half way had added
      try {
        for (const [name, members] of groups) {
          for (let i = 0; i < members.length; i += AT_ONCE) {
            const part = members.slice(i, i + AT_ONCE);
            const reply = await api.addFiles(g, name, part);
            reply.examples.forEach((e, k) => originals.set(e.id, part[k].file));
            added.push(...reply.examples.map((e) => e.id));
            step(added.length, images.length);
          }
        }
      } finally {
        added.forEach((id, i) => (i < ids.length ? renewed.set(idNow(ids[i]), id) : ids.push(id)));
        await changed();
      }
    });
  const command = {
    label,
    undo: async () => {
      await deleteAll(g, ids);
      await dropNew(g, groups.keys(), before);
    },
    redo: create,
  };
  try {
    await create();
  } finally {
    if (ids.length) did(command);
  }
}

function group(images) {
  const groups = new Map();
  for (const image of images) groups.set(image.class, [...(groups.get(image.class) ?? []), image]);
  return groups;
}

/** Delete examples. One that is gone already is no error: an undo that failed half way is repeated. */
async function deleteAll(g, ids) {
  await refresh();
  for (const id of ids.map(idNow)) if (exampleById(id)) await api.deleteExample(g, id);
  await changed();
}

/** Delete the classes that an undone edit had created, if nothing else is in them. */
async function dropNew(g, names, before) {
  for (const name of names) {
    const found = before.has(name) ? null : classByName(name);
    if (found?.examples.length === 0) await api.deleteClass(g, found.id);
  }
  await changed();
}

/** Load a ready set, and show its drawings to ask about. */
export const addSamples = (sample) => inLine(() => load(sample));

async function load(sample) {
  const g = gallery();
  const before = new Set(classes().map((c) => c.name));
  const tries = state.tries ?? [];
  let added = [];
  const fill = () =>
    track(`Loading ${sample.name}`, async () => {
      await refresh();
      const known = new Set(examples().map((e) => e.id));
      const reply = await api.addSamples(g, sample.id);
      await changed();
      const fresh = classes().flatMap((c) => c.examples.filter((e) => !known.has(e.id)).map((e) => ({ id: e.id, name: c.name })));
      fresh.forEach((one, i) => added[i] && renewed.set(idNow(added[i].id), one.id));
      added = fresh;
      set({ tries: reply.queries.map((q) => ({ class: q.class, image: q.image })) });
    });
  await fill();
  did({
    label: `load ${sample.name}`,
    undo: async () => {
      await deleteAll(g, added.map((one) => one.id));
      await dropNew(g, new Set(added.map((one) => one.name)), before);
      set({ tries });
    },
    redo: fill,
  });
}

/** What is needed to add an example again. */
async function keepsake(g, example) {
  const { name } = classById(example.class);
  if (!example.has_image) return { example, class: name, image: null };
  const file = originals.get(example.id) ?? (await api.readImage(g, example.id, { view: "original" }));
  return { example, class: name, file, image: await dataUrl(file) };
}

const dataUrl = (blob) =>
  new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Error("The browser could not read the image."));
    reader.readAsDataURL(blob);
  });

async function restore(g, kept) {
  await refresh();
  const there = kept.filter((one) => one.image && !exampleById(idNow(one.example.id)));
  for (let i = 0; i < there.length; i += AT_ONCE) {
    const part = there.slice(i, i + AT_ONCE);
    const reply = await api.addExamples(g, part.map(({ example, class: name, image }) => ({
      class: name, image, name: example.name || undefined, damage: example.damage,
    })));
    reply.examples.forEach((e, k) => {
      renewed.set(idNow(part[k].example.id), e.id);
      originals.set(e.id, part[k].file);
    });
  }
  await changed();
  const lost = kept.filter((one) => !one.image).length;
  if (lost) throw new Error(`${count(lost, "example")} came from a gallery file without an image and cannot be brought back.`);
}

export const removeExample = (id) => inLine(() => removeOne(id));

async function removeOne(id) {
  const g = gallery();
  const example = exampleById(id);
  if (!example) return;
  await track("Deleting the example", async () => {
    const kept = await keepsake(g, example);
    await api.deleteExample(g, id);
    await changed();
    did({
      label: `delete an example of ${kept.class}`,
      undo: () => restore(g, [kept]),
      redo: () => deleteAll(g, [id]),
    });
  });
}

export const removeClass = (id) => inLine(() => removeAll(id));

async function removeAll(id) {
  const g = gallery();
  const { name, examples } = classById(id);
  await track(`Deleting ${name}`, async (step) => {
    const kept = [];
    for (const example of examples) {
      kept.push(await keepsake(g, example));
      step(kept.length, examples.length);
    }
    await api.deleteClass(g, id);
    await changed();
    did({
      label: `delete ${name}`,
      undo: async () => {
        if (kept.length) return restore(g, kept);
        await api.createClass(g, name);
        return changed();
      },
      redo: async () => {
        const found = classByName(name);
        if (found) await api.deleteClass(g, found.id);
        await changed();
      },
    });
  });
}

export const renameClass = (id, name) => inLine(() => rename(id, name));

async function rename(id, name) {
  const g = gallery();
  const before = classById(id).name;
  const change = (from, to) => async () => {
    const found = classByName(from);
    if (!found) throw new Error(`There is no class ${from} any more.`);
    await api.renameClass(g, found.id, to);
    keepColour(from, to);
    await changed();
  };
  await change(before, name)();
  did({ label: `rename ${before}`, undo: change(name, before), redo: change(before, name) });
}

/** Move an example to another class. */
export const moveExample = (id, name) => inLine(() => move(id, name));

async function move(id, name) {
  const g = gallery();
  const from = classById(exampleById(id).class).name;
  if (from === name) return;
  const put = (target) => async () => {
    const place = classByName(target) ?? (await api.createClass(g, target));
    await api.changeExample(g, idNow(id), { class: place.id });
    await changed();
  };
  await put(name)();
  did({ label: `move to ${name}`, undo: put(from), redo: put(name) });
}

/** Damage an example while a slider moves: only the newest value is sent when the one before is answered. */
export function damager(id) {
  const g = gallery();
  const start = exampleById(id).damage;
  let wanted = start;
  let sent = start;
  let running = null;
  const put = (damage) => async () => {
    await api.changeExample(g, idNow(id), { damage });
    await changed();
  };
  const run = async () => {
    while (sent !== wanted) {
      sent = wanted;
      await track("Damaging the example", put(sent));
    }
  };
  return {
    to(damage) {
      wanted = damage;
      running ??= run().finally(() => (running = null));
      return running;
    },
    ended: false,
    /** Make what was done one step of undo. */
    async end() {
      if (this.ended) return;
      this.ended = true;
      await running;
      const last = wanted;
      if (last !== start) did({ label: "change the damage", undo: put(start), redo: put(last) });
    },
  };
}
