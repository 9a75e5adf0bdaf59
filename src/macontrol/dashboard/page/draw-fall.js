// The waterfall: the estimate (or the true map) over rail and time, the newest at the top, with the
// antenna's way.

import { MARGIN, drawPlaces, railScale } from "./draw-rail.js";
import { isNumber } from "./dom.js";
import { RAMP, colours, label, line, scale, ticks, timeLabel } from "./plot.js";

const TOP = 6;
const BOTTOM = 6;
const AXIS = 22;
const LONGEST_GAP_S = 1.5;
const sheet = document.createElement("canvas");

export const fallScale = (view, height) => scale(view.until, view.from, TOP, height - BOTTOM);

// With `hasAxis` the places on the rail are below it; on a board the rail above has them.
export function drawFall(context, width, whole, view) {
  const { facts, model } = view;
  if (!facts || view.until === null) return;
  const height = view.hasAxis ? whole - AXIS : whole;
  const theme = colours();
  const x = railScale(facts, width);
  const y = fallScale(view, height);
  const [left, right] = [x(0), x(facts.length)];
  context.fillStyle = theme.faint;
  context.fillRect(left, TOP, right - left, height - TOP - BOTTOM);
  const frames = view.layer === "truth" ? model.truth : model.frames;
  if (frames.length) drawColours(context, left, right, height, frames, view, y);
  drawWay(context, x, y, view, height, frames.length > 0);
  if (view.hasAxis) drawPlaces(context, x, width, height + AXIS / 2, facts);
  const step = ticks(0, view.until - view.from, height / 60);
  for (const age of step) {
    const time = view.isLive ? view.until - age : view.from + age;
    const text = view.isLive ? (age ? timeLabel(-age, step[1]) : "now") : timeLabel(age, step[1] ?? 1);
    const at = Math.min(Math.max(y(time), TOP + 6), height - BOTTOM - 5);
    label(context, text, MARGIN.left - 8, at, { align: "right", base: "middle" });
  }
  if (view.cursor !== null) {
    const at = y(view.cursor);
    line(context, [left, right], [at, at], { colour: "#000", width: 4 });
    line(context, [left, right], [at, at], { colour: "#fff", width: 1.6 });
  }
}

function drawColours(context, left, right, height, frames, view, y) {
  const { low, high } = view.model.range;
  const columns = frames[frames.length - 1].mean.length;
  const rows = Math.max(Math.round(height - TOP - BOTTOM), 1);
  sheet.width = columns;
  sheet.height = rows;
  const pen = sheet.getContext("2d");
  const image = pen.createImageData(columns, rows);
  const pixels = image.data;
  const gap = Math.max(LONGEST_GAP_S, view.typicalGap * 3);
  let number = frames.length - 1;
  for (let row = 0; row < rows; row += 1) {
    const time = y.invert(TOP + row + 0.5);
    while (number >= 0 && frames[number].time > time) number -= 1;
    let frame = frames[number];
    if (number < 0 || time - frame.time > gap) {
      const next = frames[number + 1];
      if (!next || next.time - time > view.typicalGap) continue;
      frame = next;
    }
    const { mean, deviation } = frame;
    for (let column = 0; column < columns; column += 1) {
      const value = mean[column];
      if (!(value === value)) continue;
      const share = Math.min(Math.max((value - low) / (high - low), 0), 1);
      const from = Math.round(share * 255) * 3;
      const to = (row * columns + column) * 4;
      pixels[to] = RAMP[from];
      pixels[to + 1] = RAMP[from + 1];
      pixels[to + 2] = RAMP[from + 2];
      // What is hardly known is pale.
      pixels[to + 3] = deviation && view.sigma ? 255 * Math.max(1 - 0.55 * (deviation[column] / view.sigma) ** 2, 0.4) : 255;
    }
  }
  pen.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.drawImage(sheet, left, TOP, right - left, rows);
}

function drawWay(context, x, y, view, height, isOnColours) {
  const { model } = view;
  const first = Math.max(model.indexAt(view.from) - 1, 0);
  const last = model.indexAt(view.until);
  const [xs, ys, marks, best] = [[], [], [], []];
  let target = null;
  for (let i = first; i <= last; i += 1) {
    const [position, aim] = [model.series.position[i], model.series.target[i]];
    const gap = i > first && model.time[i] - model.time[i - 1] > Math.max(LONGEST_GAP_S, view.typicalGap * 4);
    ys.push(isNumber(position) && !gap ? y(model.time[i]) : null);
    xs.push(x(position ?? 0));
    best.push(x(model.series.best[i] ?? NaN));
    if (isNumber(aim) && target !== null && Math.abs(aim - target) > 1e-9) marks.push([x(aim), y(model.time[i])]);
    target = isNumber(aim) ? aim : target;
  }
  context.save();
  context.beginPath();
  context.rect(x(0) - 5, TOP, x(view.facts.length) - x(0) + 10, height - TOP - BOTTOM);
  context.clip();
  if (view.layer === "truth" || view.isLive) {
    const way = best.map((at, i) => (Number.isNaN(at) ? null : ys[i]));
    line(context, best, way, { colour: "rgba(0,0,0,.3)", width: 3 });
    line(context, best, way, { colour: "rgba(255,255,255,.9)", width: 1.4, dash: [2, 3] });
  }
  if (marks.length < 150) {
    for (const [at, time] of marks) {
      context.fillStyle = "#ff9d2e";
      context.strokeStyle = "#1a1206";
      context.beginPath();
      context.arc(at, time, 3, 0, 7);
      context.fill();
      context.stroke();
    }
  }
  line(context, xs, ys, { colour: isOnColours ? "rgba(0,0,0,.75)" : colours().panel, width: view.isLive ? 4 : 2.6 });
  line(context, xs, ys, { colour: isOnColours ? "#fff" : colours().ink, width: view.isLive ? 1.7 : 1.2 });
  context.restore();
}
