/** Align a projection with the one before, so that points do not jump: a plane's axes have no natural direction. */

/** @typedef {{x: number, y: number}} Point */

/**
 * The rotation or reflection and the shift that bring `from` nearest to `to` (orthogonal Procrustes in two dimensions).
 * @param {Point[]} from
 * @param {Point[]} to the same points before
 * @returns {(p: Point) => Point}
 */
export function procrustes(from, to) {
  if (from.length === 0) return (p) => ({ x: p.x, y: p.y });
  const a = mean(from);
  const b = mean(to);
  let [xx, xy, yx, yy] = [0, 0, 0, 0];
  from.forEach((p, i) => {
    const [px, py, qx, qy] = [p.x - a.x, p.y - a.y, to[i].x - b.x, to[i].y - b.y];
    xx += px * qx;
    xy += px * qy;
    yx += py * qx;
    yy += py * qy;
  });
  // the best rotation gains hypot(xx + yy, xy - yx), the best reflection hypot(xx - yy, xy + yx)
  const turn = [xx + yy, xy - yx];
  const flip = [xx - yy, xy + yx];
  const mirrored = Math.hypot(...flip) > Math.hypot(...turn) + 1e-12;
  const [c, s] = unit(mirrored ? flip : turn);
  const apply = mirrored
    ? (x, y) => ({ x: c * x + s * y, y: s * x - c * y })
    : (x, y) => ({ x: c * x - s * y, y: s * x + c * y });
  return (p) => {
    const q = apply(p.x - a.x, p.y - a.y);
    return { x: q.x + b.x, y: q.y + b.y };
  };
}

const mean = (points) => ({
  x: points.reduce((sum, p) => sum + p.x, 0) / points.length,
  y: points.reduce((sum, p) => sum + p.y, 0) / points.length,
});

function unit([x, y]) {
  const length = Math.hypot(x, y);
  return length > 1e-12 ? [x / length, y / length] : [1, 0];
}
