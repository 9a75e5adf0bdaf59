// The list of recorded runs with small pictures, and two runs side by side.

import { Board } from "./board.js";
import { count, day, duration, element, fixed, isNumber, percent, signed } from "./dom.js";
import { drawFall } from "./draw-fall.js";
import { drawReward } from "./draw-reward.js";
import { fallLegend, rewardLegend } from "./legends.js";
import { getJson } from "./link.js";
import { Model } from "./model.js";
import { Plot, rampColour } from "./plot.js";

const picked = new Set();

export async function showRuns(main, close) {
  const compare = element("button", { class: "primary", type: "button" }, "Compare two runs");
  const list = element("div", { class: "runs" });
  main.replaceChildren(element("div", { class: "page" },
    element("div", { class: "head" }, element("h1", {}, "Recorded runs"), compare), list));
  const { runs } = await getJson("api/runs");
  const known = new Set(runs.map((run) => run.id));
  for (const id of picked) if (!known.has(id)) picked.delete(id);
  const update = () => {
    compare.disabled = picked.size !== 2;
    compare.textContent = picked.size === 2 ? "Compare the two" : `Choose two to compare (${picked.size})`;
  };
  compare.addEventListener("click", () => { location.hash = `#/compare/${[...picked].join("/")}`; });
  const highest = Math.max(...runs.flatMap((run) => (run.picture ?? []).map(([, reward]) => reward ?? 0)), 1);
  list.replaceChildren(...runs.map((run) => card(run, highest, update, close)));
  if (!runs.length) list.replaceWith(element("p", { class: "empty" }, "No run is recorded yet. Try ", element("code", {}, "macontrol --backend sim")));
  update();
}

function card(run, highest, update, close) {
  const box = element("input", { type: "checkbox", checked: picked.has(run.id), "aria-label": `Compare ${run.name}` });
  box.addEventListener("change", () => {
    if (box.checked) picked.add(run.id);
    else picked.delete(run.id);
    update();
  });
  if (run.problem) {
    return element("article", { class: "run" }, element("div", { class: "text" }, element("h2", {}, run.name)), element("p", { class: "problem" }, run.problem));
  }
  const canvas = element("canvas", { "aria-hidden": "true" });
  close.push(new Plot(canvas, (context, width, height) => drawPicture(context, width, height, run, highest)));
  const mark = run.is_exact ? "" : "≈ ";
  return element("article", { class: "run" },
    element("a", { href: `#/run/${run.id}` }, canvas,
      element("div", { class: "text" },
        element("h2", {}, `${run.policy} on ${run.stage}`),
        element("p", { class: "muted" }, `${day(run.started_s)}${run.is_open ? " · open" : ""}`),
        element("p", { class: "hint" }, run.name),
        element("p", { class: "facts" }, element("span", {}, `${duration(run.duration_s)} · ${count(run.slots)} slots`), element("b", {}, `${mark}${fixed(run.reward)}`, element("small", {}, " bit/s/Hz"))))),
    element("label", { class: "pick" }, box, "Compare"));
}

// The antenna's way from left to right, light where the reward was high.
function drawPicture(context, width, height, run, highest) {
  const points = run.picture;
  const x = (i) => 10 + ((width - 20) * i) / Math.max(points.length - 1, 1);
  const y = (position) => height - 10 - ((height - 20) * position) / run.length;
  context.lineWidth = 3;
  context.lineCap = "round";
  for (let i = 1; i < points.length; i += 1) {
    context.strokeStyle = points[i][1] === null ? "#5b6773" : rampColour(0.25 + (0.75 * points[i][1]) / highest);
    context.beginPath();
    context.moveTo(x(i - 1), y(points[i - 1][0]));
    context.lineTo(x(i), y(points[i][0]));
    context.stroke();
  }
}

export async function showRun(main, close, id) {
  main.replaceChildren(element("p", { class: "empty" }, "Reading the run …"));
  const digest = await getJson(`api/runs/${id}`);
  const board = new Board(main, { isLive: false });
  close.push(board);
  board.text.digest = digest;
  board.showRun(digest);
  const { facts } = digest;
  const title = element("h1", {}, `${facts.policy} on ${facts.name}`);
  const about = `${facts.run} · ${day(facts.started_s)} · macontrol ${facts.version} on ${facts.host} · seed ${facts.seed}`;
  main.prepend(element("div", { class: "page run-head" }, element("div", { class: "head" }, title, element("span", { class: "muted" }, about))));
  if (!digest.series) board.parts["cursor-text"].textContent = "The run has no slot.";
  return board;
}

export async function showCompare(main, close, ids) {
  main.replaceChildren(element("p", { class: "empty" }, "Reading two runs …"));
  const digests = [];
  for (const id of ids) digests.push(await getJson(`api/runs/${id}`));
  const models = digests.map((digest) => {
    const model = new Model();
    model.addDigest(digest);
    return model;
  });
  const range = { low: Math.min(...models.map((m) => m.range.low)), high: Math.max(...models.map((m) => m.range.high)) };
  const top = Math.max(...models.flatMap((m) => [...m.series.reward, ...m.series.oracle, ...m.series.fixed].map((v) => v ?? 0)), 0.5);
  // The same kind of picture of both, if both have it.
  const common = ["frames", "truth"].find((name) => models.every((model) => model[name].length));
  const views = models.map((model) => {
    model.range = range;
    const layer = (common ?? (model.frames.length ? "frames" : "truth")) === "frames" ? "estimate" : "truth";
    const rows = layer === "truth" ? model.truth : model.frames;
    const gap = rows.length > 1 ? (rows[rows.length - 1].time - rows[0].time) / (rows.length - 1) : 1;
    return {
      model, facts: model.facts, from: model.time[0] ?? null, until: model.last, isLive: false, layer, typicalGap: gap,
      cursor: null, sigma: model.sigma, hasAxis: true, rewardLow: 0, rewardHigh: Math.ceil(top * 1.1 * 2) / 2,
    };
  });
  const columns = digests.map((digest, i) => {
    const fall = element("canvas", { role: "img", "aria-label": "Reward along the rail over time, with the way of the antenna" });
    const reward = element("canvas", { role: "img", "aria-label": "Reward over time" });
    close.push(new Plot(fall, (context, width, height) => drawFall(context, width, height, views[i])));
    close.push(new Plot(reward, (context, width, height) => drawReward(context, width, height, views[i])));
    const legends = [element("ul", { class: "legend", "aria-hidden": "true" }), element("ul", { class: "legend", "aria-hidden": "true" })];
    const simulated = views[i].model.truth.length > 0;
    close.push(...fallLegend(legends[0], { simulated: simulated && views[i].layer === "truth" }), ...rewardLegend(legends[1], { isLive: false, simulated }));
    return element("section", { class: "panel" },
      element("h2", {}, element("a", { href: `#/run/${ids[i]}` }, nameOf(digest))),
      element("p", { class: "hint" }, digest.facts.run),
      element("div", { class: "head sub" }, element("h3", {}, views[i].layer === "truth" ? "True reward over time" : "Estimate over time"), legends[0]),
      element("div", { class: "plot fall-plot" }, fall),
      element("div", { class: "head sub" }, element("h3", {}, "Reward, bit/s/Hz"), legends[1]),
      element("div", { class: "plot reward-plot" }, reward));
  });
  main.replaceChildren(element("div", { class: "page" },
    element("div", { class: "head" }, element("h1", {}, "Two runs"), element("a", { href: "#/runs" }, "choose others")),
    element("div", { class: "compare" }, ...columns),
    element("div", { class: "panel wide" }, table(digests))));
}

const nameOf = ({ facts }) => `${facts.policy} on ${facts.name}, ${day(facts.started_s)}`;

// Each row: its name, the number of a run, and how the number and a difference of two are written.
const ROWS = [
  ["slots", ({ summary }) => summary?.slots, count],
  ["reward (bit/s/Hz)", ({ summary }) => summary?.reward, (value) => fixed(value, 3)],
  ["over fixed antenna", ({ summary, fixed_mean: mean }) => (mean > 0 ? summary?.reward / mean - 1 : null), signed],
  ["oracle (bit/s/Hz)", (digest) => digest.oracle_mean, (value) => fixed(value, 3)],
  ["travel (λ)", ({ summary }) => summary?.travel, (value) => fixed(value, 1)],
  ["switches", ({ summary }) => summary?.switches, count],
  ["slots in transit", ({ summary }) => (summary ? summary.transit / Math.max(summary.slots, 1) : null), (value) => percent(value, 1)],
  ["missed slots", ({ summary }) => summary?.missed, count],
  ["invalid measurements", ({ summary }) => summary?.invalid, count],
];

function table(digests) {
  const difference = (of, text) => {
    const [one, other] = digests.map(of);
    if (!isNumber(one) || !isNumber(other)) return "–";
    const sign = other > one ? "+" : other < one ? "−" : "";
    return `${sign}${text(Math.abs(other - one)).replace("+", "")}`;
  };
  return element("table", { class: "pairs" },
    element("thead", {}, element("tr", {}, element("td"),
      ...[...digests.map(nameOf), "difference"].map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...ROWS.map(([name, of, text]) => element("tr", {}, element("th", { scope: "row" }, name),
      ...[...digests.map((digest) => text(of(digest))), difference(of, text)].map((value) => element("td", {}, value))))));
}
