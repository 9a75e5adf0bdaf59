// The reward over time: of the antenna, of a fixed one, and in a simulation of the oracle.

import { isNumber } from "./dom.js";
import { colours, label, levels, line, scale, ticks, timeLabel } from "./plot.js";

const MARGIN = { left: 44, right: 16, top: 8, bottom: 22 };

export const rewardScale = (view, width) => scale(view.from, view.until, MARGIN.left, width - MARGIN.right);

export function drawReward(context, width, height, view) {
  const { model } = view;
  if (!view.facts || view.until === null) return;
  const theme = colours();
  const x = rewardScale(view, width);
  const y = scale(view.rewardLow, view.rewardHigh, height - MARGIN.bottom, MARGIN.top);
  levels(context, y, ticks(view.rewardLow, view.rewardHigh, height / 45), MARGIN.left, width - MARGIN.right);
  const span = view.until - view.from;
  const steps = ticks(0, span, width / 110);
  for (const age of steps) {
    const time = view.isLive ? view.until - age : view.from + age;
    const text = view.isLive ? (age ? timeLabel(-age, steps[1]) : "now") : timeLabel(age, steps[1] ?? 1);
    const at = x(time);
    label(context, text, Math.min(Math.max(at, MARGIN.left + 4), width - 20), height - 8, { align: "center", base: "middle" });
  }
  const first = Math.max(model.indexAt(view.from) - 1, 0);
  const last = model.indexAt(view.until) + 1;
  const times = model.time.slice(first, last);
  const xs = times.map(x);
  const of = (name) => model.series[name].slice(first, last);
  context.save();
  context.beginPath();
  context.rect(MARGIN.left, 0, width - MARGIN.left - MARGIN.right + 2, height - MARGIN.bottom + 2);
  context.clip();
  drawRange(context, xs, of("low"), of("high"), y);
  const place = (values) => values.map((value) => (isNumber(value) ? y(value) : null));
  line(context, xs, place(of("fixed")), { colour: theme.grey, width: 1.6, dash: [7, 5] });
  line(context, xs, place(of("oracle")), { colour: theme.teal, width: 1.5, dash: [2, 3] });
  line(context, xs, place(of("reward")), { colour: theme.blue, width: 2 });
  if (view.cursor !== null) line(context, [x(view.cursor), x(view.cursor)], [0, height - MARGIN.bottom], { colour: theme.ink, width: 1.5 });
  context.restore();
}

// Of a thinned series the range of each interval; of a live one the single rewards.
function drawRange(context, xs, low, high, y) {
  const theme = colours();
  for (let i = 0; i < xs.length; i += 1) {
    if (!isNumber(low[i]) || !isNumber(high[i])) continue;
    const isSingle = high[i] - low[i] < 1e-9;
    context.fillStyle = isSingle ? theme.dot : theme.band;
    context.globalAlpha = isSingle ? 0.4 : 1;
    if (isSingle) {
      context.fillRect(xs[i] - 1, y(low[i]) - 1, 2, 2);
    } else {
      const wide = Math.max((xs[i] - (xs[i - 1] ?? xs[i] - 1)), 1);
      context.fillRect(xs[i] - wide, y(high[i]), wide, Math.max(y(low[i]) - y(high[i]), 1));
    }
  }
  context.globalAlpha = 1;
}
