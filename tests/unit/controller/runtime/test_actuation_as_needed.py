"""A slot that moves only when it pays: its measurement, its reward, what the policy learns."""

from __future__ import annotations

from itertools import pairwise
from math import log2, nan

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.config.model.reward import Snr
from macontrol.controller.policies.policy import Decision
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.events import EventKind
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.survey.samples import Survey
from macontrol.hal import Arrival, Measurement
from macontrol.sim.bench.simulated import SimulatedBench
from support.scripted_bench import Kept, ScriptedBench, ScriptedPolicy, ScriptedProbe, ScriptedStage

LATENCY_S, SETTLING_S, SPEED = 1e-4, 2e-4, 0.6
"""Of the actuator in these tests, which has its full speed (m/s) at once."""


@pytest.fixture
def bench(paper: Config) -> ScriptedBench:
    config = paper.replace(
        physical__actuation="as-needed",
        physical__command_latency_s=LATENCY_S,
        physical__settling_s=SETTLING_S,
        physical__stroke="auto",
    )
    return ScriptedBench(config)


def to(position: float) -> Decision:
    return Decision(position, position, False, False, nan)


def steps(bench: ScriptedBench, *sizes: float) -> None:
    """Let the policy move by these distances, from slot 2 on, and hold afterwards."""
    for slot in range(1, 60):
        size = sizes[slot - 1] if slot <= len(sizes) else 0.0

        def decide(_: ScriptedPolicy, slot: int, position: float, size: float = size) -> Decision:
            return to(position + size)

        bench.policy.decides[slot] = decide


def planned_s(bench: ScriptedBench, distance: float) -> float:
    return LATENCY_S + SETTLING_S + distance * bench.wavelength_mm * 1e-3 / SPEED


def exact(stage: ScriptedStage, position_mm: float, deadline_s: float) -> Arrival | None:
    """Arrive as planned."""
    way_s = abs(position_mm - stage._from_mm) * 1e-3 / SPEED
    stage.arrives_s = stage.clock.now() + LATENCY_S + way_s + SETTLING_S
    return None


def too_late(stage: ScriptedStage, position_mm: float, deadline_s: float) -> Arrival | None:
    stage.arrives_s = stage.clock.now() + 1.3e-3
    return None


def test_the_measurement_begins_when_the_move_is_over(bench: ScriptedBench) -> None:
    steps(bench, 0.01, 0.0, 0.03, 0.02)
    bench.stage.moves.update(dict.fromkeys(range(1, 9), exact))
    kept = bench.run(8)
    guard_s = bench.config.timing.guard_share * bench.slot_s
    found = {slot: (begin, end) for slot, begin, end in bench.probe.requests}
    for slot, distance in [(1, 0), (2, 0.01), (3, 0), (4, 0.03), (5, 0.02), (6, 0), (7, 0)]:
        record = kept.slot(slot)
        spent_s = planned_s(bench, distance) if distance else 0.0
        assert found[slot][0] - record.start_s == pytest.approx(spent_s + guard_s)
        assert found[slot][1] - record.start_s == pytest.approx(bench.slot_s * 0.9)
        assert record.transmission_share == pytest.approx(1 - spent_s / bench.slot_s)
        assert record.start_s + record.actuate_s <= found[slot][0]
        assert (record.commanded is not None) == (distance > 0)


def test_the_reward_counts_the_part_that_the_move_leaves_and_the_policy_learns_all_of_it(
    bench: ScriptedBench,
) -> None:
    def measure(probe: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
        return [Measurement(one.slot, Snr(7.0, 0.4)) for one in ready]

    steps(bench, 0.01, 0.0, 0.03)
    bench.probe.collects.update(dict.fromkeys(range(1, 9), measure))
    kept = bench.run(8)
    for slot, distance in [(1, 0), (2, 0.01), (3, 0), (4, 0.03), (5, 0)]:
        share = 1 - planned_s(bench, distance) / bench.slot_s if distance else 1.0
        record = kept.slot(slot)
        assert record.reward == pytest.approx(share * log2(1 + 7.0))
        assert record.uncertainty == pytest.approx(share * 0.4 / 8 / np.log(2))
        assert record.snr_db == pytest.approx(10 * np.log10(7.0))
    assert [reward for _, _, reward in bench.policy.seen] == pytest.approx([3.0] * 8)


def test_a_move_that_takes_longer_than_planned_costs_the_time_that_it_took(
    bench: ScriptedBench,
) -> None:
    steps(bench, 0.01)
    bench.stage.delay_s = 9e-4
    kept = bench.run(4)
    record, guard_s = kept.slot(2), bench.config.timing.guard_share * bench.slot_s
    assert (record.on_time, record.invalid) == (True, None)
    assert record.transmission_share == pytest.approx(1 - (9e-4 - guard_s) / bench.slot_s)
    (begin,) = [begin for slot, begin, _ in bench.probe.requests if slot == 2]
    assert begin - record.start_s == pytest.approx(9e-4)
    assert not kept.events()


def test_an_arrival_after_t_a_is_late_as_with_fixed_actuation(bench: ScriptedBench) -> None:
    steps(bench, 0.01)
    bench.stage.moves[1] = too_late
    kept = bench.run(4)
    record = kept.slot(2)
    assert (record.on_time, record.invalid, record.reward) == (False, "late-arrival", None)
    assert record.transmission_share == pytest.approx(0.8)
    assert [event.kind for event in kept.events()] == [EventKind.LATE_ARRIVAL]


def test_a_refused_command_is_no_move(bench: ScriptedBench) -> None:
    steps(bench, 1.0)
    kept = bench.run(4)
    assert [event.kind for event in kept.events()] == [EventKind.REFUSED]
    record = kept.slot(2)
    assert (record.commanded, record.transmission_share) == (None, 1.0)
    assert record.reward == 0.002


def test_a_late_reward_is_that_of_its_own_slot(bench: ScriptedBench) -> None:
    taken: list[Measurement] = []

    def take(probe: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
        taken.extend(ready)
        return []

    steps(bench, 0.03)
    bench.probe.collects[2] = take
    bench.probe.collects[5] = lambda probe, ready: [*taken, *ready]
    kept = bench.run(8)
    (late,) = kept.late_rewards
    share = 1 - planned_s(bench, 0.03) / bench.slot_s
    assert kept.slot(2).transmission_share == pytest.approx(share)
    assert late.slot == 2
    assert late.reward == pytest.approx(share * 0.002)
    assert late.uncertainty == pytest.approx(share * 0.1)
    assert (2, kept.slot(2).position, 0.002) in bench.policy.seen
    rewards = [late.reward or 0.0, *(record.reward or 0.0 for record in kept.slots)]
    assert bench.tally.reward_sum == pytest.approx(sum(rewards))


def test_no_command_exceeds_a_stroke_on_the_lab_bench() -> None:
    config = load_config(preset="lab-5g8-zaber", assignments=["physical.actuation=as-needed"])
    clock, kept = VirtualClock(), Kept()
    world = SimulatedBench(config, clock, seed=3)
    positions = np.array(config.survey_positions)
    rewards = world.prior_survey(config.physical.to_mm(positions).tolist())
    policy = make_policy(config, Survey(positions, np.array(list(rewards))))
    loop = SlotLoop(config, policy, Guard.of(config, world.stage), world.probe, clock, kept)
    loop.approach(policy.start_position)
    loop.run(slots=300)
    records, plan = kept.slots, config.physical.actuation_plan
    assert sum(record.commanded is not None for record in records) > 10
    for before, after in pairwise(records):
        step = abs(after.position - before.position)
        assert step <= config.physical.rho_max + 1e-9
        assert after.transmission_share == pytest.approx(plan.share(plan.time_s(step)), abs=1e-9)
    assert not kept.events()
