"""The report of one run: a page that says in a sentence how it went, and then shows it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from macontrol.config import differing_keys, load_config
from macontrol.config.layers import DEFAULT
from macontrol.config.loading import values_of
from macontrol.controller.policies.theory import Verdict
from macontrol.controller.recording.events import REASONS, EventKind
from macontrol.reports import figures
from macontrol.reports.drawing import block_slots
from macontrol.reports.estimate import Estimate, estimate_at
from macontrol.reports.figures import RATE
from macontrol.reports.page import details, page, paragraph, section, table, tiles
from macontrol.reports.quantities import distance_text, duration_text, gain_text, number_text
from macontrol.reports.recorded import Recorded
from macontrol.reports.world import HOW_KNOWN, OracleTrace, World, oracle_of, world_of

_ESTIMATES = (0.02, 0.33, 0.67, 1.0)
"""Where in the run the posterior is shown, as shares of its slots."""
_MOST_EVENTS = 200
_ROUTINE = (EventKind.POLICY, EventKind.SURVEY, EventKind.APPROACH, EventKind.START)
_LONGEST_DETAIL = 2000
_LONGEST_TABLE = 12


@dataclass(frozen=True)
class Reference:
    """What a run is compared with, or why that is unknown."""

    world: World | None
    oracle: OracleTrace | None
    regret: float | None
    why_no_world: str = ""
    why_no_oracle: str = ""


def reference_of(recorded: Recorded) -> Reference:
    """The fixed antenna and the oracle in the world of a run, where it is known."""
    run, facts = recorded.run, recorded.facts
    world = world_of(recorded.config, run.backend, run.seed, run.slots)
    if isinstance(world, str):
        return Reference(None, None, None, world, world)
    oracle = oracle_of(recorded.config, run.seed, facts.first_slot, facts.last_slot)
    if isinstance(oracle, str):
        return Reference(world, None, None, "", oracle)
    return Reference(world, oracle, run.regret_per_slot())


def report(recorded: Recorded) -> str:
    """The report as HTML."""
    title = f"Run {recorded.name}"
    head = f"<h1>{escape(title)}</h1>{_subtitle(recorded)}"
    if recorded.length == 0:
        empty = "No slot of this run was recorded, so there is nothing to draw."
        return page(title, [head, paragraph(empty, "lead"), *_background(recorded)])
    found = reference_of(recorded)
    return page(
        title,
        [
            head,
            paragraph(summary(recorded, found), "lead"),
            _key_figures(recorded, found),
            _trajectory(recorded, found),
            _rewards(recorded, found),
            section("Movement", figures.movement(recorded)),
            _posterior(recorded, found),
            _faults(recorded),
            _timing(recorded),
            _theory(recorded),
            *_background(recorded),
        ],
    )


def _subtitle(recorded: Recorded) -> str:
    header = recorded.header
    look = {"ended": "good", "cut off": "bad"}.get(recorded.state, "")
    state = {"cut off": "cut off: there is no stop event"}.get(recorded.state, recorded.state)
    bench = "simulated bench" if header.backend == "sim" else f"{header.backend} bench"
    return (
        f'<p class="soft">{header.started:%d %B %Y, %H:%M:%S} UTC · {escape(header.policy)} · '
        f'{escape(bench)} {escape(header.stage)} <span class="state {look}">{state}</span></p>'
    )


def summary(recorded: Recorded, found: Reference) -> str:
    """How the run went, for a reader who knows nothing of bandits."""
    facts, policy = recorded.facts, recorded.header.policy
    so_far = " so far" if recorded.state == "being recorded" else ""
    begin = f"In {duration_text(facts.duration_s)} ({facts.slots} slots){so_far} "
    if facts.mean_reward is None:
        text = f"{begin}no measurement was valid, so the reward of this run is unknown."
    else:
        text = f"{begin}the policy {policy} reached {facts.mean_reward:.2f} {RATE} on average"
        text += _compared(found, figures.survey_at_x_0(recorded))
    distance = f"{distance_text(facts.travel_mm)} ({facts.travel:.1f} wavelengths)"
    without = facts.slots - facts.rewards + facts.missed
    health = (
        "Nothing failed." if facts.faults == 0 else f"{_count(facts.faults, 'fault')} occurred."
    )
    if without:
        share = without / (facts.slots + facts.missed)
        health += f" {_count(without, 'slot')} ({share:.1%}) gave no measurement."
    return f"{text} The antenna travelled {distance}. {health}"


def _compared(found: Reference, survey_reward: float | None) -> str:
    world, oracle = found.world, found.oracle
    if world is None or world.gain is None:
        text = ". What a fixed antenna would have reached is unknown"
        if survey_reward is None:
            return f"{text}."
        return f"{text}; before slot 1, the survey measured {survey_reward:.2f} at x_0."
    more = "more" if world.gain >= 0 else "less"
    text = (
        f", {abs(world.gain):.0%} {more} than an antenna fixed at {world.fixed_position:g} "
        f"wavelengths would have reached in the same time ({world.mean_fixed:.2f})"
    )
    if oracle is None:
        return f"{text}."
    best = float(oracle.reward.mean())
    return (
        f"{text}; the best possible trajectory, with all rewards known in advance, reaches "
        f"{best:.2f}."
    )


def _key_figures(recorded: Recorded, found: Reference) -> str:
    facts, world, oracle = recorded.facts, found.world, found.oracle
    unit, share = RATE, facts.transmission_share
    if share is not None and recorded.config.physical.actuation_plan.as_needed:
        unit += f"; the link transmits {share:.0%} of the time"
    rows = [(number_text(facts.mean_reward, ".3f"), "mean reward", unit)]
    if world is not None:
        fixed = f"fixed at x_0: {world.mean_fixed:.3f}"
        rows.append((number_text(world.gain, "+.1%"), "gain over a fixed antenna", fixed))
    if oracle is not None:
        best = f"best trajectory: {float(oracle.reward.mean()):.3f}"
        rows.append((number_text(found.regret, ".3f"), f"regret per slot ({RATE})", best))
    if (gain := recorded.gain_over_reference) is not None:
        note = f"ratio of the SNRs, mean of {gain.count} slots"
        rows.append((gain_text(gain), "gain over the reference receiver", note))
    share = facts.transit / facts.slots
    rows += [
        (f"{facts.travel:.1f} λ", "travel", f"{distance_text(facts.travel_mm)} in all"),
        (str(facts.switches), "switches of the target", f"{share:.1%} of the slots in transit"),
        (
            f"{facts.rewards / (facts.slots + facts.missed):.1%}",
            "of the slots have a reward",
            f"{facts.missed} missed, {facts.late_rewards} rewards late",
        ),
        (str(facts.faults), "faults", "of stage, probe or policy"),
    ]
    return tiles(rows)


def _trajectory(recorded: Recorded, found: Reference) -> str:
    note = (
        "The colour is the true reward without noise, in one slot per column: "
        f"{HOW_KNOWN}. The antenna knows only the rewards on its way."
        if found.world is not None
        else "The colour is the mean of the recorded rewards. Elsewhere on the rail the reward is "
        f"unknown: {found.why_no_world}."
    )
    return section("The antenna on the rail", figures.trajectory(recorded, found.world), note=note)


def _rewards(recorded: Recorded, found: Reference) -> str:
    slots = block_slots(recorded.length)
    note = f"Means over {_count(slots, 'slot')}, for the drawing; figures are of all slots."
    if found.world is None:
        note += f" A fixed antenna cannot be shown: {found.why_no_world}."
    elif found.oracle is None:
        note += f" Without the oracle: {found.why_no_oracle}."
    plot = figures.rewards(recorded, found.world, found.oracle)
    return section("Reward over time", plot, note=note)


def _posterior(recorded: Recorded, found: Reference) -> str:
    last = recorded.length - 1
    rows = sorted({round(share * last) for share in _ESTIMATES})
    estimates: list[Estimate] = []
    for row in rows:
        one = estimate_at(recorded, row)
        if isinstance(one, str):
            return section("What the policy knew", paragraph(f"Not shown: {one}."))
        estimates.append(one)
    note = "The estimate of the reward along the rail, from the recorded rewards of the window."
    differing = [str(one.slot) for one in estimates if not one.agrees]
    if differing:
        note += (
            f" In slot {', '.join(differing)} the policy decides otherwise than it is recorded: "
            "an action of the operator, rewards that were withdrawn later, a policy that remembers "
            "more than the window, or another version explains this."
        )
    return section(
        "What the policy knew", figures.posterior(recorded, estimates, found.world), note=note
    )


def _faults(recorded: Recorded) -> str:
    facts = recorded.facts
    parts = []
    if facts.invalid:
        rows = [
            (reason, str(count), f"{count / facts.slots:.2%}", REASONS.get(reason, ""))
            for reason, count in facts.invalid.most_common()
        ]
        heads = ("reason", "slots", "share", "meaning")
        parts.append("<h3>Slots without a reward</h3>" + table(heads, rows, (1, 2)))
    meanings = {str(kind): kind.meaning for kind in EventKind}
    rows_ = [
        (kind, str(count), meanings.get(kind, "")) for kind, count in facts.events.most_common()
    ]
    parts.append("<h3>Events</h3>" + table(("kind", "number", "meaning"), rows_, (1,)))
    parts.append(_event_list(recorded))
    return section("Faults and events", *parts)


def _event_list(recorded: Recorded) -> str:
    """The events one by one, without those that every run has at its start."""
    events = recorded.run.events
    routine = [str(kind) for kind in _ROUTINE]
    chosen = np.flatnonzero(~np.isin(events["kind"], routine))
    begin_s = recorded.header.started_clock_s
    rows = [
        (
            f"{events['time_s'][index] - begin_s:.3f}",
            str(events["slot"][index]),
            str(events["kind"][index]),
            str(events["detail"][index])[:_LONGEST_DETAIL],
        )
        for index in chosen[:_MOST_EVENTS].tolist()
    ]
    if not rows:
        return ""
    shown = f"the first {len(rows)} of " if len(chosen) > len(rows) else ""
    heads = ("time (s)", "slot", "kind", "detail")
    return details(f"List: {shown}{_count(len(chosen), 'event')}", table(heads, rows, (0, 1)))


def _timing(recorded: Recorded) -> str:
    if recorded.header.clock == "virtual":
        why = "The run used a virtual clock (--fast), on which computing takes no time."
        return section("Timing", paragraph(why, "soft"))
    note = (
        "How long each phase of a slot took, over all slots; both axes begin where there is data."
    )
    return section("Timing", figures.timing(recorded), note=note)


def _theory(recorded: Recorded) -> str:
    rows = [_verdict_row(verdict) for verdict in recorded.facts.theory().values()]
    note = "What the paper proves for every run of MoveUCB, checked on the recorded slots."
    heads = ("inequality", "value", "bound", "outcome")
    return section("Theory", table(heads, rows, (1, 2)) if rows else "", note=note)


def _verdict_row(verdict: Verdict) -> tuple[str, str, str, str]:
    outcome = {None: "not applicable", True: "holds", False: "VIOLATED"}[verdict.holds]
    return (
        verdict.statement,
        number_text(verdict.value, ".4g"),
        number_text(verdict.bound, ".4g"),
        outcome,
    )


def _background(recorded: Recorded) -> list[str]:
    """What the run was: its configuration, the bench, the versions."""
    return [
        section("Configuration", _configuration(recorded)),
        section("Origin", _origin(recorded)),
    ]


def _configuration(recorded: Recorded) -> str:
    config, origins = recorded.config, recorded.header.origins
    changed = differing_keys(config, load_config())
    rows = []
    for path, value in values_of(config):
        origin = "unknown" if origins is None else origins.get(path, DEFAULT)
        rows.append((path, str(value), origin))
    heads = ("setting", "value", "origin")
    own = [row for row in rows if _short(row[0]) in changed]
    note = "Settings that differ from the preset paper:" if own else ""
    if not own:
        note = "All settings are those of the preset paper."
    if origins is None:
        note = f"The file does not record where the values were set. {note}"
    return (
        paragraph(note, "soft")
        + (_foldable(table(heads, own), len(own)) if own else "")
        + details(f"All {len(rows)} settings", table(heads, rows))
    )


def _foldable(content: str, rows: int) -> str:
    """A table, folded if it is long."""
    return content if rows <= _LONGEST_TABLE else details(f"{rows} settings", content)


def _short(path: str) -> str:
    """The section and the key of a setting, without the table of its driver."""
    section_, *_, key = path.split(".")
    return f"{section_}.{key}"


def _origin(recorded: Recorded) -> str:
    header, run = recorded.header, recorded.run
    identity = ", ".join(f"{name}: {value}" for name, value in (header.identity or {}).items())
    rows = [
        ("run file", str(recorded.path)),
        ("bench", f"{header.backend}, {header.stage}"),
        ("identity of the bench", identity or "unknown"),
        ("seed", str(run.seed)),
        ("continues", header.resumed_from or "no earlier run"),
        ("clock", header.clock),
        ("recorded on", f"{header.host or 'unknown'}, process {header.pid}"),
        ("macontrol", header.version),
        (
            "Python, NumPy, SciPy, SQLite",
            ", ".join(
                part or "unknown"
                for part in (header.python, header.numpy, header.scipy, header.sqlite)
            ),
        ),
    ]
    return table(("", ""), rows)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
