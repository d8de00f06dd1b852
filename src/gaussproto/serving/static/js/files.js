/** Images from the file input, the clipboard, and dropped files and folders. */

const IMAGE = /\.(png|jpe?g|gif|bmp|webp|tiff?|avif|heic|heif|svg)$/i;

/** @typedef {{file: Blob, name: string, class: string|null}} Given an image, with its class if a folder names it */

const isImage = (file) => file.type.startsWith("image/") || IMAGE.test(file.name);

/** The class of `letters/a/1.png` is `a`; of `letters/1.png` it is `letters`. A file alone has none. */
function given(file, path) {
  const folders = path.split("/").filter(Boolean).slice(0, -1);
  return { file, name: file.name || "image.png", class: folders.at(-1) ?? null };
}

/** @param {FileList} files of an input, perhaps of a folder @returns {Given[]} */
export const fromInput = (files) => [...files].filter(isImage).map((file) => given(file, file.webkitRelativePath || file.name));

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
  members.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
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
    event.preventDefault();
    event.stopPropagation();
    mark(-depth);
    take(await fromDrop(event.dataTransfer));
  });
}
