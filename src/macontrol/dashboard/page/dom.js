// Small helpers: elements from data, numbers as text. All content is set as text, never as markup.

export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") node.className = value;
    else if (name in node && typeof value !== "string") node[name] = value;
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Change a text only when it differs: screen readers and layout notice every change.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function parts(root) {
  const found = {};
  for (const node of root.querySelectorAll("[data-part]")) found[node.dataset.part] = node;
  return found;
}

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export function fixed(value, digits = 2) {
  return isNumber(value) ? value.toFixed(digits).replace("-", "−") : "–";
}

export function count(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en").replaceAll(",", " ") : "–";
}

export function seconds(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1) return `${fixed(value, 2)} s`;
  if (size >= 1e-3) return `${fixed(value * 1e3, size >= 0.09995 ? 0 : size >= 0.009995 ? 1 : 2)} ms`;
  return `${fixed(value * 1e6, 0)} µs`;
}

export function duration(value) {
  if (!isNumber(value)) return "–";
  if (value < 60) return `${fixed(value, value < 10 ? 1 : 0)} s`;
  const whole = Math.round(value);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)} h` : `${minutes}:${two(rest)} min`;
}

export function clock(time_s) {
  return isNumber(time_s) ? new Date(time_s * 1e3).toLocaleTimeString("en-GB") : "–";
}

export function day(time_s) {
  if (!isNumber(time_s)) return "–";
  const date = new Date(time_s * 1e3);
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(time_s)}`;
}

export function percent(value, digits = 0) {
  return isNumber(value) ? `${fixed(value * 100, digits)} %` : "–";
}

// A gain, with its sign.
export function signed(value) {
  return isNumber(value) ? `${value < 0 ? "" : "+"}${percent(value)}` : "–";
}

export function timeOffset(value) {
  if (value < 60) return `${fixed(value, 2)} s`;
  return `${Math.floor(value / 60)}:${(value % 60).toFixed(1).padStart(4, "0")} min`;
}
