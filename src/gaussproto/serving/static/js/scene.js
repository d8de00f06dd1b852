/** What the plane shows, as marks in pixels: aligned with the plane before and fitted to the picture. */

import { procrustes } from "./align.js";
import { classById, colour, state } from "./state.js";

/**
 * @typedef {{key: string, kind: "example"|"class"|"query"|"line", id?: string, colour: string, x: number, y: number,
 *   r?: number, x2?: number, y2?: number, top?: number, of?: string, label?: string, strong?: boolean, beside?: boolean, far?: boolean,
 *   lx?: number, ly?: number, free?: boolean}} Mark with `lx` and `ly` where its text goes, and whether that covers no other
 */

const MARGIN = 38; // pixels
const NEAR = 45;
const LARGEST = 0.14; // radius of the median circle, as a share of the picture
let gallery = null;
let planeShown = null;
let align = lying;
/** Where each example was, in plane coordinates. */
let before = new Map();

function lying({ x, y }) {
  return { x, y };
}

function upright({ x, y }) {
  return { x: y, y: x };
}

/** @returns {Mark[]} */
export function scene(width, height) {
  const { plane } = state;
  if (gallery !== state.gallery?.id) {
    gallery = state.gallery?.id;
    before = new Map();
  }
  if (!plane) return [];
  if (planeShown !== plane) {
    planeShown = plane;
    const known = plane.examples.filter((e) => before.has(e.id));
    // two points or more decide how the plane is turned; before that, its longer axis goes along the longer side
    align = known.length > 1 ? procrustes(known, known.map((e) => before.get(e.id))) : height > 1.15 * width ? upright : lying;
    before = new Map(plane.examples.map((e) => [e.id, align(e)]));
  }
  const marks = [...plane.classes.map(classMark), ...plane.examples.map(exampleMark)];
  const query = queryMarks(marks);
  const near = new Set(query.map((mark) => `class ${mark.id}`));
  for (const mark of marks) mark.far = query.length > 0 && mark.kind === "class" && !near.has(mark.key);
  return fitted([...marks, ...query], width, height);
}

const short = (name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name);
const nameOf = (id) => classById(id)?.name ?? "";

const classMark = (c) => ({
  key: `class ${c.id}`, kind: "class", id: c.id, colour: colour(nameOf(c.id)), label: short(nameOf(c.id)), ...align(c), r: c.radius * state.plane.unit,
  beside: classById(c.id)?.examples.length === 1,
});

const exampleMark = (e) => ({
  key: `example ${e.id}`, kind: "example", id: e.id, of: e.class, colour: colour(nameOf(e.class)), label: nameOf(e.class), ...before.get(e.id), r: e.radius * state.plane.unit,
});

/** The query and its distance to each class, if the answer belongs to this plane. */
function queryMarks(marks) {
  const { answer, plane } = state;
  if (!answer?.point || answer.blank || answer.version !== plane.version || answer.weights !== state.weights) return [];
  const at = align({ x: answer.point[0], y: answer.point[1] });
  const lines = answer.classes.slice(0, 5).map((c, rank) => {
    const end = marks.find((mark) => mark.key === `class ${c.id}`);
    return end && {
      key: `line ${c.id}`, kind: "line", id: c.id, colour: end.colour, ...at, x2: end.x, y2: end.y,
      label: c.distance.toPrecision(3), strong: rank === 0 && !answer.unknown,
    };
  });
  return [...lines.filter(Boolean), { key: "query", kind: "query", colour: "", label: "query", ...at }];
}

/** From plane coordinates to pixels, with the same scale along both axes. */
function fitted(marks, width, height) {
  const points = marks.filter((mark) => mark.kind !== "line");
  const xs = points.flatMap(({ x, r }) => reach(x, r));
  const ys = points.flatMap(({ y, r }) => reach(y, r));
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const radii = points.map(({ r }) => r).filter(Boolean).sort((a, b) => a - b);
  const most = (LARGEST * Math.min(width, height)) / (radii[radii.length >> 1] || 1);
  const scale = Math.min(most, (width - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (high - low || 1));
  const toX = (x) => width / 2 + (x - (left + right) / 2) * scale;
  const toY = (y) => height / 2 - (y - (low + high) / 2) * scale;
  const drawn = marks.map((mark) => ({
    ...mark, x: toX(mark.x), y: toY(mark.y),
    ...(mark.r === undefined ? {} : { r: mark.r * scale }),
    ...(mark.x2 === undefined ? {} : { x2: toX(mark.x2), y2: toY(mark.y2) }),
  }));
  for (const mark of drawn.filter((one) => one.kind === "class")) mark.top = topOf(mark, drawn);
  return drawn;
}

/** The height of the highest example that is near the prototype of its class: the name goes above it. */
function topOf({ id, x, y }, drawn) {
  const near = drawn.filter((one) => one.of === id && Math.abs(one.x - x) < NEAR && y - one.y < 2 * NEAR);
  return Math.min(y, ...near.map((one) => one.y));
}

/** A circle may reach over the edge by half, so that one uncertain example does not shrink all the others. */
const reach = (middle, r = 0) => [middle - r / 2, middle + r / 2];
