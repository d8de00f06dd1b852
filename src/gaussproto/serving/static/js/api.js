/** The service over HTTP. Every error is an ApiError whose message is a sentence for the user. */

const BASE = new URL("api/v1/", document.baseURI);
const TOKEN = "gaussproto-token";
const RETRIES = 3;

export class ApiError extends Error {
  /** @param {string} message @param {number} status 0: no answer */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Emits `lost`, `back` and `token` (the server wants one). */
export const connection = new EventTarget();
let lost = false;

/** Move a token from the address to this tab's storage, so that it is not shared with the address. */
export function takeToken() {
  const found = /[#&]token=([^&]+)/.exec(location.hash);
  if (!found) return;
  setToken(decoded(found[1]));
  history.replaceState(null, "", location.pathname + location.search);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone % is not an escape
  }
}

/** Keep a token. One that no request can carry is dropped, and the server asks for another. */
export function setToken(token) {
  if (/^[!-~]+$/.test(token)) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

/**
 * @param {string} method
 * @param {string} path below /api/v1/
 * @param {{query?: object, json?: any, form?: FormData, signal?: AbortSignal, etag?: string|null}} [options]
 * @returns {Promise<Response>} with a status below 400
 */
async function send(method, path, { query, json, form, signal, etag } = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, String(value));
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (etag) headers["If-None-Match"] = etag;
  if (json !== undefined) headers["Content-Type"] = "application/json";
  const body = json !== undefined ? JSON.stringify(json) : form;
  for (let attempt = 1; ; attempt++) {
    let response;
    try {
      response = await fetch(url, { method, headers, body, signal, cache: etag ? "no-store" : "no-cache" });
    } catch (error) {
      if (signal?.aborted) throw error;
      setLost(true);
      throw new ApiError("The server does not answer. Is gaussproto serve still running?", 0);
    }
    setLost(false);
    if (response.ok || response.status === 304) return response;
    if (response.status === 503 && attempt < RETRIES) {
      await pause(1000 * Math.min(5, Number(response.headers.get("Retry-After")) || 1));
      continue;
    }
    if (response.status === 401) connection.dispatchEvent(new Event("token"));
    throw new ApiError(await sentence(response), response.status);
  }
}

function setLost(value) {
  if (value === lost) return;
  lost = value;
  connection.dispatchEvent(new Event(value ? "lost" : "back"));
}

async function sentence(response) {
  try {
    const { error } = await response.json();
    if (typeof error === "string" && error) return finished(error);
  } catch {
    // not JSON: the status is all there is
  }
  return `The server answered with status ${response.status}.`;
}

/** An error of the API as a sentence: with a full stop, without backticks, and with a capital unless a file's name is first. */
function finished(error) {
  const text = error.replaceAll("`", "");
  const begun = /^[a-z]+ /.test(text) ? text[0].toUpperCase() + text.slice(1) : text;
  return /[.?!]$/.test(begun) ? begun : `${begun}.`;
}

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const at = (gallery, ...rest) => ["galleries", gallery, ...rest].map(encodeURIComponent).join("/");
const read = async (...request) => (await send(...request)).json();

/** @param {{file: Blob, name: string}[]} images */
function formOf(images, fields = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  for (const { file, name } of images) form.append("files", file, name);
  return form;
}

export const listEncoders = () => read("GET", "encoders");
export const listGalleries = () => read("GET", "galleries");
export const listSamples = () => read("GET", "samples");
export const createGallery = (settings) => read("POST", "galleries", { json: settings });
export const changeGallery = (g, change) => read("PATCH", at(g), { json: change });
export const deleteGallery = (g) => send("DELETE", at(g));
export const restoreGallery = (g) => read("POST", at(g, "restore"));

/** The gallery, or null if it is still the one with this etag. */
export async function readGallery(g, weights, etag = null) {
  const response = await send("GET", at(g), { query: { weights }, etag });
  if (response.status === 304) return null;
  return { gallery: await response.json(), etag: response.headers.get("ETag") };
}

export const readPlane = (g, weights) => read("GET", at(g, "plane"), { query: { weights } });
export const createClass = (g, name) => read("POST", at(g, "classes"), { json: { name } });
export const renameClass = (g, c, name) => read("PATCH", at(g, "classes", c), { json: { name } });
export const deleteClass = (g, c) => send("DELETE", at(g, "classes", c));
export const addFiles = (g, name, images) => read("POST", at(g, "examples"), { form: formOf(images, { class: name }) });
export const addExamples = (g, examples) => read("POST", at(g, "examples"), { json: { examples } });
export const changeExample = (g, e, change) => read("PATCH", at(g, "examples", e), { json: change });
export const deleteExample = (g, e) => send("DELETE", at(g, "examples", e));
export const addSamples = (g, id) => read("POST", at(g, "samples"), { json: { id } });

/** @returns {Promise<Blob>} */
export async function readImage(g, e, query = {}) {
  return (await send("GET", at(g, "examples", e, "image"), { query })).blob();
}

export const classify = (g, images, query, signal) =>
  read("POST", at(g, "classify"), { form: formOf(images), query, signal });

/** Whether the server can read an image. If it does not answer, nobody knows yet. */
export async function canRead(image, encoder) {
  try {
    await send("POST", "embed", { form: formOf([image]), query: { encoder } });
  } catch (error) {
    return error.status !== 422;
  }
  return true;
}

export const openGallery = (file, name) => {
  const form = new FormData();
  form.append("file", file, file.name);
  form.append("name", name);
  return read("POST", "galleries/open", { form });
};

/** Fetch a file of the gallery and hand it to the browser's downloads. */
export async function download(g, what, fallback) {
  const response = await send("GET", at(g, what));
  const named = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("Content-Disposition") ?? "");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = named ? decodeURIComponent(named[1]) : fallback;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
