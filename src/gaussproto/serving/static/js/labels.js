/** Where the names, the numbers and the query's picture go in the plane: beside their marks, and not over one another. */

/** @typedef {import("./scene.js").Mark} Mark */

const LETTER = 7; // pixels, about
const LINE = 15;
const STAR = 22;
const ASIDE = 22; // from the query to the edge of its picture
const SHORTEST = 70; // of a line with a number
const MOST = 400; // marks; among more, no place is free, and the search would take long
const ALONG = [0.55, 0.45, 0.65, 0.35, 0.75, 0.25];
const NEAR = [[0.8, -0.8], [-0.8, -0.8], [0.8, 0.8], [-0.8, 0.8], [1, 0], [-1, 0], [0, 1], [0, -1.2]];
const AROUND = [...NEAR, ...NEAR.map(([right, down]) => [1.8 * right, 1.8 * down])];

const box = (x, y, w, h) => ({ left: x - w / 2, right: x + w / 2, top: y - h / 2, bottom: y + h / 2 });
const length = (from, to, start, end) => Math.max(0, Math.min(to, end) - Math.max(from, start));
const common = (a, b) => length(a.left, a.right, b.left, b.right) * length(a.top, a.bottom, b.top, b.bottom);
const area = (a) => (a.right - a.left) * (a.bottom - a.top);
const total = (one, others) => others.reduce((sum, other) => sum + common(one, other), 0);

/**
 * Give each text and the query's picture a place: the first that is free, else the one that covers least.
 * Names come first and do not depend on the query, so that they stay while the pen moves.
 * @param {Mark[]} marks
 * @param {number} face half the side of an example
 * @param {number} picture half the side of the query's picture
 * @returns {Mark[]}
 */
export function arrange(marks, face, picture, width, height) {
  const frame = box(width / 2, height / 2, width, height);
  const things = marks.flatMap((mark) => thing(mark, face));
  const texts = [];
  const cost = (one) => 10 * total(one, texts) + total(one, things) + 8 * (area(one) - common(one, frame));
  const put = (places, boxOf) => {
    const costs = marks.length > MOST ? [0] : places.map((place, rank) => cost(boxOf(place)) + 20 * rank);
    const best = places[costs.indexOf(Math.min(...costs))];
    const free = total(boxOf(best), texts) === 0;
    texts.push(boxOf(best));
    return { lx: best.x, ly: best.y, free };
  };
  const found = new Map();
  const of = (kind) => marks.filter((mark) => mark.kind === kind);
  const text = (mark) => (place) => box(place.x, place.y - 4, LETTER * mark.label.length + 4, LINE);
  for (const mark of of("class")) found.set(mark, put(besideClass(mark, face), text(mark)));
  for (const mark of of("line").filter((one) => one.strong)) things.push(...alongLine(mark).map(({ x, y }) => box(x, y, 8, 8)));
  for (const mark of of("query")) {
    const withWord = ({ x, y }) => box(x, y + LINE / 2, Math.max(2 * picture, LETTER * mark.label.length + 4), 2 * picture + LINE);
    const away = picture + ASIDE;
    found.set(mark, put(AROUND.map(([right, down]) => ({ x: mark.x + right * away, y: mark.y + down * away })), withWord));
  }
  for (const mark of of("line")) {
    if (Math.hypot(mark.x2 - mark.x, mark.y2 - mark.y) < SHORTEST) found.set(mark, { lx: mark.x, ly: mark.y, free: false });
    else found.set(mark, put(alongLine(mark), text(mark)));
  }
  return marks.map((mark) => ({ ...mark, ...found.get(mark) }));
}

/** What a text should not cover. */
function thing({ kind, x, y, beside }, face) {
  if (kind === "example") return [box(x, y, 2 * face, 2 * face)];
  if (kind === "class") return [box(x + (beside ? face : 0), y - (beside ? face : 0), STAR, STAR)];
  return [];
}

function besideClass({ x, y, top, label }, face) {
  const side = face + (LETTER * label.length) / 2 + 8;
  const [above, below] = [top - face - 7, y + face + LINE + 2];
  return [
    { x, y: above }, { x, y: below }, { x: x + side, y: y + 4 }, { x: x - side, y: y + 4 },
    { x, y: above - LINE }, { x, y: below + LINE }, { x: x + side, y: y + 4 - LINE }, { x: x - side, y: y + 4 - LINE },
    { x: x + side, y: y + 4 + LINE }, { x: x - side, y: y + 4 + LINE }, { x, y: above - 2 * LINE }, { x, y: below + 2 * LINE },
  ];
}

const alongLine = ({ x, y, x2, y2 }) => ALONG.map((t) => ({ x: x + (x2 - x) * t, y: y + (y2 - y) * t + 4 }));
