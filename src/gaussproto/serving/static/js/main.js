/** Start the parts of the page in the order in which data flows through them. */

import { startAnswer } from "./answer.js";
import { connection, setToken, takeToken } from "./api.js";
import { askAgain, startAsk } from "./ask.js";
import { startClasses } from "./classes.js";
import { byId, h, say } from "./element.js";
import { startInspector } from "./inspector.js";
import { startKeep } from "./keep.js";
import { startLearning } from "./learn.js";
import { startPlane } from "./plane.js";
import { track } from "./progress.js";
import { follow, start } from "./sync.js";
import { startSkipping, startTabs } from "./tabs.js";
import { loadSamples, startTeach } from "./teach.js";
import { startTheme } from "./theme.js";
import { startUndo } from "./undo.js";
import { startWalk } from "./walk.js";

takeToken();
startTheme();
startTabs();
startSkipping();
startUndo();
startKeep();
startTeach();
startClasses();
startAsk();
startAnswer();
startPlane();
startInspector();
startWalk();
startLearning();

connection.addEventListener("lost", () => say(byId("connection"), "The server does not answer. Start gaussproto serve again; this page will go on by itself."));
connection.addEventListener("back", () => {
  say(byId("connection"), null);
  loadSamples();
  askAgain();
});
connection.addEventListener("token", askToken);

/** The server wants a token and the address had none, or a wrong one. */
function askToken() {
  const dialog = byId("token");
  if (dialog.open) return;
  const field = h("input", { id: "token-field", type: "password", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    setToken(field.value.trim());
    location.reload();
  };
  dialog.replaceChildren(
    h("h2", { id: "token-title" }, "Token"),
    h("p", { class: "lead" }, "This server asks for a token. Whoever started the server has it."),
    h("form", { class: "field", onsubmit: submit }, h("label", { for: "token-field" }, "Token"), field, h("button", { class: "primary", type: "submit" }, "Go on")),
  );
  dialog.showModal();
}

track("Opening your gallery", start).catch((error) => error.status && say(byId("teach-error"), error));
follow();
