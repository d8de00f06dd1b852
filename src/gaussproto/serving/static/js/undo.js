/** A stack of what the user did. Each command can be undone and done again. */

import { byId, say } from "./element.js";
import { track } from "./progress.js";

/** @typedef {{label: string, undo: () => any, redo: () => any, scope?: any}} Command */

/** @type {Command[]} */
let past = [];
/** @type {Command[]} */
let future = [];
let line = Promise.resolve();

/** Functions that finish an edit in progress, for example of a slider. Undo waits for them. */
export const unfinished = new Set();

/** @param {Command} command that was just done */
export function did(command) {
  past.push(command);
  future = [];
  draw();
}

/** Forget the commands of a scope, for example the strokes of a drawing that was added. */
export function forget(scope) {
  past = past.filter((command) => command.scope !== scope);
  future = future.filter((command) => command.scope !== scope);
  draw();
}

export function forgetAll() {
  past = [];
  future = [];
  draw();
}

/** Do an edit after those before it are done, so that the stack has the order in which the user worked. */
export function inLine(work) {
  const done = line.then(work);
  line = done.catch(() => {});
  return done;
}

export const undo = () => step(() => past, () => future, "undo");
export const redo = () => step(() => future, () => past, "redo");

function step(from, to, what) {
  return inLine(async () => {
    for (const finish of unfinished) await finish();
    const command = from().pop();
    if (!command) return;
    draw();
    try {
      await track(what === "undo" ? `Undoing: ${command.label}` : `Doing again: ${command.label}`, async () => command[what]());
      to().push(command);
      say(byId("teach-error"), null);
    } catch (error) {
      if (mayWorkLater(error)) from().push(command);
      say(byId("teach-error"), error);
    }
    draw();
  });
}

/** The server refused or did not answer. What is gone does not come back, and would block the steps before it. */
const mayWorkLater = (error) => error.status !== undefined && error.status !== 404;

function draw() {
  for (const [id, stack, word] of [["undo", past, "Undo"], ["redo", future, "Redo"]]) {
    const button = byId(id);
    const last = stack.at(-1);
    button.disabled = !last;
    button.setAttribute("aria-label", last ? `${word}: ${last.label}` : word);
    button.title = `${button.getAttribute("aria-label")} (${word === "Undo" ? "Ctrl+Z" : "Ctrl+Shift+Z"})`;
  }
}

export function startUndo() {
  byId("undo").addEventListener("click", undo);
  byId("redo").addEventListener("click", redo);
  addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || document.querySelector("dialog[open]")) return;
    const text = event.target.matches?.("input:not([type=range], [type=radio], [type=checkbox])") && event.target.value;
    const key = event.key.toLowerCase();
    if (text || !(key === "z" || key === "y")) return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) redo();
    else undo();
  });
}
