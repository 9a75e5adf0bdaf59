// The legends of the plots: small pictures of what is drawn, in the colours of the theme.

import { element } from "./dom.js";
import { antenna, diamond } from "./draw-rail.js";
import { Plot, RAMP, colours, line, rampColour } from "./plot.js";

const [WIDTH, HEIGHT] = [24, 12];
const stroke = (style) => (context, theme) => line(context, [0, WIDTH], [6, 6], style(theme));

// Each returns the plots of its pictures: whoever replaces the legend closes them.
export function railLegend(list) {
  return legend(list, [
    ["estimate ± σ", (c, theme) => {
      c.fillStyle = theme.band;
      c.fillRect(0, 1, WIDTH, 10);
      line(c, [0, WIDTH], [6, 6], { colour: theme.blue, width: 2.2 });
    }],
    ["acquisition", stroke((theme) => ({ colour: theme.violet, dash: [6, 4] }))],
    ["antenna", (c, theme) => { c.fillStyle = theme.ink; c.translate(0, -4); antenna(c, 12, 5); }],
    ["target", (c, theme) => { c.fillStyle = theme.orange; diamond(c, 12, 6, 6); }],
    ["reach", stroke((theme) => ({ colour: theme.blue, width: 5 }))],
    ["samples", (c, theme) => { c.fillStyle = theme.dot; for (const x of [5, 12, 19]) dot(c, x, 2.3); }],
  ]);
}

export function fallLegend(list, { simulated }) {
  const ground = (c) => { c.fillStyle = rampColour(0.3); c.fillRect(0, 0, WIDTH, HEIGHT); };
  const entries = [
    ["antenna", (c) => { ground(c); line(c, [0, WIDTH], [6, 6], { colour: "#fff", width: 2 }); }],
    ["new target", (c) => { ground(c); c.fillStyle = "#ff9d2e"; dot(c, 12, 3.2); }],
  ];
  if (simulated) entries.push(["oracle", (c) => { ground(c); line(c, [2, WIDTH], [6, 6], { colour: "#fff", dash: [2, 3] }); }]);
  return legend(list, entries);
}

export function rewardLegend(list, { isLive, simulated }) {
  const entries = [
    [isLive ? "mean of 100 slots" : "reward", stroke((theme) => ({ colour: theme.blue, width: 2.2 }))],
    ["fixed antenna", stroke((theme) => ({ colour: theme.grey, dash: [7, 4] }))],
  ];
  if (simulated) entries.push(["oracle", stroke((theme) => ({ colour: theme.teal, dash: [2, 3] }))]);
  if (isLive) entries.push(["single slots", (c, theme) => { c.fillStyle = theme.dot; for (const x of [5, 12, 19]) dot(c, x, 1.3); }]);
  return legend(list, entries);
}

export function drawRamp(canvas) {
  const context = canvas.getContext("2d");
  for (let i = 0; i < canvas.width; i += 1) {
    const k = Math.round((i / (canvas.width - 1)) * 255) * 3;
    context.fillStyle = `rgb(${RAMP[k]},${RAMP[k + 1]},${RAMP[k + 2]})`;
    context.fillRect(i, 0, 1, canvas.height);
  }
}

function dot(context, x, radius) {
  context.beginPath();
  context.arc(x, HEIGHT / 2, radius, 0, 7);
  context.fill();
}

function legend(list, entries) {
  const plots = [];
  list.replaceChildren(...entries.map(([text, draw]) => {
    const canvas = element("canvas");
    plots.push(new Plot(canvas, (context) => draw(context, colours())));
    return element("li", {}, canvas, text);
  }));
  return plots;
}
