/** What the page shows, in one place. Parts subscribe to the keys they draw. */

/**
 * @typedef {{id: string, name: string, class: string, has_image: boolean, damage: number, weight: number,
 *   precision: number|null, blank: boolean}} Example
 * @typedef {{id: string, name: string, examples: Example[]}} Class
 * @typedef {{id: string, name: string, encoder: string, reject: number|null, version: number, classes: Class[]}} Gallery
 * @typedef {"precision"|"uniform"} Weights
 */

export const state = {
  /** @type {Gallery|null} */ gallery: null,
  /** @type {any} */ plane: null,
  /** @type {Weights} */ weights: "precision",
  /** The query: `{file, name, url}`. @type {any} */ query: null,
  /** The answer to it, with the version and weights it was given for. @type {any} */ answer: null,
  /** Id of the example that the inspector shows. @type {string|null} */ selected: null,
  /** Id of the example under the pointer or the focus, in any part of the page. @type {string|null} */ hot: null,
};

const listeners = new Map();

/** Call `draw` now, if wanted, and whenever one of the keys changes. */
export function on(keys, draw) {
  for (const key of keys.split(" ")) listeners.set(key, [...(listeners.get(key) ?? []), draw]);
}

export function set(change) {
  const draws = new Set();
  for (const [key, value] of Object.entries(change)) {
    if (Object.is(state[key], value)) continue;
    state[key] = value;
    for (const draw of listeners.get(key) ?? []) draws.add(draw);
  }
  for (const draw of draws) draw();
}

/** @returns {Class[]} */
export const classes = () => state.gallery?.classes ?? [];

/** @returns {Example[]} */
export const examples = () => classes().flatMap((c) => c.examples);

export const exampleById = (id) => examples().find((e) => e.id === id) ?? null;
export const classById = (id) => classes().find((c) => c.id === id) ?? null;
export const classByName = (name) => classes().find((c) => c.name === name) ?? null;

/** How many classes have examples: the way of the task. */
export const way = () => classes().filter((c) => c.examples.length > 0).length;

const COLOURS = 8;
const MARKS = 3; // full, hollow, dashed
const slots = new Map();

/** The colour of a class as names for CSS. It stays when other classes come and go. When colours repeat, the mark differs. */
export function colour(name) {
  const taken = new Set(classes().map((c) => slots.get(c.name)).filter((slot) => slot !== undefined));
  if (!slots.has(name)) {
    let slot = 0;
    while (taken.has(slot)) slot++;
    slots.set(name, slot);
  }
  const slot = slots.get(name);
  return `c${slot % COLOURS} r${Math.floor(slot / COLOURS) % MARKS}`;
}

export const forgetColours = () => slots.clear();
export const keepColour = (from, to) => slots.set(to, slots.get(from) ?? 0);
