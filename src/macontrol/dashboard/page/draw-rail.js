// The rail: the estimate along it, the antenna, its target and reach, and the recent samples.

import { fixed, isNumber } from "./dom.js";
import { colours, digitsFor, label, levels, line, scale, ticks } from "./plot.js";

export const MARGIN = { left: 44, right: 16, top: 30, bottom: 46 };

export const railScale = (facts, width) => scale(0, facts.length, MARGIN.left, width - MARGIN.right);

export function drawRail(context, width, height, view) {
  const { facts, frame, now } = view;
  if (!facts) return;
  const x = railScale(facts, width);
  const [top, bottom] = [MARGIN.top, height - MARGIN.bottom];
  const y = scale(view.low, view.high, bottom, top);
  drawAxes(context, width, x, y, view, bottom);
  drawReach(context, x, top, bottom, now);
  context.save();
  context.beginPath();
  context.rect(MARGIN.left - 4, top - 6, width - MARGIN.left - MARGIN.right + 8, bottom - top + 6);
  context.clip();
  if (frame) drawEstimate(context, x, y, frame);
  drawSamples(context, x, y, view.samples);
  context.restore();
  drawMarks(context, x, top, bottom, view);
  if (isNumber(view.pointer)) drawPointer(context, x, top, bottom, width, view);
}

function drawAxes(context, width, x, y, view, bottom) {
  levels(context, y, ticks(view.low, view.high, 4), MARGIN.left, width - MARGIN.right);
  label(context, "bit/s/Hz", MARGIN.left - 36, 12, { base: "middle" });
  const wide = width - MARGIN.left - MARGIN.right;
  drawPlaces(context, x, width, bottom + 34, view.facts);
  const millimetres = ticks(0, view.facts.length_mm, wide / 80);
  for (const place of millimetres.slice(1)) {
    label(context, fixed(place, digitsFor(millimetres)), x(place / view.facts.wavelength_mm), 12, { align: "center", base: "middle" });
  }
  label(context, "mm", width - 2, 12, { align: "right", base: "middle" });
}

// The places on the rail, in wavelengths.
export function drawPlaces(context, x, width, y, facts) {
  const places = ticks(0, facts.length, (width - MARGIN.left - MARGIN.right) / 70);
  for (const place of places) {
    label(context, fixed(place, digitsFor(places)), x(place), y, { align: "center", base: "middle" });
  }
  label(context, "λ", MARGIN.left - 24, y, { align: "right", base: "middle" });
}

function drawReach(context, x, top, bottom, now) {
  if (!now.reach || !isNumber(now.reach[0])) return;
  const theme = colours();
  const [from, to] = [x(now.reach[0]), x(now.reach[1])];
  context.fillStyle = theme.faint;
  context.fillRect(from, top - 4, Math.max(to - from, 1), bottom - top + 4);
}

function drawEstimate(context, x, y, frame) {
  const theme = colours();
  const xs = frame.points.map(x);
  const { mean, deviation } = frame;
  if (deviation) {
    context.fillStyle = theme.band;
    context.beginPath();
    for (let i = 0; i < xs.length; i += 1) context.lineTo(xs[i], y(mean[i] + deviation[i]));
    for (let i = xs.length - 1; i >= 0; i -= 1) context.lineTo(xs[i], y(mean[i] - deviation[i]));
    context.fill();
  }
  if (frame.acquisition) line(context, xs, Array.from(frame.acquisition, y), { colour: theme.violet, width: 1.4, dash: [6, 4] });
  line(context, xs, Array.from(mean, y), { colour: theme.blue, width: 2.2 });
}

function drawSamples(context, x, y, samples) {
  context.fillStyle = colours().dot;
  samples.forEach(([, position, reward], i) => {
    context.globalAlpha = 0.12 + 0.6 * ((i + 1) / samples.length) ** 2;
    context.beginPath();
    context.arc(x(position), y(reward), 2.3, 0, 7);
    context.fill();
  });
  context.globalAlpha = 1;
}

function drawMarks(context, x, top, bottom, view) {
  const theme = colours();
  const { now, facts } = view;
  const rail = bottom + 12;
  context.strokeStyle = theme.muted;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x(0), rail);
  context.lineTo(x(facts.length), rail);
  context.stroke();
  if (now.reach && isNumber(now.reach[0])) {
    context.strokeStyle = theme.blue;
    context.lineWidth = 5;
    context.beginPath();
    context.moveTo(x(now.reach[0]), rail);
    context.lineTo(x(now.reach[1]), rail);
    context.stroke();
  }
  if (isNumber(now.target)) {
    const at = x(now.target);
    line(context, [at, at], [top, rail], { colour: theme.orange, width: 1.4, dash: [3, 4] });
    context.fillStyle = theme.orange;
    diamond(context, at, rail, 7);
  }
  if (isNumber(now.goal)) {
    const at = x(now.goal);
    context.strokeStyle = theme.ink;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(at, rail, 8, 0, 7);
    context.stroke();
  }
  if (isNumber(now.position)) {
    const at = x(now.position);
    line(context, [at, at], [top, rail], { colour: theme.ink, width: 1.6 });
    context.fillStyle = theme.ink;
    antenna(context, at, rail);
  }
}

export function diamond(context, x, y, size) {
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x + size, y);
  context.lineTo(x, y + size);
  context.lineTo(x - size, y);
  context.fill();
}

export function antenna(context, x, y) {
  context.beginPath();
  context.moveTo(x - 7, y + 10);
  context.lineTo(x + 7, y + 10);
  context.lineTo(x, y - 3);
  context.fill();
}

function drawPointer(context, x, top, bottom, width, view) {
  const theme = colours();
  const at = x(view.pointer);
  line(context, [at, at], [top, bottom + 12], { colour: theme.muted, width: 1, dash: [2, 2] });
  if (view.isAsking) return;
  let text = `${fixed(view.pointer)} λ · ${fixed(view.pointer * view.facts.wavelength_mm, 1)} mm`;
  if (view.frame) {
    const { mean, deviation } = view.frame;
    const i = Math.round((view.pointer / view.facts.length) * (mean.length - 1));
    text += ` · estimate ${fixed(mean[i])}`;
    if (deviation) text += ` ± ${fixed(deviation[i])}`;
  }
  const wide = context.measureText(text).width + 14;
  const left = Math.min(Math.max(at - wide / 2, 2), width - wide - 2);
  context.fillStyle = theme.ink;
  context.beginPath();
  context.roundRect(left, top - 2, wide, 21, 5);
  context.fill();
  label(context, text, left + 7, top + 9, { colour: theme.panel, base: "middle" });
}
