// The board: everything about one run, a live one or a finished one, drawn by the same code.

import { BoardText } from "./board-text.js";
import { element, fixed, isNumber, parts, setText, timeOffset } from "./dom.js";
import { drawFall, fallScale } from "./draw-fall.js";
import { drawRail, railScale } from "./draw-rail.js";
import { drawReward, rewardScale } from "./draw-reward.js";
import { drawRamp, fallLegend, railLegend, rewardLegend } from "./legends.js";
import { Model } from "./model.js";
import { Plot } from "./plot.js";

const SPANS = [[15, "15 s"], [60, "1 min"], [600, "10 min"]];
const PLAY_S = 20;

export class Board {
  constructor(root, { isLive, actions = null }) {
    this.root = root;
    this.isLive = isLive;
    this.actions = actions;
    this.model = new Model();
    this.snapshot = null;
    this.span = SPANS[0][0];
    this.layer = "estimate";
    this.cursor = null;
    this.pointer = null;
    this.chosen = null;
    this.scaleTop = null;
    this.legends = [];
    root.replaceChildren(document.getElementById("board-template").content.cloneNode(true));
    this.parts = parts(root);
    this.text = new BoardText(this.parts, { isLive, actions });
    this.plots = [
      new Plot(this.parts.rail, (context, width, height) => { this.placeQuestion(); drawRail(context, width, height, this.railView()); }),
      new Plot(this.parts.fall, (context, width, height) => drawFall(context, width, height, this.timeView())),
      new Plot(this.parts.reward, (context, width, height) => drawReward(context, width, height, this.timeView())),
    ];
    this.prepareRail();
    this.prepareTime();
    this.drawLegends();
    this.placeEvents(root);
    if (!isLive) {
      root.querySelector("#now-title").textContent = "Run";
      root.querySelector(".settings-panel details").open = true;
    }
    for (const name of ["control-panel", "signal-panel", "health-panel"]) {
      root.querySelector(`.${name}`).hidden = !isLive;
    }
  }

  // On a wide screen the events are beside the plots, otherwise below them.
  placeEvents(root) {
    const wide = matchMedia("(min-width: 1500px)");
    const place = () => {
      const events = root.querySelector(".events-panel");
      if (wide.matches) root.querySelector(".signal-panel").after(events);
      else root.querySelector(".main-column").append(events);
    };
    place();
    wide.addEventListener("change", place);
    this.release = () => wide.removeEventListener("change", place);
  }

  close() {
    this.release();
    for (const plot of [...this.plots, ...this.legends]) plot.close();
    clearInterval(this.playing);
  }

  redraw() {
    for (const plot of this.plots) plot.redraw();
    this.nameRamp();
  }

  // What is drawn is old, and nothing can act: the connection or the daemon is lost.
  setStale(isStale) {
    this.root.classList.toggle("stale", isStale);
    this.text.setStale(isStale);
  }

  nameRamp() {
    const { low, high } = this.model.range;
    setText(this.parts["ramp-low"], fixed(low, 1));
    setText(this.parts["ramp-high"], `${fixed(high, 1)} bit/s/Hz`);
    this.parts.ramp.setAttribute("aria-label", `Colours: from dark for ${fixed(low, 1)} to light for ${fixed(high, 1)} bit/s/Hz`);
  }

  // Data

  showFrame(frame) {
    if (frame.snapshot) {
      this.snapshot = frame.snapshot;
      this.model.addLive(frame);
    }
    this.text.showSnapshot(frame.snapshot, frame.state, this.model);
    this.describeRail();
    this.redraw();
  }

  showHistory(digest) {
    const first = this.model.time.length ? this.model.time[0] : Infinity;
    this.model.addDigest(digest, first);
    this.text.showConfig(digest.settings);
    this.redraw();
  }

  showOracle(oracle) {
    const isFirst = this.model.oracle === null;
    this.model.setOracle(oracle);
    this.text.showOracle(oracle, this.model.meanAt(oracle.slot));
    if (isFirst) this.drawLegends();
    this.redraw();
  }

  showRun(digest) {
    this.model.addDigest(digest);
    this.text.showRun(digest);
    this.drawLegends();
    this.digest = digest;
    const { layers, scrub, cursor } = this.parts;
    if (!this.model.frames.length && this.model.truth.length) this.layer = "truth";
    layers.hidden = !(this.model.frames.length && this.model.truth.length);
    this.choices(layers, [["estimate", "estimate"], ["truth", "true map"]], () => this.layer, (value) => { this.layer = value; this.nameFall(); });
    this.nameFall();
    this.parts.spans.hidden = true;
    if (this.model.last !== null) {
      scrub.hidden = false;
      cursor.max = String(this.model.time.length - 1);
      this.setCursor(this.model.last);
    }
  }

  nameFall() {
    setText(this.parts["fall-title"], this.layer === "truth" ? "True reward over time" : "Estimate over time");
  }

  // What the plots show

  get frame() {
    const { frames } = this.model;
    if (!this.isLive && this.cursor !== null) return this.model.frameAt(this.cursor) ?? frames[0] ?? null;
    return frames[frames.length - 1] ?? null;
  }

  now() {
    const { snapshot, model } = this;
    if (this.isLive) {
      return snapshot ? { position: snapshot.position, target: snapshot.target, reach: snapshot.reach, goal: snapshot.hold?.goal } : {};
    }
    if (this.cursor === null) return {};
    const i = model.indexAt(this.cursor);
    const position = model.series.position[i];
    const { stroke, length } = model.facts;
    return {
      position, target: model.series.target[i],
      reach: isNumber(position) ? [Math.max(position - stroke, 0), Math.min(position + stroke, length)] : null,
    };
  }

  samples() {
    if (this.isLive) return this.model.samples;
    const { model } = this;
    const last = model.indexAt(this.cursor ?? Infinity);
    const found = [];
    for (let i = Math.max(last - 40, 0); i <= last; i += 1) {
      if (isNumber(model.series.reward[i])) found.push([model.series.slot[i], model.series.position[i], model.series.reward[i]]);
    }
    return found;
  }

  railView() {
    const { facts } = this.model;
    const { frame } = this;
    const samples = this.samples();
    return { facts, frame, now: this.now(), samples, pointer: this.pointer, isAsking: this.chosen !== null, ...this.railRange(frame, samples) };
  }

  // The scale of the rewards grows at once and shrinks only when half of it is empty.
  railRange(frame, samples) {
    let [low, high] = [0, 0.5];
    for (const [, , reward] of samples) high = Math.max(high, reward);
    if (frame) {
      frame.mean.forEach((value, i) => {
        high = Math.max(high, value + (frame.deviation?.[i] ?? 0));
        low = Math.min(low, value);
      });
      frame.acquisition?.forEach((value) => { high = Math.max(high, value); });
    }
    const wanted = Math.ceil(high * 1.08 * 2) / 2;
    if (this.scaleTop === null || wanted > this.scaleTop || wanted < this.scaleTop * 0.6) this.scaleTop = wanted;
    return { low: low < 0 ? Math.floor(low * 4) / 4 : 0, high: this.scaleTop };
  }

  timeView() {
    const { model } = this;
    const until = model.last;
    const from = until === null ? null : this.isLive ? until - this.span : model.time[0];
    const frames = this.layer === "truth" ? model.truth : model.frames;
    let typicalGap = 0.25;
    if (!this.isLive && frames.length > 1) typicalGap = (frames[frames.length - 1].time - frames[0].time) / (frames.length - 1);
    let rewardHigh = 0.5;
    for (const name of ["reward", "oracle", "fixed"]) for (const value of model.series[name]) if (value > rewardHigh) rewardHigh = value;
    return {
      model, facts: model.facts, from, until, isLive: this.isLive, layer: this.layer, typicalGap,
      cursor: this.isLive ? null : this.cursor, sigma: model.sigma,
      rewardLow: 0, rewardHigh: Math.ceil(rewardHigh * 1.1 * 2) / 2,
    };
  }

  // Parts that act

  prepareRail() {
    const { rail } = this.parts;
    const place = (event) => {
      if (!this.model.facts) return null;
      const { x, width } = this.plots[0].place(event);
      const at = railScale(this.model.facts, width).invert(x);
      return Math.min(Math.max(at, 0), this.model.facts.length);
    };
    rail.addEventListener("pointermove", (event) => this.setPointer(place(event)));
    rail.addEventListener("pointerleave", () => this.setPointer(this.chosen));
    rail.addEventListener("click", (event) => this.choose(place(event)));
    rail.addEventListener("keydown", (event) => this.railKey(event));
    rail.addEventListener("blur", () => { if (this.chosen === null) this.setPointer(null); });
    this.parts["goto-yes"].addEventListener("click", () => {
      const position = this.chosen;
      this.choose(null);
      this.actions?.act("goto", { position });
    });
    this.parts["goto-no"].addEventListener("click", () => { this.choose(null); rail.focus(); });
    this.parts.goto.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { this.choose(null); rail.focus(); }
    });
  }

  railKey(event) {
    const { facts } = this.model;
    if (!facts) return;
    const from = this.pointer ?? this.now().position ?? facts.length / 2;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    let to = null;
    if (event.key in steps) to = from + (steps[event.key] * facts.length) / 120;
    else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = facts.length;
    else if (event.key === "Enter") this.choose(this.pointer);
    else if (event.key === "Escape") { this.choose(null); this.setPointer(null); }
    else return;
    event.preventDefault();
    if (to !== null) this.setPointer(Math.min(Math.max(to, 0), facts.length));
  }

  setPointer(position) {
    this.pointer = position;
    this.describeRail();
    this.plots[0].redraw();
  }

  choose(position) {
    const { goto } = this.parts;
    const may = this.isLive && this.actions?.mayAct && this.text.isThere && !this.snapshot?.trial;
    this.chosen = may && isNumber(position) ? position : null;
    goto.hidden = this.chosen === null;
    if (this.chosen === null) return;
    const { facts } = this.model;
    setText(this.parts["goto-text"], `Go to ${fixed(position)} λ · ${fixed(position * facts.wavelength_mm, 1)} mm?`);
    this.placeQuestion();
    this.parts["goto-yes"].focus();
  }

  // The question stays at its place on the rail, and within the plot, whatever the size of the screen.
  placeQuestion() {
    if (this.chosen === null) return;
    const { goto, rail } = this.parts;
    const [{ width }, zoom] = [rail.getBoundingClientRect(), this.plots[0].zoom()];
    const half = goto.getBoundingClientRect().width / 2;
    const at = railScale(this.model.facts, width / zoom)(this.chosen) * zoom;
    goto.style.left = `${Math.min(Math.max(at, half + 4), width - half - 4)}px`;
  }

  describeRail() {
    const { rail } = this.parts;
    const { facts } = this.model;
    if (!facts) return;
    const at = this.pointer ?? this.now().position;
    if (!isNumber(at)) return;
    const set = (name, value) => { if (rail.getAttribute(name) !== value) rail.setAttribute(name, value); };
    set("aria-valuemin", "0");
    set("aria-valuemax", fixed(facts.length));
    set("aria-valuenow", at.toFixed(2));
    set("aria-valuetext", `${fixed(at)} wavelengths, ${fixed(at * facts.wavelength_mm, 1)} millimetres`);
  }

  prepareTime() {
    this.choices(this.parts.spans, SPANS, () => this.span, (value) => { this.span = value; });
    const { fall, reward, cursor, play } = this.parts;
    const drag = (canvas, plot, timeAt) => {
      const move = (event) => {
        if (!this.isLive && this.model.last !== null) this.setCursor(timeAt(plot.place(event)));
      };
      canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); move(event); });
      canvas.addEventListener("pointermove", (event) => { if (event.buttons) move(event); });
    };
    drag(fall, this.plots[1], ({ y, height }) => fallScale(this.timeView(), height).invert(y));
    drag(reward, this.plots[2], ({ x, width }) => rewardScale(this.timeView(), width).invert(x));
    cursor.addEventListener("input", () => this.setCursor(this.model.time[Number(cursor.value)]));
    play.addEventListener("click", () => (this.playing ? this.pause() : this.play()));
  }

  setCursor(time) {
    const { model } = this;
    this.cursor = Math.min(Math.max(time, model.time[0]), model.last);
    const i = model.indexAt(this.cursor);
    this.parts.cursor.value = String(i);
    const text = `${timeOffset(this.cursor - model.time[0])}, slot ${model.series.slot[i]}`;
    setText(this.parts["cursor-text"], text);
    this.parts.cursor.setAttribute("aria-valuetext", text);
    this.text.showCursor(model, i);
    this.describeRail();
    this.redraw();
  }

  play() {
    const { model } = this;
    const length = model.last - model.time[0];
    if (this.cursor >= model.last - 1e-6) this.setCursor(model.time[0]);
    let before = performance.now();
    this.playing = setInterval(() => {
      const now = performance.now();
      this.setCursor(this.cursor + ((now - before) / 1000) * Math.max(length / PLAY_S, 0.1));
      before = now;
      if (this.cursor >= model.last) this.pause();
    }, 60);
    this.namePlay("❚❚", "Pause");
  }

  pause() {
    clearInterval(this.playing);
    this.playing = null;
    this.namePlay("▶", "Play");
  }

  namePlay(sign, name) {
    setText(this.parts.play, sign);
    this.parts.play.setAttribute("aria-label", name);
  }

  choices(group, entries, current, choose) {
    group.replaceChildren(...entries.map(([value, text]) => {
      const button = element("button", { type: "button" }, text);
      button.setAttribute("aria-pressed", String(current() === value));
      button.addEventListener("click", () => {
        choose(value);
        for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
        this.redraw();
      });
      return button;
    }));
  }

  drawLegends() {
    const { isLive, parts } = this;
    const simulated = this.model.truth.length > 0 || this.model.oracle !== null;
    for (const plot of this.legends) plot.close();
    this.legends = [
      ...railLegend(parts["rail-legend"]),
      ...fallLegend(parts["fall-legend"], { simulated }),
      ...rewardLegend(parts["reward-legend"], { isLive, simulated }),
    ];
    drawRamp(parts.ramp.querySelector("canvas"));
  }
}
