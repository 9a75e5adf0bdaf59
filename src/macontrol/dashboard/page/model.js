// What the plots draw: the posterior at many times, and the series of the run. Memory is bounded.

import { isNumber } from "./dom.js";

const MOST_FRAMES = 3200;
const MOST_TIMES = 7000;
const UNKNOWN = -32768;
const SERIES = ["slot", "position", "target", "reward", "low", "high", "fixed", "oracle", "best", "mean"];

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stored = new DataView(bytes.buffer);
  const found = new Float32Array(bytes.length / 2);
  for (let i = 0; i < found.length; i += 1) {
    const value = stored.getInt16(2 * i, true);
    found[i] = value === UNKNOWN ? NaN : value / 1000;
  }
  return found;
}

const floats = (values) => (values ? Float32Array.from(values, (value) => (value === null ? NaN : value)) : null);

// A moving average over about 100 slots, as the daemon computes it.
const AVERAGED_SLOTS = 100;

function averaged(values, slots) {
  let mean = null;
  return values.map((value, i) => {
    if (value !== null) mean = mean === null ? value : average(mean, value, slots[i] - (slots[i - 1] ?? slots[i]));
    return mean;
  });
}

const average = (mean, value, slots) => value + (mean - value) * Math.exp(-Math.max(slots, 1) / AVERAGED_SLOTS);

export class Model {
  constructor() {
    this.facts = null;
    this.points = null;
    this.frames = [];
    this.truth = [];
    this.truthPoints = null;
    this.time = [];
    this.series = Object.fromEntries(SERIES.map((name) => [name, []]));
    this.samples = [];
    this.span = null;
    this.range = { low: 0, high: 1 };
    this.sigma = 0;
    this.oracle = null;
    this.fixedSum = null;
    this.fixedRecent = null;
  }

  get last() { return this.time.length ? this.time[this.time.length - 1] : null; }

  // A digest of a run file: the whole of a finished run, or what was before the first live frame.
  addDigest(digest, before = Infinity) {
    this.facts = { ...digest.facts, ...(this.facts ?? {}) };
    const { series, rows } = digest;
    if (!series) return;
    const kept = series.time_s.filter((time) => time < before).length;
    const isBefore = before !== Infinity;
    this.time = series.time_s.slice(0, kept).concat(this.time);
    for (const name of SERIES) {
      const source = { fixed: digest.fixed, oracle: digest.oracle, best: digest.oracle_position }[name] ?? series[name];
      let values = source ? source.slice(0, kept) : new Array(kept).fill(null);
      if (isBefore && (name === "reward" || name === "fixed")) values = averaged(values, series.slot);
      this.series[name] = values.concat(this.series[name]);
    }
    // Live, the fixed antenna is known from the second frame on.
    if (isBefore && kept && this.series.fixed[kept] === null) this.series.fixed[kept] = this.series.fixed[kept - 1];
    const count = rows.time_s.length;
    const row = (i) => ({ time: rows.time_s[i], slot: rows.slot[i], position: rows.position[i], target: rows.target[i] });
    if (digest.frames) {
      const width = digest.frames.points.length;
      const [mean, deviation] = [unpack(digest.frames.mean), unpack(digest.frames.deviation)];
      const surface = digest.frames.acquisition ? unpack(digest.frames.acquisition) : null;
      const part = (values, i) => values.subarray(i * width, (i + 1) * width);
      const frames = [];
      for (let i = 0; i < count && rows.time_s[i] < before; i += 1) {
        frames.push({ ...row(i), points: digest.frames.points, mean: part(mean, i), deviation: part(deviation, i), acquisition: surface && part(surface, i) });
      }
      this.frames = frames.concat(this.frames);
    }
    if (this.oracle) this.placeOracle();
    if (digest.truth && before === Infinity) {
      const width = digest.truth_points.length;
      const truth = unpack(digest.truth);
      this.truth = [];
      for (let i = 0; i < count; i += 1) this.truth.push({ ...row(i), points: digest.truth_points, mean: truth.subarray(i * width, (i + 1) * width), deviation: null });
    }
    this.fitRange();
  }

  // A live frame: the snapshot, the posterior if it is new, and the newest samples.
  addLive({ snapshot, posterior, samples }) {
    const { rail, reward, timing } = snapshot;
    this.facts = {
      ...(this.facts ?? {}), length: rail.length, length_mm: rail.length_mm, stroke: rail.stroke,
      wavelength_mm: rail.wavelength_mm, slot_s: timing.slot_s, largest: reward.largest,
    };
    this.samples = samples;
    if (this.last === null || snapshot.time_s > this.last) {
      this.time.push(snapshot.time_s);
      const now = {
        slot: snapshot.slot, position: snapshot.position, target: snapshot.target,
        reward: reward.recent, low: reward.latest, high: reward.latest, fixed: this.fixedReward(snapshot),
        mean: reward.mean,
      };
      for (const name of SERIES) this.series[name].push(isNumber(now[name]) ? now[name] : null);
      if (this.time.length > MOST_TIMES) {
        const cut = this.time.length - MOST_TIMES + 500;
        this.time.splice(0, cut);
        for (const name of SERIES) this.series[name].splice(0, cut);
      }
    }
    const newest = this.frames[this.frames.length - 1];
    if (posterior && posterior.mean && (!newest || newest.slot !== posterior.slot)) {
      this.frames.push({
        time: snapshot.time_s, slot: posterior.slot, position: posterior.position_now, target: posterior.target,
        points: posterior.position, mean: floats(posterior.mean), deviation: floats(posterior.deviation), acquisition: floats(posterior.acquisition),
      });
      if (this.frames.length > MOST_FRAMES) this.frames.splice(0, 300);
      this.fitRange([this.frames[this.frames.length - 1]]);
    }
  }

  // The oracle of the slots so far of a run that is running: it replaces the one before.
  setOracle(oracle) {
    this.oracle = oracle;
    this.placeOracle();
  }

  // Its stretches of slots, at the times that are drawn; its mean reward is averaged as the run's.
  placeOracle() {
    const { ends, position, reward } = this.oracle;
    if (!ends?.length) return;
    const { slot, oracle, best } = this.series;
    let k = 0;
    for (let i = 0; i < slot.length; i += 1) {
      const at = slot[i];
      while (k < ends.length && ends[k] < at) k += 1;
      const isKnown = isNumber(at) && k < ends.length && (k > 0 || at === ends[0]);
      oracle[i] = isKnown ? reward[k] : null;
      if (isKnown && k > 0) best[i] = position[k - 1] + ((position[k] - position[k - 1]) * (at - ends[k - 1])) / (ends[k] - ends[k - 1]);
      else best[i] = isKnown ? position[k] : null;
    }
    this.series.oracle = averaged(oracle, slot);
  }

  // The recent reward of a fixed antenna, from how the mean of the whole run has changed.
  fixedReward({ reward, counts }) {
    if (!isNumber(reward.fixed) || !counts) return null;
    const [slots, sum] = [counts.slots, counts.slots * reward.fixed];
    const before = this.fixedSum;
    this.fixedSum = { slots, sum };
    if (before && slots > before.slots) {
      const value = (sum - before.sum) / (slots - before.slots);
      this.fixedRecent = average(this.fixedRecent ?? reward.fixed, value, slots - before.slots);
    }
    return this.fixedRecent ?? null;
  }

  // The range of the colours: it grows with what is seen, in steps, and does not shrink.
  fitRange(frames = [...this.frames, ...this.truth]) {
    let { low, high } = this.range;
    for (const { mean, deviation } of frames) {
      for (const value of deviation ?? []) if (value > this.sigma) this.sigma = value;
      for (const value of mean) {
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    this.range = { low: Math.max(Math.floor(low * 2) / 2, -2), high: Math.ceil(high * 2) / 2 };
  }

  // The mean reward of the run up to a slot; null if that was not seen live.
  meanAt(wanted) {
    const { slot, mean } = this.series;
    const i = slot.findLastIndex((value) => isNumber(value) && value <= wanted);
    return i >= 0 && wanted - slot[i] <= 0.02 * wanted ? mean[i] : null;
  }

  // The last frame that is not after a time.
  frameAt(time, frames = this.frames) {
    let [low, high] = [0, frames.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (frames[middle].time <= time) low = middle + 1;
      else high = middle;
    }
    return low ? frames[low - 1] : null;
  }

  indexAt(time) {
    let [low, high] = [0, this.time.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.time[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return Math.max(low - 1, 0);
  }
}
