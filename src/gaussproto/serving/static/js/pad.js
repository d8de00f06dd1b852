/** A drawing pad for mouse, pen, touch and keyboard. It shows ink on paper and exports dark ink on white. */

import { fromBase64 } from "./files.js";
import { did, forget } from "./undo.js";

/** @typedef {{file: Blob, name: string}} Named an image file and its name */
/** @typedef {{strokes: number[][][], given: Named[], image: ImageBitmap|null}} Content of a pad */

const EXPORT = 210; // pixels
const PEN = 0.04; // width of the pen, as a share of the pad
const STEP = 0.02; // of an arrow key
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Pad extends EventTarget {
  /** Emits `move` while a stroke grows, `change` when the drawing has changed. */
  constructor(canvas, sheet, memory) {
    super();
    this.canvas = canvas;
    this.sheet = sheet;
    this.memory = memory;
    /** Strokes of points [x, y, width], from 0 to 1. @type {number[][][]} */
    this.strokes = JSON.parse(sessionStorage.getItem(memory) ?? "[]");
    /** Image files in place of a drawing. @type {Named[]} */
    this.given = [];
    this.image = null; // the first of them, if the browser can show it
    this.stroke = null;
    this.pen = null; // of the keyboard: {x, y, down}
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) canvas.addEventListener(end, () => this.up());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.lift());
    new ResizeObserver(() => this.draw()).observe(canvas);
    this.changed(false);
  }

  get empty() {
    return this.strokes.length === 0 && this.given.length === 0;
  }

  /** @returns {Content} */
  get content() {
    return { strokes: this.strokes, given: this.given, image: this.image };
  }

  down(event) {
    if (event.button !== 0 || this.stroke) return;
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    this.pen = null;
    this.byPointer = event.pointerType;
    this.begin(this.pointOf(event));
  }

  move(event) {
    if (!this.stroke || this.pen) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const one of events.length ? events : [event]) this.stroke.push(this.pointOf(one));
    this.draw();
    this.dispatchEvent(new Event("move"));
  }

  pointOf(event) {
    const box = this.canvas.getBoundingClientRect();
    const pressure = event.pointerType === "pen" && event.pressure > 0 ? 0.5 + event.pressure : 1;
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height, pressure];
  }

  begin(point) {
    this.before = this.content;
    this.stroke = [point];
    Object.assign(this, { strokes: [...this.strokes, this.stroke], given: [], image: null });
    this.draw();
  }

  up() {
    if (!this.stroke) return;
    this.stroke = null;
    this.did("draw a stroke", this.before);
    this.changed();
  }

  /** Arrow keys move a pen, Space puts it down or lifts it. */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = KEYS[event.key];
    if (arrow) {
      this.pen ??= { x: 0.5, y: 0.5, down: false };
      const far = event.shiftKey ? 5 : 1;
      this.pen.x = Math.min(1, Math.max(0, this.pen.x + arrow[0] * STEP * far));
      this.pen.y = Math.min(1, Math.max(0, this.pen.y + arrow[1] * STEP * far));
      if (this.pen.down) this.stroke.push([this.pen.x, this.pen.y, 1]);
      this.draw();
    } else if (event.key === " ") {
      this.pen ??= { x: 0.5, y: 0.5, down: false };
      this.byPointer = "";
      if (this.pen.down) this.lift();
      else {
        this.pen.down = true;
        this.begin([this.pen.x, this.pen.y, 1]);
      }
    } else if (event.key === "Backspace") {
      this.lift();
      this.change("remove a stroke", { strokes: this.strokes.slice(0, -1), given: [], image: null });
    } else return;
    event.preventDefault();
  }

  lift() {
    if (this.pen?.down) {
      this.pen.down = false;
      this.up();
    }
    this.draw();
  }

  /** @param {Content} content */
  put(content) {
    Object.assign(this, content);
    this.changed();
  }

  /** Make what was done since `before` a step of undo. */
  did(label, before) {
    const after = this.content;
    did({ label, scope: this, undo: () => this.put(before), redo: () => this.put(after) });
  }

  change(label, content) {
    if (this.empty) return;
    const before = this.content;
    this.put(content);
    this.did(label, before);
  }

  /** Clear the pad; undo brings back what was on it. */
  wipe() {
    this.change("clear the pad", { strokes: [], given: [], image: null });
  }

  /** Empty the pad after its drawing was used. */
  reset() {
    forget(this);
    this.put({ strokes: [], given: [], image: null });
  }

  /** Take image files in place of a drawing, and show the first. @param {Named[]} given */
  async take(given) {
    let image = null;
    try {
      image = await createImageBitmap(given[0].file);
    } catch {
      // the server may still be able to read it
    }
    Object.assign(this, { strokes: [], given, image });
    forget(this);
    this.changed(false);
  }

  changed(tell = true) {
    sessionStorage.setItem(this.memory, JSON.stringify(this.strokes, (_, v) => (typeof v === "number" ? Math.round(v * 1e4) / 1e4 : v)));
    this.draw();
    if (tell) this.dispatchEvent(new Event("change"));
  }

  draw() {
    const side = Math.round(this.canvas.clientWidth * devicePixelRatio);
    if (!side) return;
    if (this.canvas.width !== side) this.canvas.width = this.canvas.height = side;
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, side, side);
    if (this.image) fit(context, this.image, side);
    ink(context, this.strokes, side, "#1c1d2b");
    if (this.pen) cross(context, this.pen, side);
    this.sheet.classList.toggle("has-ink", !this.empty);
  }

  /** What is on the pad as files. @returns {Named[]} */
  files() {
    return this.given.length ? this.given : [{ file: this.export(), name: "drawing.png" }];
  }

  /** The drawing as a PNG file. At once: `toBlob` would wait until the browser is idle. @returns {Blob} */
  export() {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = EXPORT;
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, EXPORT, EXPORT);
    ink(context, this.strokes, EXPORT, "#000");
    return fromBase64(canvas.toDataURL("image/png"));
  }
}

/** Smooth lines: curves through the middles of neighbouring points. */
function ink(context, strokes, side, colour) {
  context.lineCap = context.lineJoin = "round";
  context.strokeStyle = colour;
  for (const stroke of strokes) {
    const points = stroke.map(([x, y, width]) => [x * side, y * side, width * PEN * side]);
    if (points.length === 1) points.push([points[0][0] + 0.01, points[0][1], points[0][2]]);
    let from = points[0];
    for (let i = 1; i < points.length; i++) {
      const [x, y, width] = points[i];
      const next = points[i + 1];
      const to = next ? [(x + next[0]) / 2, (y + next[1]) / 2] : [x, y];
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(from[0], from[1]);
      context.quadraticCurveTo(x, y, to[0], to[1]);
      context.stroke();
      from = to;
    }
  }
}

function fit(context, image, side) {
  const scale = side / Math.max(image.width, image.height);
  const [w, h] = [image.width * scale, image.height * scale];
  context.drawImage(image, (side - w) / 2, (side - h) / 2, w, h);
}

function cross(context, { x, y, down }, side) {
  context.lineWidth = 1.5 * devicePixelRatio;
  context.strokeStyle = down ? "#c2375b" : "#2f6fb5";
  const arm = side / 24;
  context.beginPath();
  context.moveTo(x * side - arm, y * side);
  context.lineTo(x * side + arm, y * side);
  context.moveTo(x * side, y * side - arm);
  context.lineTo(x * side, y * side + arm);
  context.stroke();
}
