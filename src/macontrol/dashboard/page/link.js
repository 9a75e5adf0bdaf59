// The connection to the server: one WebSocket, watched every quarter of a second, renewed by itself.

const SILENT_MS = 900;
const CONNECT_MS = 2500;
const RETRY_MS = 400;
const BUSY_MS = 400;

export class Link {
  constructor({ onMessage, onState }) {
    this.onMessage = onMessage;
    this.onState = onState;
    this.watched = null;
    this.isUp = false;
    this.tried = 0;
    this.received = 0;
    this.checked = performance.now();
    this.connect();
    setInterval(() => this.check(), 250);
  }

  connect() {
    this.tried = performance.now();
    const address = new URL("api/stream", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.hash = "";
    address.search = "";
    const socket = new WebSocket(address);
    this.socket = socket;
    socket.addEventListener("open", () => { this.received = performance.now(); this.sendWatch(); });
    socket.addEventListener("message", (event) => {
      if (socket !== this.socket) return;
      this.received = performance.now();
      if (!this.isUp) this.setUp(true);
      this.onMessage(JSON.parse(event.data));
    });
    socket.addEventListener("close", () => { if (socket === this.socket) this.lose(); });
  }

  lose() {
    this.socket = null;
    this.setUp(false);
  }

  setUp(isUp) {
    this.isUp = isUp;
    this.onState(isUp);
  }

  check() {
    const now = performance.now();
    // If the page itself was busy, what has arrived meanwhile is still to be read.
    const wasBusy = now - this.checked > BUSY_MS;
    this.checked = now;
    if (wasBusy) return;
    if (this.socket === null) {
      if (now - this.tried > RETRY_MS) this.connect();
      return;
    }
    const limit = this.socket.readyState === WebSocket.CONNECTING ? CONNECT_MS : SILENT_MS;
    if (now - Math.max(this.received, this.tried) < limit || document.hidden) return;
    const dead = this.socket;
    this.lose();
    dead.close();
  }

  watch(name) {
    this.watched = name;
    this.sendWatch();
  }

  sendWatch() {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ watch: this.watched }));
  }
}

export async function getJson(path) {
  const answer = await fetch(path);
  const data = await answer.json();
  if (!answer.ok) throw new Error(problemOf(data));
  if (data.problem) throw new Error([data.problem, data.fix].filter(Boolean).join("; "));
  return data;
}

export async function postAction(daemon, method, parameters) {
  const answer = await fetch(`api/daemons/${encodeURIComponent(daemon)}/${method}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(parameters),
  });
  const data = await answer.json();
  if (!answer.ok) throw new Error(problemOf(data));
  return data.result;
}

function problemOf(data) {
  const { message, data: more } = data.error ?? {};
  return [message ?? "the dashboard gave no answer", more?.fix].filter(Boolean).join("; ");
}
