// The texts and numbers of a board.

import { clock, count, duration, element, fixed, isNumber, percent, seconds, setText, signed } from "./dom.js";

const PHASES = [["wake", "wake-up"], ["actuate", "actuate"], ["measure", "measure"], ["decide", "decide"]];
const BAD_EVENTS = new Set(["stage-fault", "probe-fault", "policy-fault", "internal-error", "no-signal", "refused-command"]);
const WARN_EVENTS = new Set(["warning", "recording", "late-arrival", "late-decision", "missed-slots", "cold-start"]);
const NO_RESURVEY = new Set(["surveying", "holding", "stopping"]);
const LOW_DISK_MB = 500;
const HOT_C = 80;
// Of the bar of a slot: a name that does not fit is left out; the table below has the phases.
const WIDEST_LETTER = 0.024;
const STATES = {
  starting: "Starting", homing: "Homing", surveying: "Surveying", running: "Running",
  recovering: "Recovering", holding: "Holding", stopping: "Stopping", ended: "Ended",
  "not answering": "Not answering",
};

export class BoardText {
  constructor(parts, { isLive, actions }) {
    this.parts = parts;
    this.actions = actions;
    this.isThere = false;
    this.isHeld = false;
    this.events = [];
    this.inputs = new Map();
    this.command = null;
    this.snapshot = null;
    if (!isLive) return;
    parts.hold.addEventListener("click", () => actions.act(this.isHeld ? "resume" : "hold"));
    parts.stop.addEventListener("click", () => actions.stop());
    parts.resurvey.addEventListener("click", () => actions.resurvey(this.snapshot));
    parts.floor.addEventListener("click", () => actions.measureFloor(this.snapshot));
  }

  showSnapshot(snapshot, state, model) {
    const { parts } = this;
    this.isThere = state !== "ended" && state !== "not answering";
    const kind = this.isThere ? state : "gone";
    setText(parts.state, STATES[state] ?? state);
    parts.state.className = `state ${kind}`;
    const may = this.isThere && this.actions.mayAct;
    const maySteer = may && !snapshot?.trial;
    this.isHeld = Boolean(snapshot?.hold?.is_held);
    setText(parts["hold-text"], this.isHeld ? "Resume" : "Hold");
    parts.hold.classList.toggle("held", this.isHeld);
    parts.hold.disabled = !maySteer;
    for (const name of ["hold", "aside", "hint"]) parts[name].hidden = state === "ended";
    parts.stop.disabled = !may;
    parts.resurvey.disabled = !maySteer || !snapshot?.slot || NO_RESURVEY.has(state);
    parts.floor.disabled = !maySteer || !snapshot?.slot || state === "surveying";
    parts.floor.hidden = !isNumber(snapshot?.probe?.noise_floor);
    this.snapshot = snapshot;
    setText(parts.hint, this.actions.mayAct ? "To move the antenna, click the rail." : "View only. To act, open the address with the token.");
    parts.ended.hidden = state !== "ended";
    if (!snapshot) return;
    let doing = snapshot.activity || "";
    const { goal } = snapshot.hold ?? {};
    const { survey } = snapshot;
    if (!doing && state === "surveying" && survey) doing = `${count(survey.done)} of ${count(survey.positions)} positions`;
    if (!doing && this.isHeld) doing = isNumber(goal) ? `at ${fixed(goal)} λ, measuring continues` : "the antenna stays, measuring continues";
    const { trial } = snapshot;
    if (!doing && trial?.block) doing = `${snapshot.policy} on ${snapshot.name}, block ${trial.block} of ${trial.blocks} of a trial, slot ${count(snapshot.slot)}`;
    if (!doing) doing = `${snapshot.policy} on ${snapshot.name}, slot ${count(snapshot.slot)}`;
    setText(parts.doing, doing);
    if (state === "ended") this.showEnd(snapshot);
    this.showNow(snapshot);
    this.showSignal(snapshot, model);
    this.showSlot(snapshot);
    this.showHealth(snapshot);
    this.showSettings(snapshot.settings ?? {}, maySteer);
  }

  // Without a connection nothing can act; the next frame enables what is possible.
  setStale(isStale) {
    const { hold, stop, resurvey, floor } = this.parts;
    if (isStale) for (const button of [hold, stop, resurvey, floor, ...this.parts.settings.querySelectorAll("input")]) button.disabled = true;
  }

  showEnd(snapshot) {
    const { parts } = this;
    const stop = [...this.events].reverse().find((event) => event.kind === "stop");
    setText(parts["ended-text"], stop
      ? `${clock(stop.time_s)}, slot ${count(stop.slot)}: ${stop.detail}.`
      : `Last state at ${clock(snapshot.time_s)}, slot ${count(snapshot.slot)}. The daemon gave no reason: its log, or journalctl, may have one.`);
    setText(parts["ended-command"], this.command ?? `macontrol --backend ${snapshot.backend}`);
  }

  showNow(snapshot) {
    const { reward } = snapshot;
    const counts = snapshot.counts ?? {};
    const gain = isNumber(reward.mean) && reward.fixed > 0 ? reward.mean / reward.fixed - 1 : null;
    numbers(this.parts.now, [
      ["Reward, mean of 100 slots", fixed(reward.recent), "bit/s/Hz", "big"],
      ["Whole run", fixed(reward.mean), "bit/s/Hz"],
      ["Over fixed antenna", signed(gain), ""],
      ["Position", fixed(snapshot.position), `λ · ${fixed(snapshot.position_mm, 1)} mm`],
      ["Target", fixed(snapshot.target), `λ · ${fixed(snapshot.target_mm, 1)} mm`],
      ["Travel", fixed(counts.travel, 1), `λ · ${fixed(counts.travel_mm / 1000, 2)} m`],
      ["Switches", count(counts.switches), `in transit ${percent(counts.slots ? counts.transit / counts.slots : null)}`],
    ]);
  }

  // The oracle of a simulated run that is running, how current it is, and the antenna's own mean then.
  showOracle({ slot, wanted, mean, interval_s: interval }, own) {
    const node = this.parts["oracle-text"];
    node.hidden = false;
    const share = slot >= wanted && mean > 0 && isNumber(own) ? `; the antenna has ${percent(own / mean)} of it` : "";
    setText(node, slot < wanted
      ? `Oracle of the slots so far: computed up to slot ${count(slot)} of ${count(wanted)}.`
      : `Oracle of the slots so far: ${fixed(mean)} bit/s/Hz${share}. Computed every ${seconds(interval)}, up to slot ${count(slot)}.`);
  }

  showSignal(snapshot, model) {
    const { probe } = snapshot;
    const counts = snapshot.counts ?? {};
    const unit = probe.noise_floor_unit ?? "";
    numbers(this.parts.signal, [
      ["SNR", fixed(probe.snr_db, 1), "dB"],
      ["Noise floor", fixed(probe.noise_floor, 1), isNumber(probe.noise_floor) ? unit : ""],
      ["Level", fixed(probe.level, 1), isNumber(probe.level) ? probe.level_unit ?? "" : ""],
      ["Valid slots", percent(counts.slots ? counts.rewards / counts.slots : null, 1), ""],
    ]);
  }

  showSlot(snapshot) {
    const { timing, phases } = snapshot;
    const counts = snapshot.counts ?? {};
    const slot_s = timing.slot_s;
    setText(this.parts["slot-text"], `${seconds(slot_s)} · nr ${count(snapshot.slot)}`);
    const { actuation_s, spent_s = actuation_s, measure_s } = timing; // spent_s: of the newest slot
    this.showBudget(slot_s, spent_s, measure_s + actuation_s - spent_s, timing.decide_s);
    this.showPhases(phases);
    numbers(this.parts.late, [
      ["Missed slots", count(counts.missed), "", counts.missed ? "bad" : ""],
      ["Late arrivals", count(counts.late_arrivals), ""],
      ["Late decisions", count(counts.late_decisions), ""],
      ["Invalid", count(counts.invalid), ""],
    ]);
  }

  showBudget(slot_s, actuate_s, measure_s, decide_s) {
    const { budget } = this.parts;
    const kinds = [["actuate", "move", actuate_s], ["measure", "measure", measure_s], ["decide", "decide", decide_s]];
    if (!budget.children.length) budget.append(...kinds.map(([name, text]) => element("span", { class: name }, text)));
    kinds.forEach(([, text, value], i) => {
      const share = Math.max(value ?? 0, 0) / slot_s;
      budget.children[i].style.flex = `${share} 1 0`;
      setText(budget.children[i], share > WIDEST_LETTER * (text.length + 1) ? text : "");
    });
    budget.setAttribute("aria-label", `A slot of ${seconds(slot_s)}: move ${seconds(actuate_s)}, measure ${seconds(measure_s)}, decide ${seconds(decide_s)}`);
  }

  showPhases(phases) {
    const { parts } = this;
    if (!parts.phases.children.length) {
      parts.phases.append(...PHASES.map(([, name]) => element("tr", {}, element("th", { scope: "row" }, name), ...[0, 1, 2, 3].map(() => element("td")))));
    }
    PHASES.forEach(([key], i) => {
      const cells = parts.phases.children[i].children;
      const phase = phases?.[key] ?? {};
      [phase.p50_s, phase.p99_s, phase.largest_s, phase.limit_s].forEach((value, k) => setText(cells[k + 1], seconds(value)));
      // A measurement always takes its planned time, and a little more to wake up.
      cells[2].className = isNumber(phase.limit_s) && phase.p99_s > 1.1 * phase.limit_s ? "over" : "";
    });
  }

  showHealth(snapshot) {
    const { stage, probe, recording } = snapshot;
    const system = snapshot.system ?? {};
    const counts = snapshot.counts ?? {};
    const faults = (counts.stage_faults ?? 0) + (counts.probe_faults ?? 0) + (counts.refused ?? 0);
    const load = system.load?.[0];
    const disk = system.disk_free_mb;
    const rows = [
      ["Stage", stage?.is_lost ? "lost" : stage?.name ?? "–", Boolean(stage?.is_lost)],
      ["Radio", probe.fault || "ready", Boolean(probe.fault)],
      ["Faults", count(faults), faults > 0],
      ["Recording", recording.run_file === null ? "off" : recording.lost ? `${count(recording.lost)} records lost` : "all written", recording.lost > 0],
      ["Disk", isNumber(disk) ? `${fixed(disk / 1024, 1)} GB free` : "–", disk < LOW_DISK_MB],
      ["Load", isNumber(load) ? `${fixed(load, 2)} on ${system.cpus} cores` : "–", load > system.cpus],
      ["Temperature", isNumber(system.temperature_c) ? `${fixed(system.temperature_c, 0)} °C` : "–", system.temperature_c > HOT_C],
    ];
    pairs(this.parts.health, rows);
  }

  showSettings(settings, may) {
    for (const [key, { value, least, most, meaning }] of Object.entries(settings)) {
      let entry = this.inputs.get(key);
      if (!entry) {
        const input = element("input", { type: "number", step: "any", inputmode: "decimal" });
        const name = key.split(".").pop();
        const range = element("span", { class: "range" });
        input.addEventListener("change", () => {
          if (input.value !== "") this.actions.act("set", { key, value: Number(input.value) });
        });
        this.parts.settings.append(element("label", {}, element("b", {}, name), ` ${meaning}`, element("span", { class: "row" }, input, range)));
        entry = { input, range };
        this.inputs.set(key, entry);
      }
      const { input, range } = entry;
      setText(range, rangeText(least, most));
      input.disabled = !may;
      input.min = String(least ?? "");
      input.max = String(most ?? "");
      if (document.activeElement !== input) input.value = String(value);
    }
  }

  addEvents(events) {
    const { parts } = this;
    const known = new Set(this.events.map(({ time_s, kind, slot }) => `${time_s.toFixed(2)} ${kind} ${slot}`));
    this.events.push(...events.filter(({ time_s, kind, slot }) => !known.has(`${time_s.toFixed(2)} ${kind} ${slot}`)));
    this.events.sort((a, b) => a.time_s - b.time_s);
    this.events.splice(0, Math.max(this.events.length - 200, 0));
    parts.events.replaceChildren(...this.events.slice(-60).reverse().map((event) => {
      const kind = BAD_EVENTS.has(event.kind) ? "bad" : WARN_EVENTS.has(event.kind) ? "warn" : "";
      return element("li", { class: kind },
        element("time", {}, clock(event.time_s)), element("b", {}, event.kind),
        element("span", { class: "detail" }, event.text.slice(`slot ${event.slot}: ${event.kind}: `.length)));
    }));
  }

  showConfig(settings) {
    if (!settings) return;
    const { parts } = this;
    const rows = [];
    const walk = (table, prefix) => {
      for (const [key, value] of Object.entries(table)) {
        if (value !== null && typeof value === "object" && !Array.isArray(value)) walk(value, `${prefix}${key}.`);
        else rows.push(element("dt", {}, ...breakable(`${prefix}${key}`)), element("dd", {}, Array.isArray(value) ? value.join(", ") : String(value)));
      }
    };
    walk(settings, "");
    parts.config.replaceChildren(...rows);
    parts["config-box"].hidden = false;
  }

  // A finished run

  showRun(digest) {
    const { parts } = this;
    const { facts, summary } = digest;
    this.showConfig(digest.settings);
    this.addEvents(digest.events);
    setText(parts["slot-text"], summary ? `${seconds(facts.slot_s)} · ${count(summary.slots)} slots` : seconds(facts.slot_s));
    const algorithm = digest.settings.timing ?? {};
    const decide_s = (algorithm.decision_share ?? 0) * facts.slot_s;
    const guard_s = (algorithm.guard_share ?? 0) * facts.slot_s;
    this.showBudget(facts.slot_s, facts.actuation_s, facts.slot_s - facts.actuation_s - guard_s - decide_s, decide_s);
    this.showPhases(summary?.phases);
    if (!summary) return;
    numbers(parts.late, [
      ["Missed slots", count(summary.missed), "", summary.missed ? "bad" : ""],
      ["Late arrivals", count(summary.late_arrivals), ""],
      ["Valid slots", percent(summary.slots ? 1 - summary.invalid / summary.slots : null, 1), ""],
      ["Invalid", count(summary.invalid), ""],
    ]);
  }

  showCursor(model, i) {
    const { series, facts } = model;
    const { summary, fixed_mean: fixedMean, oracle_mean: best } = this.digest ?? {};
    const mean = summary?.reward;
    const gain = isNumber(mean) && fixedMean > 0 ? mean / fixedMean - 1 : null;
    numbers(this.parts.now, [
      ["Reward of the run", fixed(mean), "bit/s/Hz", "big"],
      ["Over fixed antenna", signed(gain), ""],
      ["Share of the oracle", isNumber(best) ? percent(mean / best) : "–", ""],
      ["Travel", fixed(summary?.travel, 1), `λ · ${fixed((summary?.travel * facts.wavelength_mm) / 1000, 2)} m`],
      ["Switches", count(summary?.switches), `in transit ${percent(summary?.slots ? summary.transit / summary.slots : null)}`],
      ["Length", duration(facts.slot_s * (summary?.slots ?? 0)), ""],
      ["Reward at the cursor", fixed(series.reward[i]), "bit/s/Hz"],
      ["Position there", fixed(series.position[i]), `λ · ${fixed(series.position[i] * facts.wavelength_mm, 1)} mm`],
      ["Target there", fixed(series.target[i]), `λ · ${fixed(series.target[i] * facts.wavelength_mm, 1)} mm`],
    ]);
  }
}

// A long name may break after its dots and underscores.
const breakable = (name) => name.split(/(?<=[._])/).flatMap((part) => [element("wbr"), part]);

const HUGE = 1e9;

function rangeText(least, most) {
  const short = (value) => String(Number(value.toPrecision(3)));
  const [isFrom, isTo] = [isNumber(least) && least > -HUGE, isNumber(most) && most < HUGE];
  if (isFrom && isTo) return `${short(least)} to ${short(most)}`;
  if (isFrom) return `at least ${short(least)}`;
  return isTo ? `at most ${short(most)}` : "";
}

export function numbers(list, rows) {
  if (list.children.length !== rows.length) {
    list.replaceChildren(...rows.map(([name, , , kind]) => element("div", { class: kind ?? "" },
      element("dt", {}, name), element("dd", {}, element("span"), " ", element("small")))));
  }
  rows.forEach(([name, value, unit, kind], i) => {
    const box = list.children[i];
    if (box.className !== (kind ?? "")) box.className = kind ?? "";
    setText(box.firstChild, name);
    const [number, , small] = box.lastChild.childNodes;
    setText(number, value);
    setText(small, unit);
  });
}

function pairs(list, rows) {
  if (list.children.length !== rows.length * 2) {
    list.replaceChildren(...rows.flatMap(([name]) => [element("dt", {}, name), element("dd")]));
  }
  rows.forEach(([, value, isBad], i) => {
    const cell = list.children[2 * i + 1];
    setText(cell, value);
    cell.className = isBad ? "bad" : value === "–" ? "plain" : "";
  });
}

