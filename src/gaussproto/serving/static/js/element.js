/** Build elements. Text always becomes a text node, so a name can never become HTML. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `on…` adds a listener, `class` sets classes, false or null leaves one out
 * @param {...(Node|string|number|null|false|undefined)} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** @returns {any} */
export const byId = (id) => document.getElementById(id);

/** An icon from a path in a square of 16. */
export const icon = (path) => s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: path }));

export const CROSS = "M4 4l8 8M12 4l-8 8";
export const PENCIL = "M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2z";
export const BIN = "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5";
export const PLUS = "M8 3v10M3 8h10";

/** With spaces that do not break: the number and its sign stay on one line. */
export const percent = (share) => {
  const value = 100 * share;
  if (value > 99.5 && value < 100) return ">\u00a099\u00a0%";
  if (value > 0 && value < 0.5) return "<\u00a01\u00a0%";
  return `${Math.round(value)}\u00a0%`;
};

export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

/** Show the sentence of an error in the given paragraph, or hide it. */
export function say(place, error) {
  const text = error ? error.message ?? String(error) : "";
  place.textContent = text;
  place.hidden = !text;
}

/** Make the children of `parent` those that belong to `items`, in their order, and keep the ones that exist. */
export function reconcile(parent, known, items, create) {
  const keep = new Set(items.map((item) => item.id));
  for (const [id, view] of known) {
    if (!keep.has(id)) {
      view.element.remove();
      known.delete(id);
    }
  }
  items.forEach((item, index) => {
    let view = known.get(item.id);
    if (!view) known.set(item.id, (view = create(item)));
    if (parent.children[index] !== view.element) parent.insertBefore(view.element, parent.children[index] ?? null);
    view.update(item);
  });
}
