"""The whole loop with a bench and a policy that do anything at all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf, isfinite, nan
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macontrol.config import Config
from macontrol.config.model.errors import ProbeError, StageError, StageLostError
from macontrol.config.model.reward import Reward
from macontrol.controller.policies.policy import Decision
from macontrol.controller.recording.records import EventKind
from macontrol.controller.runtime.approach import Approach
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.hal import Arrival, Measurement
from macontrol.sim.bench.simulated import describe
from support.scripted_bench import Kept, ScriptedClock, ScriptedPolicy, ScriptedProbe, ScriptedStage
from support.watched_stage import WatchedStage

# Loops to try, 150 slots each.
EXAMPLES = int(os.environ.get("MACONTROL_LOOP_EXAMPLES", "60"))
SLOTS = 150
ODD = [nan, inf, -inf, 1e308, -1e308, 1e9, -1e9, 0.0, -0.0, 6.0, 6.0000001, -1e-7, 5e-324]


@pytest.fixture(scope="module", autouse=True)
def _endless_patience() -> Iterator[None]:
    """Here a stage may be lost any number of times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("macontrol.controller.runtime.recovery._OFTEN_WITHIN_S", 0.0)
        yield


class Chaos:
    """Random faults: a clock that stalls, a stage, a probe and a policy with wrong results."""

    def __init__(self, rng: Random, rate: float, config: Config) -> None:
        self.rng, self.rate = rng, rate
        self.slot_s = config.physical.slot_duration_s
        self.strikes = 0

    def struck(self) -> bool:
        hit = self.rng.random() < self.rate
        self.strikes += hit
        return hit

    def stall(self, clock: ScriptedClock) -> None:
        if self.struck():
            clock.lose(self.rng.choice([1e-5, 1e-3, 0.3, 1.0, 2.7, 40.0]) * self.slot_s)


class ChaoticStage(ScriptedStage):
    chaos: Chaos
    on_move: Callable[[], None]

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        self.on_move()
        self.delay_s = 5e-4
        if self.chaos.struck():
            self.delay_s = self.chaos.rng.choice([1e-3, 2e-3, 0.01, 0.05])
        return self._garble(super().move_to(position_mm, deadline_s))

    def where(self, deadline_s: float) -> Arrival:
        return self._garble(super().where(deadline_s))

    @property
    def homing_is_due(self) -> bool:
        return self.chaos.struck()

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self.chaos.stall(self.clock)
        if self.chaos.struck():
            raise StageLostError("chaos")
        super().recover(deadline_s, keep_on)

    def _garble(self, arrival: Arrival) -> Arrival:
        rng = self.chaos.rng
        self.chaos.stall(self.clock)
        if not self.chaos.struck():
            return arrival
        kind = rng.randrange(5)
        if kind == 0:
            raise rng.choice([StageError, StageLostError])("chaos")
        if kind == 1:  # it really is elsewhere
            self.position_mm = rng.uniform(-1.0, 61.0)
            return self.report()
        reported = rng.choice(
            [*ODD, rng.uniform(-10, 70), arrival.position_mm + rng.gauss(0, 0.01)]
        )
        return Arrival(reported, rng.random() < 0.7, rng.choice([arrival.time_s, 0.0, inf, nan]))


class MovesInSlots:
    """Counts the commands to the stage in each slot; an approach is outside the slots."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._in_slot = True
        self._moves: Counter[int] = Counter()

    def count(self) -> None:
        if self._in_slot:
            self._moves[len(self._kept.slots)] += 1

    def leave_out(self, approach: Approach) -> None:
        run = approach.run

        def run_outside(position: float) -> float:
            self._in_slot = False
            reported = run(position)
            self._in_slot = True
            return reported

        setattr(approach, "run", run_outside)  # noqa: B010 - mypy: a method

    def of_slots(self, count: int) -> list[int]:
        return [self._moves[slot] for slot in range(count)]


class ChaoticProbe(ScriptedProbe):
    chaos: Chaos

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        if self.chaos.struck():
            raise ProbeError("chaos")
        super().request(slot, start_s, end_s)

    def collect(self, deadline_s: float) -> list[Measurement]:
        rng = self.chaos.rng
        ready = list(super().collect(deadline_s))
        self.chaos.stall(self.clock)
        if not self.chaos.struck():
            return ready
        kind = rng.randrange(5)
        if kind == 0:
            raise ProbeError("chaos")
        if kind == 1:
            self.held += ready
            return []
        if kind == 2:
            return [*ready, *ready, Measurement(rng.randrange(-5, 1000), Reward(1.0))]
        if kind == 3:
            return ready[::-1][: rng.randrange(3)]
        return [
            Measurement(m.slot, Reward(rng.choice(ODD)) if rng.random() < 0.7 else None)
            for m in ready
        ]


class ChaoticPolicy(ScriptedPolicy):
    chaos: Chaos

    def decide(self, slot: int, position: float) -> Decision:
        rng = self.chaos.rng
        self.chaos.stall(self.clock)
        usual = super().decide(slot, position)
        if not self.chaos.struck():
            return usual
        near = position + self.stroke * rng.uniform(-2, 2)
        wanted = rng.choice([*ODD, rng.uniform(-1, 7), near])
        target, shortfall = rng.choice([wanted, *ODD]), rng.choice(ODD)
        return Decision(target, wanted, rng.random() < 0.5, False, shortfall)


@pytest.mark.fault("guard")
@settings(max_examples=EXAMPLES)
@given(
    seed=st.integers(0, 2**32),
    rate=st.sampled_from([0.0, 0.02, 0.1, 0.5]),
    step_mm=st.sampled_from([0.0, 0.0125, 1 / 160]),
    actuation=st.sampled_from(["fixed", "as-needed"]),
)
def test_whatever_happens(
    paper: Config, seed: int, rate: float, step_mm: float, actuation: str
) -> None:
    config = paper.replace(
        timing__fault_patience_s=1e6,
        physical__step_mm=step_mm or "ideal",
        physical__actuation=actuation,
        algorithm__window=20,
    )
    chaos, clock, kept = Chaos(Random(seed), rate, config), ScriptedClock(), Kept()
    wavelength_mm, slot_s = config.physical.wavelength_mm, config.physical.slot_duration_s
    limits = {
        "region_mm": config.physical.region_length * wavelength_mm,
        "stroke_mm": config.physical.rho_max * wavelength_mm,
    }
    stage = ChaoticStage(clock, describe(config.physical, "chaos"), 3.0 * wavelength_mm)
    probe, policy = ChaoticProbe(clock), ChaoticPolicy(config, clock)
    stage.chaos = probe.chaos = policy.chaos = chaos
    watched = WatchedStage(stage, **limits)
    loop = SlotLoop(config, policy, Guard(watched, **limits), probe, clock, kept)
    moves = MovesInSlots(kept)
    stage.on_move = moves.count
    moves.leave_out(loop._actuation._approach)
    loop.approach(3.0)
    loop.run(slots=SLOTS)

    tally, records = loop.tally, kept.slots
    assert watched.objections == []
    # One record per slot, at its boundary, numbered by time; every other slot was missed.
    assert len(records) == tally.slots == SLOTS
    for before, after in pairwise(records):
        assert after.slot > before.slot
        gap = (after.start_s - before.start_s) / slot_s
        assert gap == pytest.approx(after.slot - before.slot, abs=1e-3)
    missed = [
        event.slot + offset
        for event in kept.events(EventKind.MISSED)
        for offset in range(int(event.value or 0))
    ]
    assert len(missed) == tally.missed
    run = [record.slot for record in records]
    assert sorted(run + missed) == list(range(1, SLOTS + len(missed) + 1))
    assert max(run + missed) == run[-1] or tally.late_decisions
    # A slot has a reward or a reason; the policy observes the rewards and nothing else.
    late = {item.slot for item in kept.late_rewards}
    for record in records:
        assert (record.reward is None) == (record.invalid is not None)
        assert record.on_time or record.reward is None
        assert isfinite(record.position)
    measured = {record.slot for record in records if record.reward is not None} | late
    observed = [slot for slot, *_ in policy.seen]
    assert sorted(observed) == sorted(measured)
    assert all(0 <= x <= 6 and abs(reward) < 1e4 for _, x, reward in policy.seen)
    # The measurement begins after the arrival, and no slot spends more than T_a on its move.
    of_slot = {record.slot: record for record in records}
    for slot, begin_s, end_s in probe.requests:
        assert of_slot[slot].start_s + of_slot[slot].actuate_s <= begin_s + 1e-9
        assert end_s == pytest.approx(of_slot[slot].start_s + loop.timing.measure_end_s)
    shares = [record.transmission_share for record in records if record.transmission_share]
    assert len(shares) == SLOTS
    assert min(shares) >= 0.8 - 1e-12
    assert max(shares) <= (1.0 if actuation == "as-needed" else 0.8)
    # The statistics agree with the events.
    for kind, count in (
        (EventKind.REFUSED, tally.refused),
        (EventKind.STAGE_FAULT, tally.stage_faults),
        (EventKind.PROBE_FAULT, tally.probe_faults),
        (EventKind.LATE_ARRIVAL, tally.late_arrivals),
        (EventKind.LATE_REWARD, tally.late_rewards),
        (EventKind.LATE_DECISION, tally.late_decisions),
        (EventKind.INVALID, tally.invalid),
    ):
        assert len(kept.events(kind)) == count
    if rate == 0:
        assert not kept.events()
    # A slot sends at most one command, which its record has; all others are approaches.
    assert moves.of_slots(SLOTS) == [int(record.commanded is not None) for record in records]
    if rate == 0:
        assert moves.of_slots(SLOTS) == [0] + [1] * (SLOTS - 1)  # it is at its start
