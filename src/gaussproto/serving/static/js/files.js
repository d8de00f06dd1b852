/** Images from the file input, the clipboard, and dropped files and folders. */

import { canRead } from "./api.js";
import { count } from "./element.js";
import { track } from "./progress.js";
import { state } from "./state.js";

const READ = /[./](png|jpe?g|gif|bmp|webp|tiff?|p[bgpn]m)$/i; // as the end of a name or a type
const IMAGE = /\.(png|jpe?g|gif|bmp|webp|tiff?|p[bgpn]m|avif|heic|heif|svg)$/i;

/** @typedef {{file: Blob, name: string, class: string|null}} Given an image, with its class if a folder names it */

const isImage = (file) => file.type.startsWith("image/") || IMAGE.test(file.name);

/**
 * The images that the server can read, and a sentence if there are others.
 * @param {Given[]} images
 * @returns {Promise<{good: Given[], sentence: string|null}>}
 */
export async function readable(images) {
  const good = await track("Reading the images", async (step) => {
    const found = [];
    for (const [i, image] of images.entries()) {
      if (await opens(image)) found.push(image);
      step(i + 1, images.length);
    }
    return found;
  });
  const bad = images.filter((image) => !good.includes(image));
  if (!images.length) return { good, sentence: "There is no image among these files." };
  if (!bad.length) return { good, sentence: null };
  const which = bad.length === 1 ? bad[0].name : `${bad[0].name} and ${count(bad.length - 1, "other file")}`;
  return { good, sentence: `The studio cannot read ${which}. Save ${bad.length === 1 ? "it" : "them"} as PNG or JPEG.` };
}

/** Whether an image can be read. The server is asked about one that this browser cannot show, such as a TIFF. */
async function opens({ file, name }) {
  if (!READ.test(file.type) && !READ.test(name)) return false;
  try {
    (await createImageBitmap(file)).close();
    return true;
  } catch {
    return !state.gallery || canRead({ file, name }, state.gallery.encoder);
  }
}

/** The class of `letters/a/1.png` is `a`; of `letters/1.png` it is `letters`. A file alone has none. */
function given(file, path) {
  const folders = path.split("/").filter(Boolean).slice(0, -1);
  return { file, name: file.name || "image.png", class: folders.at(-1) ?? null };
}

/** An image file from base64, with or without the beginning of a data address. */
export function fromBase64(text) {
  const bytes = Uint8Array.from(atob(text.replace(/^data:[^,]*,/, "")), (c) => c.charCodeAt(0));
  return new Blob([bytes], { type: "image/png" });
}

/** @param {FileList} files of an input, perhaps of a folder @returns {Given[]} */
export const fromInput = (files) =>
  [...files].filter(isImage).sort((a, b) => inOrder(a.webkitRelativePath, b.webkitRelativePath)).map((file) => given(file, file.webkitRelativePath || file.name));

const inOrder = (a, b) => a.localeCompare(b, undefined, { numeric: true });

/** @param {DataTransfer} data @returns {Promise<Given[]>} */
export async function fromDrop(data) {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return fromInput(data.files);
  const found = await Promise.all(entries.map((entry) => walk(entry, "")));
  return found.flat();
}

async function walk(entry, above) {
  if (entry.name.startsWith(".")) return [];
  const path = `${above}${entry.name}`;
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed));
    return isImage(file) ? [given(file, path)] : [];
  }
  const reader = entry.createReader();
  const members = [];
  for (;;) {
    const part = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!part.length) break; // a reader hands out a folder in parts
    members.push(...part);
  }
  members.sort((a, b) => inOrder(a.name, b.name));
  return (await Promise.all(members.map((member) => walk(member, `${path}/`)))).flat();
}

/** @param {ClipboardEvent} event @returns {Given[]} */
export const fromPaste = (event) => [...(event.clipboardData?.files ?? [])].filter(isImage).map((file) => given(file, file.name));

/** Call `take` with what is dropped on an element. Only files count, not a thumbnail that is being moved. */
export function dropZone(element, take) {
  let depth = 0;
  const mark = (change) => {
    depth = Math.max(0, depth + change);
    element.classList.toggle("drop", depth > 0);
  };
  const files = (event) => event.dataTransfer.types.includes("Files");
  element.addEventListener("dragenter", (event) => files(event) && mark(1));
  element.addEventListener("dragleave", (event) => files(event) && mark(-1));
  element.addEventListener("dragover", (event) => files(event) && event.preventDefault());
  element.addEventListener("drop", async (event) => {
    if (!files(event)) return;
    mark(-depth);
    if (event.defaultPrevented) return; // an element inside has taken them
    event.preventDefault();
    take(await fromDrop(event.dataTransfer));
  });
}
