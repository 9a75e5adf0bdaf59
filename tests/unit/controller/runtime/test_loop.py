"""The slot loop on a virtual clock, with scripted delays, failures and wrong reports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from math import inf, log10, nan
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.config import Config, load_config
from macontrol.config.model.errors import (
    HardwareError,
    ProbeError,
    StageBrokenError,
    StageError,
    StageLostError,
)
from macontrol.config.model.reward import Reward
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.events import EventKind, InvalidReason
from macontrol.controller.recording.records import LateReward
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.runtime.steering import Hold
from macontrol.controller.survey.samples import Survey
from macontrol.hal import Arrival, Measurement, Probe
from macontrol.hal.probe import Signal
from macontrol.sim.bench.simulated import SimulatedBench
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import simulate_map
from support.scripted_bench import (
    CollectScript,
    Kept,
    ScriptedBench,
    ScriptedPolicy,
    ScriptedProbe,
    ScriptedStage,
)


@pytest.fixture
def bench(paper: Config) -> ScriptedBench:
    return ScriptedBench(paper)


@pytest.fixture
def impatient(paper: Config) -> ScriptedBench:
    return ScriptedBench(paper.replace(timing__fault_patience_s=2.0))


def take_away(into: list[Measurement]) -> CollectScript:
    def script(probe: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
        into.extend(ready)
        return []

    return script


class LateProbe:
    """A probe whose measurements of some slots come in the next one."""

    def __init__(self, probe: Probe, is_late: NDArray[np.bool_]) -> None:
        self._probe = probe
        self._is_late = is_late
        self._held: list[Measurement] = []
        self.request, self.close = probe.request, probe.close

    def collect(self, deadline_s: float) -> list[Measurement]:
        held, self._held = self._held, []
        for measurement in self._probe.collect(deadline_s):
            (self._held if self._is_late[measurement.slot - 1] else held).append(measurement)
        return held


def simulated(
    config: Config,
    slots: int,
    *,
    clock: VirtualClock | None = None,
    late: NDArray[np.bool_] | None = None,
) -> Kept:
    """The same loop on the simulated bench, as `--fast` runs it."""
    clock, kept, wavelength_mm = clock or VirtualClock(), Kept(), config.physical.wavelength_mm
    world = SimulatedBench(config, clock, seed=config.run.seed)
    positions = np.array(config.survey_positions)
    rewards = world.prior_survey([float(x) * wavelength_mm for x in positions])
    policy = make_policy(config, Survey(positions, np.asarray(rewards)))
    guard = Guard.of(config, world.stage)
    probe = world.probe if late is None else LateProbe(world.probe, late)
    loop = SlotLoop(config, policy, guard, probe, clock, kept)
    loop.approach(policy.start_position)
    loop.run(slots=slots)
    return kept


class TestAsPublished:
    """Without delays the loop is Algorithm 1 on the paper's world."""

    @pytest.mark.parametrize("actuation", ["fixed", "as-needed"])
    @pytest.mark.parametrize(
        "policy", ["moveucb", "gp-ucb", "sweep-and-hold", "epsilon-greedy", "fixed"]
    )
    def test_the_loop_decides_the_same_as_replay_in_every_slot(
        self, paper: Config, policy: str, actuation: str
    ) -> None:
        config = paper.replace(
            algorithm__policy=policy,
            algorithm__sweep_period=200,
            physical__actuation=actuation,
            run__seed=5,
        )
        slots = 500
        episode = play(config, simulate_map(config, seed=5, slots=slots), seed=5)
        records = simulated(config, slots).slots
        rewards = [nan if r.reward is None else r.reward for r in records]
        assert [r.slot for r in records] == list(range(1, slots + 1))
        np.testing.assert_allclose(
            [r.position for r in records], episode.trajectory.position, atol=1e-9
        )
        np.testing.assert_allclose(
            [r.target for r in records], episode.trajectory.target, atol=1e-9
        )
        np.testing.assert_allclose(rewards, episode.observed, atol=1e-9)

    @pytest.mark.parametrize("share", [0.5, 1.0])
    def test_replay_with_late_rewards_decides_the_same_as_the_loop(
        self, paper: Config, share: float
    ) -> None:
        config, slots = paper.replace(run__seed=5), 500
        late = np.random.default_rng(1).random(slots) < share
        episode = play(config, simulate_map(config, seed=5, slots=slots), seed=5, late=late)
        records = simulated(config, slots, late=late).slots
        np.testing.assert_allclose(
            [r.position for r in records], episode.trajectory.position, atol=1e-9
        )
        prompt = play(config, simulate_map(config, seed=5, slots=slots), seed=5)
        assert (episode.trajectory.position != prompt.trajectory.position).any()

    def test_a_step_actuator_follows_within_a_step(self, paper: Config) -> None:
        config = paper.replace(physical__step_mm=0.0125)
        step = 0.0125 / config.physical.wavelength_mm
        records = simulated(config, 300).slots
        commanded = [r.commanded for r in records if r.commanded is not None]
        assert commanded
        np.testing.assert_allclose(np.round(np.array(commanded) / step) * step, commanded)
        assert all(r.on_time and r.reward is not None for r in records)
        for before, after in pairwise(records):
            assert abs(after.position - before.next_position) <= step + 1e-9


class TestTime:
    """Absolute deadlines, phases in order, slots numbered by time."""

    def test_slots_begin_on_multiples_of_the_slot_and_do_not_drift(
        self, bench: ScriptedBench
    ) -> None:
        records = bench.run(2000).slots
        first = records[0].start_s
        for number, record in enumerate(records):
            assert record.start_s == first + number * bench.slot_s

    def test_the_probe_measures_between_actuation_and_decision(self, bench: ScriptedBench) -> None:
        timing, physical = bench.config.timing, bench.config.physical
        records = bench.run(5).slots
        for record, (slot, begin, end) in zip(records, bench.probe.requests, strict=True):
            assert slot == record.slot
            assert begin - record.start_s == pytest.approx(
                physical.actuation_time_s + timing.guard_share * bench.slot_s
            )
            assert end - record.start_s == pytest.approx(bench.slot_s * (1 - timing.decision_share))

    @pytest.mark.fault("real-time-refused")
    @pytest.mark.parametrize(
        ("reserved_s", "kept_s"),
        [(1e-4, 5e-4), (1.5e-3, 1.5e-3), (1.0, 1.95e-3)],  # at most half of what T_a leaves
    )
    def test_time_reserved_to_decide_shortens_the_measurement_and_nothing_else(
        self, bench: ScriptedBench, reserved_s: float, kept_s: float
    ) -> None:
        bench.loop.reserve_decision(reserved_s)
        timing = bench.loop.timing
        assert timing.actuation_end_s == pytest.approx(1.1e-3)
        assert timing.decide_s == pytest.approx(kept_s)
        assert timing.measure_s == pytest.approx(bench.slot_s - 1.1e-3 - kept_s)
        records = bench.run(3).slots
        for record, (_, begin, end) in zip(records, bench.probe.requests, strict=True):
            assert begin - record.start_s == pytest.approx(timing.actuation_end_s)
            assert end - begin == pytest.approx(timing.measure_s)

    def test_every_phase_is_measured(self, bench: ScriptedBench) -> None:
        def slowly(policy: ScriptedPolicy, slot: int, position: float) -> float:
            policy.clock.lose(3e-4)
            return position

        bench.policy.decides[2] = slowly
        record = bench.run(3).slot(2)
        assert record.wake_s == pytest.approx(0.0, abs=1e-9)
        assert record.actuate_s == pytest.approx(5e-4)
        assert record.measure_s == pytest.approx(3.4e-3)
        assert record.decide_s == pytest.approx(3e-4)
        assert bench.tally.decide.largest == pytest.approx(3e-4)

    @pytest.mark.parametrize(
        ("late_slots", "missed"), [(0.05, 0), (0.3, 1), (1.0, 1), (2.7, 3), (1000.4, 1001)]
    )
    def test_a_late_decision_holds_and_skips_to_the_next_boundary(
        self, bench: ScriptedBench, late_slots: float, missed: int
    ) -> None:
        def slowly(policy: ScriptedPolicy, slot: int, position: float) -> float:
            policy.clock.lose(late_slots * bench.slot_s)
            return position + policy.stroke

        bench.policy.decides[3] = slowly
        kept = bench.run(6)
        numbers = [record.slot for record in kept.slots]
        assert numbers == [1, 2, 3, *range(4 + missed, 7 + missed)]
        after = kept.slot(4 + missed)
        assert after.start_s == pytest.approx(kept.slots[0].start_s + (3 + missed) * bench.slot_s)
        assert after.wake_s == pytest.approx(0.0, abs=1e-9)
        # What was decided late is done at that boundary: until then the antenna holds.
        assert after.position == pytest.approx(kept.slot(3).next_position)
        assert len(bench.stage.commands) == 5
        assert bench.tally.missed == missed
        assert bench.tally.late_decisions == (missed > 0)
        events = kept.events(EventKind.MISSED)
        assert [event.value for event in events] == ([missed] if missed else [])
        assert len(kept.events(EventKind.LATE_DECISION)) == (missed > 0)

    @pytest.mark.parametrize("stall_slots", [0.25, 0.9, 3.5, 1000.2, 1_000_000.5])
    def test_after_a_stall_the_loop_resynchronises_without_a_burst(
        self, bench: ScriptedBench, stall_slots: float
    ) -> None:
        begin = bench.clock.now() + 5 * bench.slot_s  # the boundary of slot 5
        bench.clock.stalls[begin - 1e-9] = stall_slots * bench.slot_s
        kept = bench.run(8)
        starts = [record.start_s for record in kept.slots]
        assert min(np.diff(starts)) >= bench.slot_s * (1 - 1e-6)
        assert all(record.wake_s < 1e-6 for record in kept.slots)
        missed = int(stall_slots) + 1
        assert bench.tally.missed == missed
        assert [event.value for event in kept.events(EventKind.MISSED)] == [missed]
        assert [r.slot for r in kept.slots] == [1, 2, 3, 4, *range(5 + missed, 9 + missed)]
        # The position decided before the stall is still good: the stage has not moved since.
        assert kept.slot(5 + missed).position == pytest.approx(kept.slot(4).next_position)
        assert not kept.events(EventKind.REFUSED)

    def test_a_stall_in_the_middle_of_a_slot_is_a_late_decision(self, bench: ScriptedBench) -> None:
        begin = bench.clock.now() + 5 * bench.slot_s
        bench.clock.stalls[begin + 2e-3] = 10 * bench.slot_s
        kept = bench.run(8)
        assert bench.tally.late_decisions == 1
        assert bench.tally.missed == sum(e.value or 0 for e in kept.events(EventKind.MISSED)) == 10
        assert kept.slot(5).reward is not None

    def test_a_slightly_late_wake_up_is_only_recorded(self, bench: ScriptedBench) -> None:
        begin = bench.clock.now() + 5 * bench.slot_s
        bench.clock.stalls[begin - 1e-9] = 4e-4
        kept = bench.run(8)
        assert kept.slot(5).wake_s == pytest.approx(4e-4)
        assert kept.slot(5).on_time
        assert not kept.events()

    def test_a_stage_that_was_not_moved_is_not_late(
        self, bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The loop may be: the phase's time shows it, and the slot has its measurement."""
        stay = bench.policy.start_position
        bench.policy.decides = {slot: (lambda *_: stay) for slot in range(1, 10)}
        real, calls = bench.guard.is_at, []

        def slow_is_at(command: float) -> bool:
            calls.append(command)
            if len(calls) == 3 + 1:  # one of them is the approach's
                bench.clock.lose(2e-3)
            return real(command)

        monkeypatch.setattr(bench.guard, "is_at", slow_is_at)
        kept = bench.run(5)
        assert kept.slot(3).actuate_s == pytest.approx(2e-3)
        assert kept.slot(3).on_time
        assert kept.slot(3).reward is not None
        assert not kept.events()

    @pytest.mark.parametrize("duration_s", [0.005, 0.07, 0.14, 0.115, 0.35, 0.57, 1.0, 3.3])
    def test_a_duration_is_the_same_number_of_slots_at_any_time_of_the_clock(
        self, paper: Config, duration_s: float
    ) -> None:
        for start in (0.0, 1234.567, 987_654.321):
            bench = ScriptedBench(paper)
            bench.clock.lose(start)
            bench.loop.approach(bench.policy.start_position)
            bench.loop.run(duration_s=duration_s)
            assert bench.tally.slots == round(duration_s / bench.slot_s)

    def test_part_of_a_slot_is_a_slot(self, bench: ScriptedBench) -> None:
        bench.loop.run(duration_s=1.2 * bench.slot_s)
        assert bench.tally.slots == 2

    def test_missed_slots_count_towards_a_duration_but_not_towards_a_number_of_slots(
        self, paper: Config
    ) -> None:
        for limits, run in (({"duration_s": 0.1}, 13), ({"slots": 20}, 20)):
            bench = ScriptedBench(paper)
            bench.clock.stalls[bench.clock.now() + 5 * bench.slot_s] = 6.5 * bench.slot_s
            bench.loop.run(**limits)
            assert (bench.tally.slots, bench.tally.missed) == (run, 7)

    @pytest.mark.parametrize("limit", [{"duration_s": 0.1}, {"slots": 20}])
    def test_no_slot_is_missed_after_the_last(
        self, bench: ScriptedBench, limit: dict[str, Any]
    ) -> None:
        def slowly(policy: ScriptedPolicy, slot: int, position: float) -> float:
            policy.clock.lose(2.5 * bench.slot_s)
            return position

        bench.policy.decides[20] = slowly
        bench.loop.run(**limit)
        tally = bench.tally
        assert (tally.slots, tally.late_decisions, tally.missed) == (20, 1, 0)

    @pytest.mark.parametrize("moment", [17.0, 17.6])  # before a slot, and in it
    def test_a_stall_beyond_the_end_misses_no_more_than_the_slots_that_were_left(
        self, bench: ScriptedBench, moment: float
    ) -> None:
        bench.clock.stalls[bench.clock.now() + moment * bench.slot_s] = 100 * bench.slot_s
        bench.loop.run(duration_s=0.1)
        assert bench.tally.slots + bench.tally.missed == 20

    def test_slots_are_numbered_from_the_given_first_slot(self, bench: ScriptedBench) -> None:
        bench.loop.run(first_slot=4711, slots=3)
        assert [record.slot for record in bench.kept.slots] == [4711, 4712, 4713]

    def test_stop_ends_the_run_after_the_slot(self, bench: ScriptedBench) -> None:
        def stop(policy: ScriptedPolicy, slot: int, position: float) -> float:
            bench.loop.stop.request()
            return position

        bench.policy.decides[7] = stop
        bench.run(100)
        assert [record.slot for record in bench.kept.slots] == list(range(1, 8))

    @staticmethod
    def slow(paper: Config, motion_s: float) -> ScriptedBench:
        """Slots of a minute with T_a = 20 s, and a stage that takes `motion_s` for a stroke."""
        bench = ScriptedBench(
            paper.replace(physical__slot_duration_s=60.0, physical__actuation_time_s=20.0)
        )
        bench.stage.delay_s = motion_s
        return bench

    @pytest.mark.fault("long-slot-stop")
    @pytest.mark.parametrize("motion_s", [0.1, 15.0])
    def test_signs_of_life_are_given_in_a_long_slot(self, paper: Config, motion_s: float) -> None:
        bench = self.slow(paper, motion_s)
        signs: list[float] = []
        bench.watch(lambda _, __: signs.append(bench.clock.now()))
        kept = bench.run(3)
        assert max(np.diff(signs)) <= 3.0  # the service's watchdog waits for 10 s
        assert len(signs) > 3 * 60 / 3.0
        assert [record.reward for record in kept.slots] == [0.001, 0.002, 0.003]
        assert np.diff([record.start_s for record in kept.slots]) == pytest.approx(60.0)
        assert not kept.events()
        for record in kept.slots[1:]:
            assert record.on_time
            assert record.actuate_s == pytest.approx(motion_s, abs=0.06)

    @pytest.mark.fault("long-slot-stop")
    @pytest.mark.parametrize("after_s", [1.0, 30.0, 63.0, 70.0, 100.0, 117.0])
    def test_a_stop_request_ends_a_long_slot_early(self, paper: Config, after_s: float) -> None:
        bench = self.slow(paper, 15.0)
        stop_s = bench.clock.now() + after_s
        bench.watch(lambda *_: bench.loop.stop.request() if bench.clock.now() >= stop_s else None)
        bench.run(100)
        assert bench.clock.now() <= stop_s + 4.0

    def test_a_short_slot_is_woken_up_for_its_phases_only(
        self, paper: Config, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No other wake-up disturbs a measurement of its jitter."""
        bench, waits = ScriptedBench(paper.replace(physical__slot_duration_s=1.0)), [0]
        real = bench.clock.sleep_until

        def counted(moment: float) -> None:
            waits[0] += 1
            real(moment)

        monkeypatch.setattr(bench.clock, "sleep_until", counted)
        bench.loop.run(slots=10)
        assert waits[0] <= 10 * 5  # its start, the stage, the probe's start, the probe, its end

    def test_garbage_is_collected_while_the_probe_measures(
        self, bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        moments: list[float] = []
        monkeypatch.setattr(
            "macontrol.controller.runtime.measurement.collect_garbage",
            lambda: moments.append(bench.clock.now()),
        )
        records = bench.run(2500).slots
        assert len(moments) == 2
        for moment in moments:
            within = (moment - records[0].start_s) % bench.slot_s
            assert within == pytest.approx(1.1e-3)  # the paper's slot leaves time there only


class TestStage:
    """Late, lost, wrong or silent: the antenna is where the stage reports it."""

    @pytest.mark.fault("late-arrival")
    @pytest.mark.parametrize(("late_slots", "moving"), [(0.3, 0), (0.9, 0), (1.5, 1), (4.2, 4)])
    def test_a_late_arrival_costs_the_measurement_and_the_position_is_the_reported_one(
        self, bench: ScriptedBench, late_slots: float, moving: int
    ) -> None:
        def late(stage: ScriptedStage, position_mm: float, deadline_s: float) -> None:
            stage.arrives_s = deadline_s + late_slots * bench.slot_s - 1e-3

        bench.stage.moves[2] = late
        kept = bench.run(12)
        record = kept.slot(3)
        assert (record.on_time, record.reward, record.invalid) == (False, None, "late-arrival")
        before = kept.slot(2).position
        assert record.position == pytest.approx((before + kept.slot(2).next_position) / 2)
        still = [r for r in kept.slots if r.invalid == "still-moving"]
        assert [r.slot for r in still] == list(range(4, 4 + moving))
        assert len(kept.events(EventKind.LATE_ARRIVAL)) == bench.tally.late_arrivals == 1 + moving
        assert not kept.events(EventKind.STAGE_FAULT, EventKind.REFUSED)
        requested = {slot for slot, *_ in bench.probe.requests}
        assert requested == {r.slot for r in kept.slots if r.on_time}
        assert all(r.on_time and r.reward is not None for r in kept.slots[3 + moving :])
        assert (len(kept.events(EventKind.RECOVERY)) == 1) == (moving > 0)
        # Nothing was sent while it moved.
        assert len(bench.stage.commands) == len([r for r in kept.slots if r.commanded is not None])

    def test_an_arrival_reported_after_the_deadline_is_late(self, bench: ScriptedBench) -> None:
        bench.stage.moves[2] = lambda stage, to, deadline: Arrival(to, True, deadline + 1e-5)
        kept = bench.run(5)
        (event,) = kept.events()
        assert event.kind == EventKind.LATE_ARRIVAL
        assert event.value == pytest.approx(1e-5)
        assert not kept.slot(3).on_time

    @pytest.mark.parametrize("garbage", [nan, inf, -inf])
    def test_a_position_that_is_not_a_number_is_a_fault(
        self, bench: ScriptedBench, garbage: float
    ) -> None:
        bench.stage.moves[3] = lambda stage, to, deadline: Arrival(garbage, True, deadline)
        kept = bench.run(8)
        record = kept.slot(4)
        assert (record.on_time, record.reward, record.invalid) == (False, None, "stage-fault")
        assert record.position == kept.slot(3).position  # as far as anyone knows
        assert len(kept.events(EventKind.STAGE_FAULT)) == bench.tally.stage_faults == 1
        assert len(kept.events(EventKind.RECOVERY)) == 1
        assert all(r.on_time for r in kept.slots if r.slot > 4)

    @pytest.mark.fault("late-arrival")
    @pytest.mark.parametrize("said_mm", [-1000.0, 1e9, 1e308, 90.0, 17.0])
    def test_a_stage_that_reports_another_position_is_located_again(
        self, bench: ScriptedBench, said_mm: float
    ) -> None:
        """One wrong report must not block the antenna: the next slot locates the stage first."""
        bench.stage.moves[3] = lambda stage, to, deadline: Arrival(said_mm, True, deadline)
        kept = bench.run(10)
        believable = said_mm / bench.wavelength_mm if abs(said_mm) < 100 else kept.slot(3).position
        assert kept.slot(4).position == pytest.approx(believable)
        assert kept.slot(4).reward is None
        assert bench.tally.stage_faults == 1
        for record in kept.slots[5:]:
            assert record.on_time
            assert record.reward is not None
            assert record.position == pytest.approx(bench.config.physical.x_0, abs=0.5)
        assert not kept.events(EventKind.REFUSED)

    def test_a_stage_moved_by_hand_is_followed(self, bench: ScriptedBench) -> None:
        """From then on its report counts, and commands are within reach of it."""
        there = 41.0

        def moved(stage: ScriptedStage, to: float, deadline: float) -> None:
            stage.position_mm = there

        bench.stage.moves[3] = moved
        kept = bench.run(8)
        assert kept.slot(4).position == pytest.approx(there / bench.wavelength_mm)
        assert kept.slot(4).invalid == "stage-fault"
        assert abs(bench.stage.commands[3] - there) <= bench.stroke_mm + 1e-9
        assert kept.slot(5).on_time

    @pytest.mark.parametrize("off_mm", [-0.3, 60.0 + 0.2])
    def test_just_off_the_rail_there_is_no_measurement_but_a_way_back(
        self, bench: ScriptedBench, off_mm: float
    ) -> None:
        def pushed(stage: ScriptedStage, to: float, deadline: float) -> None:
            stage.position_mm = off_mm

        bench.stage.moves[3] = pushed
        for slot in range(4, 9):
            bench.policy.decides[slot] = lambda policy, slot, position: position
        kept = bench.run(8)
        assert kept.slot(4).reward is None
        length = bench.config.physical.region_length
        assert kept.slots[-1].position in (0.0, length)
        assert kept.slots[-1].reward is not None
        assert bench.tally.lowest < 0 or bench.tally.highest > length

    @pytest.mark.parametrize("where_mm", [500.0, 70.0, -70.0, -10.0])
    def test_a_stage_far_off_its_rail_is_given_up(
        self, impatient: ScriptedBench, where_mm: float
    ) -> None:
        bench = impatient

        def pushed(stage: ScriptedStage, to: float, deadline: float) -> None:
            stage.position_mm = where_mm

        bench.stage.moves[3] = pushed
        with pytest.raises(HardwareError, match="off its rail"):
            bench.run(100_000)
        assert len(bench.stage.commands) == 3

    @pytest.mark.fault("command-rejected")
    def test_a_silent_stage_is_tolerated_for_the_patience_and_not_longer(
        self, impatient: ScriptedBench
    ) -> None:
        bench = impatient

        def silent(*_: object) -> Arrival:
            raise StageError("no answer")

        bench.stage.moves[3] = silent
        for call in range(2, 1000):
            bench.stage.wheres[call] = silent
        begin = bench.clock.now()
        with pytest.raises(HardwareError, match=r"failed for 2 s .*fault_patience_s = 2.*answer"):
            bench.run(100_000)
        assert bench.clock.now() - begin == pytest.approx(2, abs=0.1)
        assert HardwareError("").exit_code == 69

    def test_an_arrival_that_is_known_after_the_deadline_is_late(
        self, bench: ScriptedBench
    ) -> None:
        """It arrived in time, but that was not known when the transmission began."""

        def hear_late(stage: ScriptedStage, to: float, deadline: float) -> Arrival:
            arrived_s = bench.clock.now()
            bench.clock.lose(deadline - arrived_s + 0.1 * bench.slot_s)
            return Arrival(to, True, arrived_s)

        bench.stage.moves[3] = hear_late
        kept = bench.run(8)
        assert [record.on_time for record in kept.slots] == [True] * 3 + [False] + [True] * 4
        assert kept.slot(4).invalid == "late-arrival"
        (late,) = kept.events(EventKind.LATE_ARRIVAL)
        assert late.value == pytest.approx(0.1 * bench.slot_s)
        assert bench.tally.late_arrivals == 1

    @pytest.mark.parametrize(("vain", "recovery_s"), [(0, 0.0), (0, 1.5), (3, 0.2)])
    def test_a_lost_stage_is_recovered_and_the_slots_meanwhile_are_missed(
        self, impatient: ScriptedBench, vain: int, recovery_s: float
    ) -> None:
        bench = impatient

        def lost(*_: object) -> Arrival:
            raise StageLostError("the cable was pulled")

        bench.stage.moves[3] = lost
        for call in range(2, 2 + vain):
            bench.stage.wheres[call] = lost
        bench.stage.failing_recoveries, bench.stage.recovery_s = vain, recovery_s
        kept = bench.run(12)
        assert bench.stage.recoveries == vain + 1
        assert len(kept.events(EventKind.STAGE_FAULT)) == bench.tally.stage_faults
        assert kept.slot(4).invalid == "stage-fault"
        missed = sum(event.value or 0 for event in kept.events(EventKind.MISSED))
        assert bench.tally.missed == missed
        assert missed >= (vain + 1) * int(recovery_s / bench.slot_s)
        assert min(np.diff([r.start_s for r in kept.slots])) >= bench.slot_s * (1 - 1e-6)
        assert len(kept.events(EventKind.RECOVERY)) == 1
        assert bench.tally.displaced == 1
        assert all(record.on_time for record in kept.slots[-4:])

    def test_a_recovery_is_shown_as_activity(
        self, impatient: ScriptedBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench, seen = impatient, []

        def lost(*_: object) -> Arrival:
            raise StageLostError("the cable was pulled")

        real = bench.stage.recover

        def recover(deadline_s: float, keep_on: Callable[[], bool]) -> None:
            seen.append(bench.loop.activity)
            real(deadline_s, keep_on)

        monkeypatch.setattr(bench.stage, "recover", recover)
        bench.stage.moves[3] = lost
        bench.stage.failing_recoveries = 1
        bench.run(12)
        assert seen == ["recovering the stage", "recovering the stage"]
        assert bench.loop.activity == ""

    @pytest.mark.fault("stage-lost-while-holding")
    def test_a_stage_lost_while_the_antenna_holds_is_noticed_within_a_second(
        self, bench: ScriptedBench
    ) -> None:
        def lost(*_: object) -> Arrival:
            raise StageLostError("the cable was pulled")

        def moved(*_: object) -> Arrival:
            bench.stage.position_mm += 0.1
            return bench.stage.report()

        bench.policy.decides = dict.fromkeys(range(1000), lambda _, __, x: x)
        bench.stage.wheres[2], bench.stage.wheres[4] = lost, moved
        kept = bench.run(750)
        assert bench.stage.recoveries == 1
        pulled, shifted = kept.events(EventKind.STAGE_FAULT)
        assert pulled.time_s - kept.slots[0].start_s == pytest.approx(1.0, abs=2 * bench.slot_s)
        assert "was left at" in shifted.detail

    def test_a_stage_that_cannot_be_recovered_is_given_up(self, impatient: ScriptedBench) -> None:
        bench = impatient

        def lost(*_: object) -> Arrival:
            raise StageLostError("the cable was pulled")

        bench.stage.moves[3] = lost
        bench.stage.wheres = dict.fromkeys(range(2, 1000), lost)
        bench.stage.failing_recoveries, bench.stage.recovery_s = 1000, 0.3
        with pytest.raises(HardwareError, match="the stage has failed for"):
            bench.run(1000)
        assert len(bench.stage.commands) == 3

    def test_a_broken_stage_is_given_up_at_once(self, bench: ScriptedBench) -> None:
        def lost(*_: object) -> Arrival:
            raise StageLostError("the limit switch has tripped")

        bench.stage.moves[3] = lost
        bench.stage.failing_recoveries = 1
        bench.stage.recovery_fault = StageBrokenError("check the switch")
        with pytest.raises(StageBrokenError, match="check the switch"):
            bench.run(1000)
        assert bench.stage.recoveries == 1

    @pytest.mark.fault("stage-lost-repeatedly")
    @pytest.mark.parametrize(("pause_s", "is_tolerated"), [(1.0, False), (200.0, True)])
    def test_a_stage_that_is_lost_again_and_again_is_given_up(
        self, bench: ScriptedBench, pause_s: float, is_tolerated: bool
    ) -> None:
        def lost(*_: object) -> Arrival:
            bench.clock.lose(pause_s)
            raise StageLostError("its supply dips")

        bench.stage.recovery_s = 300.0  # which is no time of work
        for call in range(3, 30, 4):
            bench.stage.moves[call] = lost
        if is_tolerated:
            bench.run(40)
            assert bench.stage.recoveries == 7
        else:
            with pytest.raises(StageBrokenError, match=r"lost 6 times in .* its supply dips"):
                bench.run(1000)
            assert bench.stage.recoveries == 5

    @pytest.mark.fault("slow-answers")
    def test_a_stage_that_is_late_in_every_slot_is_given_up(self, impatient: ScriptedBench) -> None:
        bench = impatient
        bench.stage.delay_s = 0.5 * bench.slot_s
        begun = bench.clock.now()
        with pytest.raises(HardwareError, match="late after every command for 2 s"):
            bench.loop.run(slots=100_000)
        assert bench.clock.now() - begun < 3.0
        assert not any(record.on_time for record in bench.kept.slots[3:])

    def test_a_stage_that_is_sometimes_late_is_not_given_up(self, impatient: ScriptedBench) -> None:
        bench = impatient

        def late(stage: ScriptedStage, to: float, deadline: float) -> None:
            stage.arrives_s = deadline + 0.1 * bench.slot_s

        bench.stage.moves = dict.fromkeys(range(0, 100_000, 2), late)
        bench.run(2000)  # 10 s
        assert bench.tally.late_arrivals > 500

    @pytest.mark.fault("every-command-fails")
    @pytest.mark.parametrize("says_arrived", [True, False], ids=["blocked", "late for ever"])
    def test_a_stage_that_never_moves_is_given_up_although_the_antenna_holds_in_some_slots(
        self, impatient: ScriptedBench, says_arrived: bool
    ) -> None:
        """As with epsilon-greedy. Slots without a command prove nothing."""
        bench = impatient

        def blocked(stage: ScriptedStage, to: float, deadline: float) -> Arrival:
            stage.position_mm, stage.arrives_s = stage._from_mm, -1.0
            return Arrival(stage.position_mm, says_arrived, deadline)

        bench.stage.moves = dict.fromkeys(range(1, 10_000), blocked)
        # Two slots in three it is to stay where it stands.
        stays = [slot for slot in range(1, 10_000) if slot % 3]
        bench.policy.decides = dict.fromkeys(stays, lambda _, __, x: x)
        with pytest.raises(HardwareError, match="fault_patience_s = 2"):
            bench.loop.run(slots=10_000)
        commanded = [record for record in bench.kept.slots if record.commanded is not None]
        assert not any(record.on_time for record in commanded)
        assert 1.5 < len(bench.stage.commands) * bench.slot_s < 2.1

    @pytest.mark.fault("every-command-fails")
    def test_commands_that_fail_far_apart_do_not_use_up_the_patience(
        self, impatient: ScriptedBench
    ) -> None:
        bench = impatient

        def silent(*_: object) -> Arrival:
            bench.stage.position_mm = bench.stage._from_mm
            raise StageError("no answer")

        bench.stage.moves = dict.fromkeys(range(1, 10_000), silent)
        stays = [slot for slot in range(1, 10_000) if slot % 100]
        bench.policy.decides = dict.fromkeys(stays, lambda _, __, x: x)
        bench.loop.run(slots=1000)  # 5 s
        assert len(bench.kept.events(EventKind.STAGE_FAULT)) == 9

    @pytest.mark.fault("every-command-fails")
    def test_an_answer_ends_an_outage_in_which_nothing_was_commanded(
        self, impatient: ScriptedBench
    ) -> None:
        bench = impatient

        def silent(*_: object) -> Arrival:
            raise StageError("no answer")

        bench.policy.decides = dict.fromkeys(range(1, 10_000), lambda _, __, x: x)
        bench.stage.wheres = dict.fromkeys(range(2, 10_000, 3), silent)
        bench.loop.run(slots=3000)  # 15 s, a look every second
        faults = bench.kept.events(EventKind.STAGE_FAULT)
        assert len(faults) == len(bench.kept.events(EventKind.RECOVERY)) > 10

    def test_signs_of_life_are_given_during_a_recovery(self, bench: ScriptedBench) -> None:
        def lost(*_: object) -> Arrival:
            raise StageLostError("the cable was pulled")

        signs: list[float] = []
        bench.stage.moves[3] = lost
        bench.stage.recovery_s = 20.0
        bench.watch(lambda _, now: signs.append(now))
        bench.run(6)
        assert max(np.diff(signs)) <= 2.0 + 2 * bench.slot_s

    def test_a_stop_during_a_recovery_ends_the_run_and_is_not_a_fault(
        self, bench: ScriptedBench
    ) -> None:
        def lost(*_: object) -> Arrival:
            raise StageLostError("the cable was pulled")

        bench.stage.moves[3] = lost
        bench.stage.recovery_s = 20.0
        lost_at = bench.clock.now() + 4 * bench.slot_s
        bench.watch(lambda _, now: bench.loop.stop.request() if now > lost_at + 5.0 else None)
        kept = bench.run(1000)
        assert bench.clock.now() < lost_at + 10.0
        assert len(kept.events(EventKind.STAGE_FAULT)) == bench.tally.stage_faults == 1

    @pytest.mark.fault("steps-lost")
    @pytest.mark.parametrize("homing_s", [0.0, 1.5])
    def test_a_stage_is_homed_again_when_that_is_due(
        self, bench: ScriptedBench, homing_s: float
    ) -> None:
        bench.stage.homing_due_s = bench.clock.now() + 5.5 * bench.slot_s
        bench.stage.recovery_s = homing_s
        kept = bench.run(20)
        assert bench.stage.recoveries == 1
        (homing,) = kept.events(EventKind.HOMING)
        assert homing.slot == 6
        assert homing.value == pytest.approx(homing_s)
        missed = kept.events(EventKind.MISSED)
        assert [event.detail for event in missed] == ["homing of the stage"]
        way_back_s = 50 * bench.stage.delay_s
        assert bench.tally.missed == pytest.approx((homing_s + way_back_s) / bench.slot_s, abs=2)
        assert bench.tally.stage_faults == 0
        # It stood at the end of its rail, was asked, and came back from there by strokes.
        assert bench.stage.located >= 2
        stops = np.array(bench.stage.commands) / bench.wavelength_mm
        (at_switch,) = np.nonzero(stops <= bench.config.physical.rho_max + 1e-9)[0]
        assert (np.diff(stops[at_switch:]) <= bench.config.physical.rho_max + 1e-9).all()
        before, after = kept.slot(5), next(each for each in kept.slots if each.slot >= 6)
        assert after.position == pytest.approx(before.next_position)
        assert bench.tally.displaced == 1
        assert bench.tally.travel < 2.0

    @pytest.mark.parametrize(("left_at", "ends_at"), [(-0.01, 0.0), (6.01, 6.0)])
    def test_after_homing_it_returns_no_farther_than_the_end_of_the_rail(
        self, bench: ScriptedBench, left_at: float, ends_at: float
    ) -> None:
        bench.loop.approach(3.0)
        actuation = bench.loop._actuation
        actuation.position = left_at  # as a stage may report that overshot
        actuation.recover(1)
        assert bench.stage.position_mm == pytest.approx(ends_at * bench.wavelength_mm)
        assert [event.kind for event in bench.kept.events()] == [EventKind.HOMING]

    def test_a_moving_stage_is_not_homed(self, bench: ScriptedBench) -> None:
        def under_way(stage: ScriptedStage, to: float, deadline: float) -> None:
            stage.arrives_s = deadline + 3 * bench.slot_s

        bench.stage.moves[3] = under_way
        bench.stage.homing_due_s = bench.clock.now() + 4.5 * bench.slot_s
        kept = bench.run(12)
        (homing,) = kept.events(EventKind.HOMING)
        assert homing.slot > 6

    def test_faults_with_a_break_do_not_use_up_the_patience(self, impatient: ScriptedBench) -> None:
        bench = impatient

        def silent(*_: object) -> Arrival:
            raise StageError("no answer")

        bench.stage.moves = dict.fromkeys(range(2, 2000, 2), silent)
        kept = bench.run(1000)  # 5 s
        assert len(kept.events(EventKind.STAGE_FAULT)) == bench.tally.stage_faults > 300

    def test_positions_reported_with_few_digits_cause_no_needless_moves(
        self, paper: Config
    ) -> None:
        """A board that counts steps of 1/160 mm and reports thousandths."""
        bench = ScriptedBench(paper, step_mm=0.00625)
        real = bench.stage.report

        def rounded() -> Arrival:
            arrival = real()
            return Arrival(round(arrival.position_mm, 3), arrival.arrived, arrival.time_s)

        bench.stage.report = rounded  # type: ignore[method-assign]
        bench.policy.start_position = 3.1234
        stay = bench.policy.start_position
        bench.policy.decides = {slot: (lambda *_: stay) for slot in range(1, 10)}
        kept = bench.run(5)
        assert not kept.events()
        assert all(record.commanded is None for record in kept.slots)


class TestApproach:
    """Before slot 1."""

    @pytest.mark.parametrize("start", [0.0, 1.234, 3.0, 6.0])
    def test_the_antenna_is_brought_to_its_start_stroke_by_stroke(
        self, bench: ScriptedBench, start: float
    ) -> None:
        bench.policy.start_position = start
        bench.loop.approach(start)
        assert bench.loop.position == pytest.approx(start)
        stops = [bench.config.physical.x_0 * bench.wavelength_mm, *bench.stage.commands]
        assert (np.abs(np.diff(stops)) <= bench.stroke_mm + 1e-9).all()
        expected = np.ceil(abs(start - 3.0) / bench.config.physical.rho_max - 1e-9)
        assert len(bench.stage.commands) == expected

    def test_faults_on_the_way_are_reported_and_tolerated(self, bench: ScriptedBench) -> None:
        def silent(*_: object) -> Arrival:
            raise StageError("no answer")

        bench.stage.moves[3] = silent
        bench.stage.moves[5] = lambda stage, to, deadline: Arrival(nan, True, deadline)
        bench.loop.approach(2.0)
        assert bench.loop.position == pytest.approx(2.0)
        assert bench.tally.stage_faults == len(bench.kept.events(EventKind.STAGE_FAULT)) == 2
        assert len(bench.kept.events(EventKind.RECOVERY)) == 2

    def test_a_stage_lost_on_the_way_is_recovered(self, bench: ScriptedBench) -> None:
        def lost(*_: object) -> Arrival:
            raise StageLostError("the cable was pulled")

        bench.stage.moves[3] = lost
        bench.loop.approach(2.0)
        assert bench.stage.recoveries == 1
        assert bench.loop.position == pytest.approx(2.0)
        assert bench.tally.stage_faults == len(bench.kept.events(EventKind.RECOVERY)) == 1

    def test_a_stage_still_moving_at_the_start_is_waited_for(self, bench: ScriptedBench) -> None:
        bench.stage.arrives_s = bench.clock.now() + 2.0
        bench.loop.approach(2.0)
        assert bench.loop.position == pytest.approx(2.0)

    def test_a_late_report_is_not_an_arrival_at_another_position(
        self, bench: ScriptedBench
    ) -> None:
        """A GRBL board reports nothing in a move: its last report is not its final position."""
        bench.stage.moves[3] = lambda stage, _, deadline: Arrival(
            stage.position_mm, False, deadline
        )
        bench.loop.approach(2.0)
        (late,) = bench.kept.events(EventKind.LATE_ARRIVAL)
        assert "did not report its arrival" in late.detail
        assert "arrived at" not in late.detail

    @pytest.mark.fault("approach-blocked")
    def test_a_blocked_stage_is_given_up(self, impatient: ScriptedBench) -> None:
        bench = impatient
        at = bench.stage.position_mm

        def blocked(stage: ScriptedStage, to: float, deadline: float) -> None:
            stage.position_mm = at

        bench.stage.moves = dict.fromkeys(range(1, 10_000), blocked)
        with pytest.raises(HardwareError, match="blocks the carriage"):
            bench.loop.approach(2.0)

    @pytest.mark.fault("approach-beside-target")
    def test_a_stage_that_is_never_exact_to_the_step_has_arrived_when_it_is_close(
        self, paper: Config
    ) -> None:
        """Such as a stage with an encoder, which stops a step or two beside the command."""
        bench = ScriptedBench(paper, step_mm=0.00625)

        def beside(stage: ScriptedStage, to: float, deadline: float) -> None:
            assert len(stage.commands) < 1000
            stage.position_mm = to + 0.006

        bench.stage.moves = dict.fromkeys(range(1, 10_000), beside)
        bench.loop.approach(2.0)
        assert bench.loop.position * bench.wavelength_mm == pytest.approx(
            2.0 * bench.wavelength_mm, abs=0.01
        )
        assert not bench.kept.events()

    @pytest.mark.fault("approach-blocked")
    def test_a_stage_that_does_not_move_by_strokes_of_one_step_is_given_up(
        self, impatient: ScriptedBench
    ) -> None:
        bench = ScriptedBench(impatient.config, step_mm=impatient.stroke_mm)
        at = bench.stage.position_mm

        def blocked(stage: ScriptedStage, to: float, deadline: float) -> None:
            assert len(stage.commands) < 10_000
            stage.position_mm = at

        bench.stage.moves = dict.fromkeys(range(1, 20_000), blocked)
        with pytest.raises(HardwareError, match="blocks the carriage"):
            bench.loop.approach(2.0)

    @pytest.mark.fault("steps-too-coarse")
    @pytest.mark.parametrize("strokes", [1.3, 20.0])
    def test_a_stage_with_steps_longer_than_a_stroke_does_not_arrive(
        self, impatient: ScriptedBench, strokes: float
    ) -> None:
        bench = ScriptedBench(impatient.config, step_mm=strokes * impatient.stroke_mm)
        bench.stage.position_mm = 0.0
        with pytest.raises(HardwareError, match="too long for strokes"):
            bench.loop.approach(2.0)
        assert not bench.stage.commands

    def test_a_stop_request_ends_it_at_the_next_stroke(self, bench: ScriptedBench) -> None:
        def stop(stage: ScriptedStage, to: float, deadline: float) -> None:
            bench.loop.stop.request()

        bench.stage.moves[4] = stop
        bench.policy.start_position = 5.0
        bench.run(10)
        assert len(bench.stage.commands) == 4
        assert not bench.kept.slots


class TestProbe:
    """Late, out of order, twice, for unknown slots, not numbers, or not at all."""

    @staticmethod
    def hold_back(probe: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
        probe.held += ready
        return []

    @pytest.mark.fault("reward-late")
    @pytest.mark.parametrize("by", [1, 2, 50, 299])
    def test_a_late_reward_counts_for_its_own_slot_and_position(
        self, bench: ScriptedBench, by: int
    ) -> None:
        taken: list[Measurement] = []
        bench.probe.collects[5] = take_away(taken)
        bench.probe.collects[5 + by] = lambda probe, ready: [*taken, *ready]
        kept = bench.run(5 + by + 5)
        record = kept.slot(5)
        assert (record.reward, record.invalid) == (None, "not-ready")
        snr_db = 10 * log10(2 ** (0.005 / bench.config.physical.transmission_share) - 1)
        (late,) = kept.late_rewards
        assert late == LateReward(5, 0.005, 0.1, signal=Signal(snr_db=late.signal.snr_db))
        assert late.signal.snr_db == pytest.approx(snr_db)
        assert (5, record.position, 0.005) in bench.policy.seen
        order = [slot for slot, *_ in bench.policy.seen]
        assert order.index(5) in (order.index(5 + by) - 1, order.index(5 + by) + 1)
        (event,) = kept.events()
        assert (event.kind, event.slot, event.value) == (EventKind.LATE_REWARD, 5, by)
        assert bench.tally.rewards == bench.tally.slots
        assert bench.tally.late_rewards == 1

    def test_a_late_invalid_measurement_gives_its_slot_the_reason(
        self, bench: ScriptedBench
    ) -> None:
        bench.probe.collects[5] = self.hold_back
        bench.probe.collects[6] = lambda probe, ready: [
            Measurement(5, None, "clipping"),
            *ready[1:],
        ]
        kept = bench.run(8)
        assert LateReward(5, None, None, "clipping") in kept.items
        assert not kept.late_rewards
        assert 5 not in [slot for slot, *_ in bench.policy.seen]

    def test_a_reward_older_than_the_window_is_not_waited_for(self, bench: ScriptedBench) -> None:
        taken: list[Measurement] = []
        bench.probe.collects[5] = take_away(taken)
        bench.probe.collects[400] = lambda probe, ready: [*taken, *ready]
        kept = bench.run(500)
        assert not kept.late_rewards
        assert 5 not in [slot for slot, *_ in bench.policy.seen]
        (event,) = kept.events()
        assert (event.kind, event.slot) == (EventKind.INVALID, 5)
        assert event.detail == InvalidReason.NEVER_ARRIVED
        assert bench.tally.invalid == 1

    def test_out_of_order_and_twice_and_for_unknown_slots(self, bench: ScriptedBench) -> None:
        for call in (3, 4, 5):
            bench.probe.collects[call] = self.hold_back
        strangers = [Measurement(slot, Reward(1.0)) for slot in (-7, 0, 7, 10**9)]
        bench.probe.collects[6] = lambda probe, ready: [
            *strangers,
            *reversed(ready),
            *ready,
            *reversed(ready),
        ]
        kept = bench.run(10)
        seen = sorted(bench.policy.seen)
        assert [slot for slot, *_ in seen] == list(range(1, 11))
        assert all(reward == slot / 1000 for slot, _, reward in seen)
        assert {late.slot for late in kept.late_rewards} == {3, 4, 5}
        assert kept.slot(6).reward == 0.006

    @pytest.mark.fault("measurement-invalid")
    @pytest.mark.parametrize("reward", [nan, inf, -inf, 1e300, -1e300, 1e6])
    def test_an_impossible_reward_is_not_observed(
        self, bench: ScriptedBench, reward: float
    ) -> None:
        bench.probe.collects[4] = lambda probe, ready: [Measurement(4, Reward(reward))]
        kept = bench.run(6)
        assert [slot for slot, *_ in bench.policy.seen] == [1, 2, 3, 5, 6]
        assert (kept.slot(4).reward, kept.slot(4).invalid) == (None, "out-of-range")
        assert len(kept.events(EventKind.INVALID)) == bench.tally.invalid == 1

    @pytest.mark.fault("measurement-invalid")
    @pytest.mark.parametrize(("reason", "recorded"), [("clipping", "clipping"), ("", "invalid")])
    def test_an_invalid_measurement_is_not_observed(
        self, bench: ScriptedBench, reason: str, recorded: str
    ) -> None:
        bench.probe.collects[4] = lambda probe, ready: [Measurement(4, None, reason)]
        kept = bench.run(6)
        assert 4 not in [slot for slot, *_ in bench.policy.seen]
        assert (kept.slot(4).reward, kept.slot(4).invalid) == (None, recorded)

    def test_a_failing_probe_costs_observations_until_the_patience_ends(
        self, impatient: ScriptedBench
    ) -> None:
        bench = impatient

        def silent(*_: object) -> list[Measurement]:
            raise ProbeError("no samples")

        bench.probe.collects[3] = silent
        last = bench.config.algorithm.window + 10
        kept = bench.run(last)
        assert kept.slot(3).invalid == "probe-fault"
        assert [slot for slot, *_ in bench.policy.seen] == [1, 2, *range(4, last + 1)]
        assert len(kept.events(EventKind.PROBE_FAULT)) == bench.tally.probe_faults == 1
        assert len(kept.events(EventKind.RECOVERY)) == 1
        self.expect_no_more(bench, events=2)
        bench.probe.collects = dict.fromkeys(range(last + 1, 10_000), silent)
        with pytest.raises(HardwareError, match="the probe has failed for 2 s"):
            bench.loop.run(first_slot=last + 1)

    @pytest.mark.fault("no-valid-measurement")
    @pytest.mark.parametrize("late", [False, True])
    def test_measurements_that_are_never_valid_end_the_run_with_the_reason(
        self, impatient: ScriptedBench, late: bool
    ) -> None:
        bench = impatient

        def clip(probe: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
            slot = ready[-1].slot - late
            return [Measurement(slot, None, "clipping")]

        bench.probe.collects = dict.fromkeys(range(10, 10_000), clip)
        begun = bench.clock.now()
        with pytest.raises(HardwareError, match=r"no measurement was valid for 2 s .*: clipping"):
            bench.run(10_000)
        assert bench.clock.now() - begun == pytest.approx(2.0, abs=0.2)

    @pytest.mark.fault("no-valid-measurement")
    @pytest.mark.parametrize("valid_every_s", [1.9, None])
    def test_an_occasional_valid_one_is_enough_and_a_noise_floor_measurement_may_be_long(
        self, impatient: ScriptedBench, valid_every_s: float | None
    ) -> None:
        bench = impatient
        reason = "noise-floor" if valid_every_s is None else "clipping"

        def invalid(probe: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
            return [Measurement(ready[-1].slot, None, reason)]

        bench.probe.collects = dict.fromkeys(range(1, 2000), invalid)
        if valid_every_s is not None:
            for call in range(1, 2000, round(valid_every_s / bench.slot_s)):
                del bench.probe.collects[call]
        bench.run(1990)  # 10 s
        assert bench.tally.invalid > 1900

    @pytest.mark.fault("no-valid-measurement")
    def test_slots_without_a_measurement_do_not_count(self, impatient: ScriptedBench) -> None:
        """Here the stage is lost most of the time, which has a patience of its own."""
        bench = impatient

        def clip(probe: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
            return [Measurement(m.slot, None, "clipping") for m in ready]

        def under_way(stage: ScriptedStage, to: float, deadline: float) -> None:
            stage.arrives_s = deadline + 1.5

        bench.probe.collects = dict.fromkeys(range(1, 10_000), clip)
        bench.stage.moves = dict.fromkeys(range(0, 1000, 20), under_way)
        bench.run(1500)  # 7.5 s, of which 1.5 s are spent in some 20 slots of measurements each
        assert 60 < bench.tally.invalid < 400
        assert not bench.kept.events(EventKind.PROBE_FAULT)

    @staticmethod
    def expect_no_more(bench: ScriptedBench, *, events: int, invalid: int = 0) -> None:
        """Check the numbers of events and invalid measurements; no other record was completed."""
        assert len(bench.kept.events()) == events
        assert len(bench.kept.events(EventKind.INVALID)) == bench.tally.invalid == invalid
        late = [item for item in bench.kept.items if isinstance(item, LateReward)]
        assert len(late) == invalid

    @pytest.mark.fault("radio-drops-client")
    def test_an_outage_is_counted_once_and_earlier_requests_are_collected(
        self, bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A probe without a stream refuses requests; earlier ones still have a result."""
        request, outage = bench.probe.request, range(5, 9)

        def refuse(slot: int, start_s: float, end_s: float) -> None:
            if slot in outage:
                raise ProbeError("the server hung up")
            request(slot, start_s, end_s)

        def empty(*_: object) -> list[Measurement]:
            raise ProbeError("nothing is ready")

        monkeypatch.setattr(bench.probe, "request", refuse)
        bench.probe.collects = dict.fromkeys(outage, empty)
        bench.probe.collects[4] = self.hold_back
        bench.probe.collects[5] = lambda *_: [Measurement(4, None, "gap")]
        kept = bench.run(bench.config.algorithm.window + 20)
        assert {kept.slot(slot).invalid for slot in outage} == {"probe-fault"}
        assert LateReward(4, None, None, "gap") in kept.items
        faults = kept.events(EventKind.PROBE_FAULT)
        assert [event.slot for event in faults] == [*outage]
        assert {event.detail for event in faults} == {"the server hung up"}, "what came first"
        assert bench.tally.probe_faults == len(outage)
        assert [event.slot for event in kept.events(EventKind.RECOVERY)] == [9]
        self.expect_no_more(bench, events=len(outage) + 2, invalid=1)

    def test_a_slot_with_a_fault_is_not_counted_again_as_invalid(
        self, bench: ScriptedBench
    ) -> None:
        def silent(*_: object) -> list[Measurement]:
            raise ProbeError("the server hung up")

        bench.probe.collects[5] = silent
        bench.probe.collects[6] = lambda probe, ready: [
            Measurement(5, None, "gap"),
            *ready,
        ]
        kept = bench.run(8)
        assert kept.slot(5).invalid == "probe-fault"
        assert kept.slot(6).reward == 0.006
        self.expect_no_more(bench, events=2)

    def test_a_slow_probe_makes_the_decision_late(self, bench: ScriptedBench) -> None:
        def slow(probe: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
            probe.clock.lose(2 * bench.slot_s)
            return ready

        bench.probe.collects[4] = slow
        kept = bench.run(8)
        assert bench.tally.missed == 2
        assert kept.slot(4).measure_s == pytest.approx(3.4e-3 + 2 * bench.slot_s)


class TestPolicy:
    """Whatever a policy says, the antenna holds or moves by at most a stroke."""

    @pytest.mark.parametrize("wanted", [1e300, 1e9, -1e9, 6.5, -0.01, 0.0, 4.0])
    def test_an_impossible_position_is_refused_and_the_antenna_holds(
        self, bench: ScriptedBench, wanted: float
    ) -> None:
        bench.policy.decides[4] = lambda *_: wanted
        kept = bench.run(8)
        held = kept.slot(5)
        assert held.commanded is None
        assert held.position == kept.slot(4).position
        assert held.reward is not None
        (event,) = kept.events()
        assert (event.kind, event.slot) == (EventKind.REFUSED, 5)
        assert bench.tally.refused == 1
        assert len(bench.stage.commands) == 6
        assert kept.slot(6).commanded is not None

    @pytest.mark.parametrize("wanted", [1e300, 1e9, -1e9, 6.5, -0.01])
    def test_an_impossible_position_is_not_corrected_after_a_fault(
        self, bench: ScriptedBench, wanted: float
    ) -> None:
        """Then the stage is located again, and a position may only be shortened to a stroke."""

        def silent(*_: object) -> Arrival:
            raise StageError("no answer")

        bench.stage.moves[3] = silent
        bench.policy.decides[4] = lambda *_: wanted
        kept = bench.run(5)
        assert len(bench.stage.commands) == 3
        assert len(kept.events(EventKind.REFUSED)) == 1
        assert kept.slot(5).commanded is None

    def test_a_position_out_of_reach_after_a_fault_is_approached(
        self, bench: ScriptedBench
    ) -> None:
        def short(stage: ScriptedStage, to: float, deadline: float) -> None:
            stage.position_mm = to - 0.3  # half a stroke lost

        bench.stage.moves[1] = short
        goal = bench.policy.start_position + 2 * bench.policy.stroke
        bench.policy.decides[1] = lambda policy, slot, position: position + policy.stroke
        bench.policy.decides[2] = lambda *_: goal
        kept = bench.run(3)
        assert kept.slot(3).position == pytest.approx(kept.slot(2).position + bench.policy.stroke)
        assert not kept.events(EventKind.REFUSED)


def test_the_statistics_agree_with_the_records(bench: ScriptedBench) -> None:
    records = bench.run(50).slots
    positions = [bench.policy.start_position, *(record.position for record in records)]
    assert bench.tally.travel == pytest.approx(np.abs(np.diff(positions)).sum())
    assert bench.tally.longest_step == pytest.approx(np.abs(np.diff(positions)).max())
    assert bench.tally.mean_reward == pytest.approx(np.mean([r.reward or nan for r in records]))


def test_an_unknown_position_is_not_a_step_beyond_reach(bench: ScriptedBench) -> None:
    """It moved two strokes with one report: no command was beyond reach."""

    def unseen(stage: ScriptedStage, to: float, deadline: float) -> Arrival:
        return Arrival(nan, True, deadline)

    bench.policy.decides = {
        slot: (lambda policy, slot, position: position + policy.stroke) for slot in range(1, 10)
    }
    bench.stage.moves[3] = unseen
    bench.run(8)
    verdicts = bench.tally.theory(length=6.0, rho_max=0.06, margin=0.0)
    assert verdicts["reach"].holds


def test_a_real_actuator_arrives_on_time_with_the_stroke_derived_from_it() -> None:
    config = load_config(
        None,
        [
            "physical.acceleration_m_per_s2=6000.0",
            "physical.command_latency_s=1e-4",
            "physical.settling_s=1e-4",
            "physical.step_mm=0.005",
            "physical.stroke=auto",
            "algorithm.policy=sweep-and-hold",
            "algorithm.sweep_period=150",
        ],
    )
    assert config.physical.rho_max < config.physical.nominal_reach
    records = simulated(config, 400).slots
    assert all(record.on_time for record in records)
    moves = [abs(b.position - a.position) for a, b in pairwise(records)]
    assert max(moves) > 0.9 * config.physical.rho_max
    assert max(moves) <= config.physical.rho_max + 1e-9


class TestSilence:
    """While the run has switched the transmitter off."""

    @staticmethod
    def run(bench: ScriptedBench, *, goal: float | None = None) -> Kept:
        """The transmitter is off from the middle of slot 3 to the middle of slot 6."""
        slot_s, clock, steering = bench.slot_s, bench.clock, bench.loop.steering
        if goal is not None:
            steering.submit(Hold("test", goal))
        silence = ExitStack()

        def begin(_: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
            silence.enter_context(steering.silence.kept(lambda: clock.now() - slot_s / 4))
            return ready

        def end(_: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
            silence.close()
            return ready

        bench.probe.collects = {3: begin, 6: end}
        return bench.run(10)

    @pytest.mark.fault("transmitter-off-by-command")
    def test_slots_have_no_reward_and_a_reason_of_their_own(self, bench: ScriptedBench) -> None:
        kept = self.run(bench)
        off = InvalidReason.TRANSMITTER_OFF
        assert [r.invalid for r in kept.slots] == [None] * 2 + [off] * 4 + [None] * 4
        assert [r.reward is None for r in kept.slots] == [r.invalid == off for r in kept.slots]
        assert [slot for slot, *_ in bench.policy.seen] == [1, 2, 7, 8, 9, 10]
        assert [e.slot for e in kept.events(EventKind.INVALID)] == [3, 4, 5, 6]

    def test_the_antenna_holds_and_the_policy_decides_afterwards(
        self, bench: ScriptedBench
    ) -> None:
        positions = [r.position for r in self.run(bench).slots]
        moves = [bool(abs(b - a) > 1e-9) for a, b in pairwise(positions)]
        # Slot 6 ends without silence: its decision is that of the policy.
        assert moves == [True, True, False, False, False, True, True, True, True]

    def test_an_operators_way_to_a_position_is_interrupted(self, bench: ScriptedBench) -> None:
        stroke = bench.config.physical.rho_max
        goal = bench.config.grid.snap(bench.config.physical.x_0 + 30 * stroke)
        positions = [r.position for r in self.run(bench, goal=goal).slots]
        assert positions[2] == positions[3] == positions[4] == positions[5]
        assert positions[0] < positions[1] < positions[2]
        assert positions[5] < positions[6] < positions[7]

    def test_it_costs_no_patience(self, paper: Config) -> None:
        bench = ScriptedBench(
            paper.replace(timing__fault_patience_s=paper.physical.slot_duration_s)
        )
        assert len(self.run(bench).slots) == 10

    def test_a_late_reward_of_a_silent_slot_is_none(self, bench: ScriptedBench) -> None:
        silence, held = bench.loop.steering.silence, list[Measurement]()
        bench.loop.approach(bench.policy.start_position)
        bench.probe.collects = {1: take_away(held), 2: lambda _, ready: [*held, *ready]}
        with silence.kept(bench.clock.now):
            bench.loop.run(slots=1)
        assert not bench.kept.late_rewards
        bench.loop.run(first_slot=2, slots=2)
        assert [slot for slot, *_ in bench.policy.seen] == [2, 3]
        assert bench.kept.slot(1).invalid == InvalidReason.NOT_READY
        (late,) = [item for item in bench.kept.items if isinstance(item, LateReward)]
        assert (late.slot, late.reward, late.invalid) == (1, None, InvalidReason.TRANSMITTER_OFF)
