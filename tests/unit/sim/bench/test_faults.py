"""Injected faults: the same for the same seed, each reported as an event, none out of reach."""

from __future__ import annotations

import gc
import os
import resource
from collections import Counter
from dataclasses import dataclass, field
from math import isnan

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.errors import ProbeError, StageError
from macontrol.config.model.reward import Reward
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.records import (
    Event,
    Item,
    LateReward,
    Recorder,
    SlotRecord,
)
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.survey.samples import Survey
from macontrol.hal import Measurement
from macontrol.hal.probe import CLIPPING
from macontrol.sim.bench.faults import FaultPlan, FaultyBackend, FaultyProbe, FaultyStage
from macontrol.sim.bench.simulated import SimulatedBench
from support.watched_stage import WatchedStage

# A soak of a million slots takes a few minutes: MACONTROL_SOAK_SLOTS=1000000.
SOAK_SLOTS = int(os.environ.get("MACONTROL_SOAK_SLOTS", "30000"))


@dataclass
class Counted(Recorder):
    """Counts records instead of keeping them, and checks their order.

    A late reward completes a row that was submitted before without a reward.
    """

    rows: int = 0
    last_slot: int = 0
    rewards: int = 0
    late: int = 0
    events: Counter[str] = field(default_factory=Counter)
    open_rows: set[int] = field(default_factory=set)

    def submit(self, item: Item) -> None:
        if isinstance(item, SlotRecord):
            assert item.slot == self.last_slot + 1
            self.rows, self.last_slot = self.rows + 1, item.slot
            assert (item.reward is None) == (item.invalid is not None)
            if item.reward is None:
                self.open_rows.add(item.slot)
                self.open_rows.discard(item.slot - 1000)
            else:
                self.rewards += 1
        elif isinstance(item, LateReward):
            self.open_rows.remove(item.slot)
            assert (item.reward is None) == (item.invalid is not None)
            self.late += item.reward is not None
        elif isinstance(item, Event):
            self.events[item.kind] += 1


@dataclass
class Soak:
    tally: Tally
    counted: Counted
    plan: FaultPlan
    stage: WatchedStage


def soak(config: Config, *, slots: int, seed: int, rate: float) -> Soak:
    clock, counted = VirtualClock(), Counted()
    physical, wavelength_mm = config.physical, config.physical.wavelength_mm
    bench = SimulatedBench(config, clock, seed=config.run.seed)
    plan = FaultPlan(seed, rate)
    faulty = FaultyBackend(bench, plan, clock)
    region_mm, stroke_mm = physical.region_length * wavelength_mm, physical.rho_max * wavelength_mm
    watched = WatchedStage(faulty.stage, region_mm=region_mm, stroke_mm=stroke_mm)
    positions = np.array(config.survey_positions)
    rewards = bench.prior_survey([float(x) * wavelength_mm for x in positions])
    policy = make_policy(config, Survey(positions, np.asarray(rewards)))
    guard = Guard(watched, region_mm=region_mm, stroke_mm=stroke_mm)
    loop = SlotLoop(config, policy, guard, faulty.probe, clock, counted)
    loop.approach(policy.start_position)
    loop.run(slots=slots)
    return Soak(loop.tally, counted, plan, watched)


def check(outcome: Soak, slots: int) -> None:
    tally, counted, injected = outcome.tally, outcome.counted, outcome.plan.injected
    assert outcome.stage.objections == []
    assert counted.rows == tally.slots == slots
    assert tally.rewards == counted.rewards + counted.late
    assert {kind: counted.events[kind] for kind in injected} == dict(injected)
    assert tally.late_arrivals == injected["late-arrival"]
    assert tally.late_rewards == injected["late-reward"]
    assert tally.stage_faults == injected["stage-fault"]
    assert tally.probe_faults == injected["probe-fault"]
    assert tally.invalid == injected["invalid-measurement"]
    assert counted.events["refused-command"] == tally.refused
    assert tally.missed == tally.late_decisions == 0
    assert tally.lowest >= 0
    assert tally.highest <= 6


@pytest.mark.timeout(3600)
def test_a_soak_with_faults(paper: Config) -> None:
    """No command out of reach, no lost record, an event for every fault, constant memory."""
    soak(paper, slots=1000, seed=1, rate=0.01)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = soak(paper, slots=SOAK_SLOTS, seed=2, rate=0.01)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{SOAK_SLOTS} slots, {outcome.stage.commands} commands, grown by {grown_kib} KiB")
    print(dict(outcome.plan.injected))
    check(outcome, SOAK_SLOTS)
    assert outcome.plan.injected.total() > SOAK_SLOTS / 100
    assert outcome.stage.commands > SOAK_SLOTS / 50
    assert grown_kib < 20_000


@pytest.mark.parametrize(
    ("policy", "step_mm", "rate"),
    [
        ("epsilon-greedy", "ideal", 0.3),
        ("sweep-and-hold", "ideal", 0.05),
        ("sweep-and-hold", 0.0125, 0.2),
        ("gp-ucb", 0.05, 0.1),
        ("moveucb", 0.0125, 0.5),
    ],
)
def test_every_fault_has_its_event_at_any_rate(
    paper: Config, policy: str, step_mm: float | str, rate: float
) -> None:
    config = paper.replace(
        algorithm__policy=policy, physical__step_mm=step_mm, algorithm__sweep_period=200
    )
    outcome = soak(config, slots=1500, seed=4, rate=rate)
    check(outcome, 1500)
    assert set(outcome.plan.injected) == {
        "stage-fault",
        "late-arrival",
        "late-reward",
        "probe-fault",
        "invalid-measurement",
    }


def test_the_same_seed_makes_the_same_faults(paper: Config) -> None:
    first, again, other = (soak(paper, slots=600, seed=seed, rate=0.1) for seed in (1, 1, 2))
    assert first.plan.injected == again.plan.injected != other.plan.injected
    assert first.counted.events == again.counted.events


def test_a_rate_of_zero_injects_nothing(paper: Config) -> None:
    outcome = soak(paper, slots=300, seed=1, rate=0.0)
    assert not outcome.plan.injected
    assert not outcome.counted.events


class OneKind(FaultPlan):
    """A plan that always injects the same kind of fault."""

    def __init__(self, kind: str) -> None:
        super().__init__(0, 1.0)
        self.kind = kind

    def draw(self, *kinds: str) -> str | None:
        return self.kind if self.kind in kinds else None


@pytest.mark.parametrize("kind", ["silent", "slow", "lost steps", "garbage", "other"])
def test_the_faults_of_a_stage(paper: Config, kind: str) -> None:
    clock, plan = VirtualClock(), OneKind(kind)
    stage = FaultyStage(SimulatedBench(paper, clock, seed=1).stage, plan, clock)
    begin = 3 * paper.physical.wavelength_mm
    assert stage.description.name == "sim"
    if kind == "silent":
        with pytest.raises(StageError):
            stage.move_to(begin + 0.6, 0.01)
        with pytest.raises(StageError):
            stage.where(0.01)
        assert plan.injected == {"stage-fault": 2}
        return
    arrival = stage.move_to(begin + 0.6, 0.01)
    if kind == "slow":
        assert (arrival.arrived, clock.now()) == (False, 0.01)
        assert plan.injected == {"late-arrival": 1}
    elif kind == "lost steps":
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(begin + 0.3)
        assert stage.where(0.02) == arrival
        assert plan.injected == {"stage-fault": 1}
    elif kind == "garbage":
        assert isnan(arrival.position_mm)
        assert plan.injected == {"stage-fault": 1}
    else:
        assert arrival.arrived
        assert not plan.injected
    stage.recover(1.0, lambda: True)
    stage.stop()
    stage.close()


def test_steps_within_the_tolerance_are_not_lost(paper: Config) -> None:
    clock, plan = VirtualClock(), OneKind("lost steps")
    stage = FaultyStage(SimulatedBench(paper, clock, seed=1).stage, plan, clock)
    begin = 3 * paper.physical.wavelength_mm
    assert stage.move_to(begin + 0.002, 0.01).position_mm == begin + 0.002
    assert not plan.injected


class Source:
    """A probe that is ready at once."""

    def __init__(self) -> None:
        self.ready: list[Measurement] = []

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self.ready.append(Measurement(slot, Reward(1.0)))

    def collect(self, deadline_s: float) -> list[Measurement]:
        ready, self.ready = self.ready, []
        return ready

    def close(self) -> None: ...


@pytest.mark.parametrize(("kind", "valid"), [(CLIPPING, False), ("nan", True)])
def test_a_faulty_probe_returns_invalid_measurements(kind: str, valid: bool) -> None:
    plan = OneKind(kind)
    probe = FaultyProbe(Source(), plan)
    probe.request(1, 0.0, 1.0)
    (measurement,) = probe.collect(1.0)
    assert (measurement.slot, measurement.valid) == (1, valid)
    assert measurement.value is None or isnan(measurement.value.reward(1.0)[0])
    assert plan.injected == {"invalid-measurement": 1}


@pytest.mark.parametrize(("kind", "event"), [("late", None), ("silent", "probe-fault")])
def test_a_faulty_probe_delays_measurements_and_loses_none(kind: str, event: str | None) -> None:
    plan = OneKind(kind)
    probe = FaultyProbe(Source(), plan)
    probe.request(1, 0.0, 1.0)
    if kind == "silent":
        with pytest.raises(ProbeError):
            probe.collect(1.0)
    else:
        assert probe.collect(1.0) == []
    plan.kind = "none"
    arrived = [measurement.slot for _ in range(10) for measurement in probe.collect(1.0)]
    assert arrived == [1]
    expected = {"late-reward": 1} | ({event: 1} if event else {})
    assert plan.injected == expected
