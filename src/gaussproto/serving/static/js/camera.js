/** Take a picture with the camera. */

import { byId, h, say } from "./element.js";

/** Show the camera and call `take` with the picture. */
export async function openCamera(take) {
  const dialog = byId("camera");
  const error = h("p", { class: "error", role: "alert", hidden: true });
  const video = h("video", { playsinline: true, autoplay: true, "aria-label": "What the camera sees" });
  video.muted = true;
  const shoot = h("button", { class: "primary", type: "button", disabled: true }, "Take the picture");
  dialog.replaceChildren(
    h("h2", { id: "camera-title" }, "Camera"),
    h("p", { class: "lead" }, "Hold a drawing in front of the camera, or any object. Fill the frame with it."),
    video, error,
    h("div", { class: "row" }, shoot, h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Cancel")),
  );
  dialog.showModal();
  let stream = null;
  dialog.addEventListener("close", () => stream?.getTracks().forEach((track) => track.stop()), { once: true });
  try {
    if (!navigator.mediaDevices) throw new DOMException("", "InsecureError");
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: 1280 } } });
    if (!dialog.open) return stream.getTracks().forEach((track) => track.stop());
    video.srcObject = stream;
    await video.play();
    shoot.disabled = false;
    shoot.focus();
  } catch (reason) {
    video.hidden = true;
    return say(error, SENTENCES[reason.name] ?? "The camera could not be started. Another program may be using it.");
  }
  shoot.addEventListener("click", async () => {
    const side = Math.min(video.videoWidth, video.videoHeight);
    const canvas = h("canvas", { width: side, height: side });
    canvas.getContext("2d").drawImage(video, (side - video.videoWidth) / 2, (side - video.videoHeight) / 2);
    const file = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92));
    dialog.close();
    take({ file, name: "camera.jpg", class: null });
  });
}

const SENTENCES = {
  NotAllowedError: "The browser does not allow the camera. Allow it beside the address of this page, then try again.",
  NotFoundError: "No camera was found. Connect one, or choose a file.",
  NotReadableError: "Another program is using the camera. Close it, then try again.",
  InsecureError: "Browsers give a page the camera only over https or on this machine. Choose a file instead.",
};
