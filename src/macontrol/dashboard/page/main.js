// Starts the page: the connection, the places in the top line, and the content of each place.

import { Board } from "./board.js";
import { duration, element, setText } from "./dom.js";
import { Link, getJson, postAction } from "./link.js";
import { themeChanged } from "./plot.js";
import { showCompare, showRun, showRuns } from "./runs.js";

const HISTORY_S = 120;
const main = document.getElementById("main");
const page = { daemons: [], mayAct: false, board: null, close: [], shown: null, isReady: false };
// For tests, and for the console.
window.macontrol = page;

if (location.search) history.replaceState(null, "", location.pathname + location.hash);

const actions = {
  get mayAct() { return page.mayAct; },
  async act(method, parameters = {}) {
    try {
      const { outcome } = await postAction(page.shown, method, parameters);
      if (outcome === "deferred") toast("Accepted: it takes effect in the first slot that runs.");
      return true;
    } catch (error) {
      toast(error.message, true);
      return false;
    }
  },
  async stop() {
    const yes = await ask(`Stop the run of ${page.shown}?`, "The stage comes to rest, and the run file is complete. To continue later, the daemon must be started again.", { no: "Keep running", yes: "Stop the run", isDanger: true });
    if (yes) await actions.act("stop");
  },
  async resurvey({ rail, timing }) {
    const least = duration((rail.length / rail.stroke) * timing.slot_s);
    const yes = await ask("Survey the rail again?", `The antenna walks along the whole rail, for at least ${least}, and measures instead of following the policy. Hold pauses the walk. A policy built from the new survey follows.`, { yes: "Walk along the rail" });
    if (yes) await actions.act("resurvey");
  },
  async measureFloor({ probe }) {
    const isSwitched = probe.transmitter_by_command;
    const yes = isSwitched
      ? await ask("Measure the noise floor?", "The command of [tx] switches the transmitter off, and on again afterwards. The slots meanwhile have no reward.", { yes: "Measure" })
      : await ask("Is the transmitter off?", "The noise floor is measured without a signal: switch the transmitter off first. The slots meanwhile have no reward.", { yes: "It is off: measure" });
    if (yes && await actions.act("noise_floor") && !isSwitched) toast("Measuring. Switch the transmitter on again after the event noise-floor.");
  },
};

// Messages

function toast(text, isBad = false) {
  const node = element("p", { class: isBad ? "bad" : "" }, text);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), isBad ? 9000 : 4000);
}

function ask(title, text, { yes, no = "Cancel", isDanger = false }) {
  const dialog = document.getElementById("ask");
  setText(document.getElementById("ask-title"), title);
  setText(document.getElementById("ask-text"), text);
  setText(document.getElementById("ask-no"), no);
  const button = document.getElementById("ask-yes");
  setText(button, yes);
  button.className = isDanger ? "danger" : "primary";
  dialog.returnValue = "no";
  dialog.showModal();
  document.getElementById("ask-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

function notice(text) {
  const node = document.getElementById("notice");
  node.hidden = !text;
  setText(node, text ?? "");
}

// The places

const LAMPS = { running: "running", holding: "holding", recovering: "recovering", ended: "gone", "not answering": "gone" };

function showPlaces() {
  const here = location.hash || "#/";
  const link = (address, name, lamp = null, title = null) => {
    const node = element("a", { href: address, title }, lamp === null ? null : element("span", { class: `lamp ${lamp}`, "aria-hidden": "true" }), name);
    if (here === address || (here === "#/" && name === page.shown)) node.setAttribute("aria-current", "page");
    return element("li", {}, node);
  };
  document.getElementById("places").replaceChildren(
    ...page.daemons.map(({ name, state }) => link(`#/live/${encodeURIComponent(name)}`, name, LAMPS[state] ?? "", state)),
    link("#/runs", "Runs"));
}

async function route() {
  const [, place = "", ...words] = location.hash.split("/").map(decodeURIComponent);
  for (const part of page.close) part.close();
  page.board = null;
  page.shown = null;
  document.title = "macontrol";
  notice(null);
  // What a slow request draws after its place was left goes nowhere.
  const root = element("div");
  const close = [];
  page.close = close;
  main.replaceChildren(root);
  if (!["runs", "run", "compare"].includes(place)) showLive(root, words[0] ?? preferred());
  if (page.shown === null) link.watch(null);
  showPlaces();
  try {
    if (place === "runs") await showRuns(root, close);
    else if (place === "run") await showRun(root, close, words[0]);
    else if (place === "compare") await showCompare(root, close, words.slice(0, 2));
  } catch (error) {
    root.replaceChildren(element("p", { class: "empty" }, error.message));
  }
  if (page.close !== close) for (const part of close) part.close();
}

const preferred = () => (page.daemons.find(({ is_connected: is }) => is) ?? page.daemons[0])?.name ?? null;

function showLive(root, name) {
  if (name === null) {
    root.replaceChildren(element("p", { class: "empty" },
      page.isReady ? "No daemon runs on this machine. It appears here when you start one, for example " : "Looking for daemons …",
      page.isReady ? element("code", {}, "macontrol --backend sim") : null));
    return;
  }
  page.shown = name;
  page.board = new Board(root, { isLive: true, actions });
  page.close.push(page.board);
  link.watch(name);
}

async function fetchHistory(board, name) {
  try {
    const { run, command } = await getJson(`api/daemons/${encodeURIComponent(name)}/run`);
    board.text.command = command;
    board.parts["ended-run"].href = `#/run/${run}`;
    const digest = await getJson(`api/runs/${run}?seconds=${HISTORY_S}`);
    if (page.board !== board) return;
    board.showHistory(digest);
    board.text.addEvents(digest.events);
  } catch {
    // A run without a file has no history.
  }
}

// The connection

function take(message) {
  if (message.type === "hello") {
    page.mayAct = message.may_act;
  } else if (message.type === "daemons") {
    page.daemons = message.daemons;
    page.isReady = true;
    const isWaiting = page.board === null && ["", "#/"].includes(location.hash);
    if (isWaiting) route();
    else showPlaces();
    if (page.shown && !link.watched) link.watch(page.shown);
  } else if (message.type === "frame" && message.daemon === page.shown && page.board) {
    page.board.showFrame(message);
    page.frames = (page.frames ?? 0) + 1;
    if (page.frames === 1) requestAnimationFrame(() => performance.mark("first live plot"));
    if (!page.board.hasHistory && message.snapshot?.recording?.run_file && message.snapshot.slot > 0) {
      page.board.hasHistory = true;
      setTimeout(fetchHistory, 300, page.board, page.shown);
    }
    document.title = `${message.daemon}: ${message.state} · macontrol`;
    const state = page.daemons.find(({ name }) => name === page.shown);
    if (state && state.state !== message.state) { state.state = message.state; showPlaces(); }
    page.board.setStale(message.state === "not answering");
    notice(message.state === "not answering" ? `${page.shown} does not answer. What is shown is its last state.` : null);
  } else if (message.type === "oracle" && message.daemon === page.shown && page.board) {
    page.board.showOracle(message.oracle);
  } else if (message.type === "events" && message.daemon === page.shown && page.board) {
    page.board.text.addEvents(message.events);
  }
}

function showState(isUp) {
  const node = document.getElementById("link");
  setText(node, isUp ? "connected" : "connection lost");
  node.className = `link ${isUp ? "up" : "down"}`;
  page.board?.setStale(!isUp);
  notice(isUp ? null : "No connection to the dashboard. What is shown is its last state. The daemon continues without it, and the page tries again.");
}

// Colours

const THEMES = [["", "as the system", "◐"], ["light", "light", "○"], ["dark", "dark", "●"]];

function applyTheme(index) {
  const [value, name, sign] = THEMES[index];
  if (value) document.documentElement.dataset.theme = value;
  else delete document.documentElement.dataset.theme;
  const button = document.getElementById("theme");
  button.setAttribute("aria-label", `Colours: ${name}`);
  button.title = `Colours: ${name}`;
  setText(button, sign);
  themeChanged();
}

let themeIndex = Math.max(THEMES.findIndex(([value]) => value === (localStorage.getItem("macontrol-theme") ?? "")), 0);
document.getElementById("theme").addEventListener("click", () => {
  themeIndex = (themeIndex + 1) % THEMES.length;
  localStorage.setItem("macontrol-theme", THEMES[themeIndex][0]);
  applyTheme(themeIndex);
});
applyTheme(themeIndex);

const link = new Link({ onMessage: take, onState: showState });
window.addEventListener("hashchange", route);
route();
