// Drawing on canvas: sizes, scales, axes, the colours of the theme, and the colour ramp.

import { fixed } from "./dom.js";

let theme = null;

export function colours() {
  if (theme === null) {
    const style = getComputedStyle(document.documentElement);
    theme = {};
    for (const name of ["ink", "muted", "line", "faint", "panel", "blue", "band", "violet", "orange", "grey", "teal", "dot", "bad"]) {
      theme[name] = style.getPropertyValue(`--${name}`).trim();
    }
  }
  return theme;
}

const plots = new Set();

export function themeChanged() {
  theme = null;
  for (const plot of plots) plot.redraw();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);

// Drawn for a root font of this size; on a large screen everything grows with the text.
const ROOT_PX = 15;
const FONT = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

// A canvas that is drawn at most once per frame of the screen, in its own size and resolution.
export class Plot {
  constructor(canvas, draw) {
    this.canvas = canvas;
    this.draw = draw;
    this.isDue = false;
    this.drawn = 0;
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(canvas);
    plots.add(this);
  }

  redraw() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      const box = this.canvas.getBoundingClientRect();
      const ratio = Math.min(window.devicePixelRatio || 1, 3);
      const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
      if (width === 0 || height === 0) return;
      if (this.canvas.width !== width || this.canvas.height !== height) {
        this.canvas.width = width;
        this.canvas.height = height;
      }
      const zoom = this.zoom();
      const context = this.canvas.getContext("2d");
      context.setTransform(ratio * zoom, 0, 0, ratio * zoom, 0, 0);
      context.clearRect(0, 0, box.width, box.height);
      context.font = FONT;
      context.lineJoin = "round";
      this.draw(context, box.width / zoom, box.height / zoom);
      this.drawn += 1;
    });
  }

  zoom() {
    return parseFloat(getComputedStyle(document.documentElement).fontSize) / ROOT_PX;
  }

  // Where an event of the pointer is, and the size of the plot, in units of the drawing.
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const zoom = this.zoom();
    return {
      x: (event.clientX - box.left) / zoom, y: (event.clientY - box.top) / zoom,
      width: box.width / zoom, height: box.height / zoom,
    };
  }

  close() {
    this.observer.disconnect();
    plots.delete(this);
  }
}

export function scale(from, to, first, last) {
  const factor = to === from ? 0 : (last - first) / (to - from);
  const map = (value) => first + (value - from) * factor;
  map.invert = (pixel) => (factor ? from + (pixel - first) / factor : from);
  return map;
}

// Round steps: 1, 2 or 5 times a power of ten.
export function ticks(from, to, wanted) {
  const rough = (to - from) / Math.max(wanted, 1);
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(from / step - 1e-9) * step; at <= to + step * 1e-9; at += step) found.push(at);
  return found.map((value) => Math.round(value / step) * step);
}

export function digitsFor(values) {
  if (values.length < 2) return 1;
  const step = Math.abs(values[1] - values[0]);
  return Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
}

export function timeLabel(value_s, step_s) {
  if (step_s >= 60 && Math.abs(value_s) >= 60) {
    const whole = Math.round(Math.abs(value_s));
    const text = `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
    return (value_s < 0 ? "−" : "") + text;
  }
  return `${fixed(value_s, step_s < 1 ? 1 : 0)} s`;
}

export function line(context, xs, ys, { colour, width = 1.5, dash = [] }) {
  context.save();
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  let isDown = false;
  for (let i = 0; i < xs.length; i += 1) {
    const y = ys[i];
    if (y === null || !Number.isFinite(y)) { isDown = false; continue; }
    if (isDown) context.lineTo(xs[i], y);
    else context.moveTo(xs[i], y);
    isDown = true;
  }
  context.stroke();
  context.restore();
}

// Horizontal lines from left to right, each with its value at the left.
export function levels(context, y, values, left, right) {
  context.strokeStyle = colours().faint;
  context.lineWidth = 1;
  for (const value of values) {
    context.beginPath();
    context.moveTo(left, Math.round(y(value)) + 0.5);
    context.lineTo(right, Math.round(y(value)) + 0.5);
    context.stroke();
    label(context, fixed(value, digitsFor(values)), left - 8, y(value), { align: "right", base: "middle" });
  }
}

export function label(context, text, x, y, { colour = colours().muted, align = "left", base = "alphabetic" } = {}) {
  context.fillStyle = colour;
  context.textAlign = align;
  context.textBaseline = base;
  context.fillText(text, x, y);
}

// From dark blue to light yellow: the lightness grows steadily, and blue and yellow differ for
// everybody.
const STOPS = [[9, 26, 58], [22, 62, 115], [36, 104, 152], [76, 149, 160], [142, 187, 148], [208, 218, 138], [255, 244, 176]];

export const RAMP = (() => {
  const found = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i += 1) {
    const place = (i / 255) * (STOPS.length - 1);
    const [low, share] = [Math.min(Math.floor(place), STOPS.length - 2), place % 1 || (i === 255 ? 1 : 0)];
    for (let k = 0; k < 3; k += 1) found[i * 3 + k] = STOPS[low][k] + (STOPS[low + 1][k] - STOPS[low][k]) * share;
  }
  return found;
})();

export function rampColour(share) {
  const i = Math.round(Math.min(Math.max(share, 0), 1) * 255) * 3;
  return `rgb(${RAMP[i]},${RAMP[i + 1]},${RAMP[i + 2]})`;
}
