"""What an operator asks of the loop: hold, go to, other settings, a survey within the run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.errors import StageError
from macontrol.controller.policies.moveucb.algorithm import MoveUCB
from macontrol.controller.policies.policy import HasSettings, Policy
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Item, Recorder, SlotRecord
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.runtime.steering import (
    MOST_WAITING,
    Adjust,
    Adopt,
    Hold,
    Release,
    Request,
    Steering,
    Survey,
)
from macontrol.controller.survey.resurvey import Resurvey
from macontrol.controller.survey.samples import Survey as Samples
from macontrol.hal import Arrival
from macontrol.sim.bench.simulated import SimulatedBench
from support.scripted_bench import Kept, ScriptedBench, ScriptedStage


class Operator(Recorder):
    """Submits requests after given slots, as another thread would."""

    def __init__(self, steering: Steering, requests: dict[int, list[Request]]) -> None:
        self._steering = steering
        self._requests = requests

    def submit(self, item: Item) -> None:
        if isinstance(item, SlotRecord):
            for request in self._requests.pop(item.slot, ()):
                assert self._steering.submit(request)


class World:
    """The loop on the simulated bench, on a virtual clock."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.kept, clock = Kept(), VirtualClock()
        bench = SimulatedBench(config, clock, seed=config.run.seed)
        positions = np.array(config.survey_positions)
        rewards = bench.prior_survey(config.physical.to_mm(positions).tolist())
        self.policy = make_policy(config, Samples(positions, np.asarray(rewards)))
        guard = Guard.of(config, bench.stage)
        self.loop = SlotLoop(config, self.policy, guard, bench.probe, clock, self.kept)

    def run(self, slots: int, requests: dict[int, list[Request]] | None = None) -> list[SlotRecord]:
        if requests:
            self.loop._recorder.add(Operator(self.loop.steering, requests))
        self.loop.approach(self.policy.start_position)
        self.loop.run(slots=slots)
        return self.kept.slots


def actions(kept: Kept) -> list[tuple[int, str, float | None]]:
    return [(e.slot, e.detail, e.value) for e in kept.events(EventKind.ACTION)]


def test_without_a_request_every_record_is_the_same(paper: Config) -> None:
    # A settings change to the present value passes through the whole path and changes nothing.
    plain = World(paper).run(400)
    beta = paper.algorithm.beta_for("moveucb")
    steered = World(paper).run(400, {7: [Adjust("me", "beta", beta)], 9: [Release("me")]})
    assert steered == plain


def test_a_hold_is_effective_in_the_next_slot_and_its_slots_are_measured(paper: Config) -> None:
    world = World(paper)
    records = world.run(60, {5: [Hold("me")], 40: [Release("me")]})
    before = records[4]
    assert before.next_position != before.position  # it was on its way
    held = records[5:40]
    assert {record.position for record in held} == {before.position}
    assert all(record.commanded is None and record.reward is not None for record in held)
    assert records[41].position != before.position
    assert actions(world.kept) == [(6, "hold by me", None), (41, "resume by me", None)]


def test_goto_takes_strokes_and_holds_there(paper: Config) -> None:
    world = World(paper)
    records = world.run(120, {10: [Hold("me", 1.0)]})
    steps = [abs(b.position - a.position) for a, b in pairwise(records)]
    assert max(steps) <= paper.physical.rho_max + 1e-9
    way = [record.position for record in records[10:]]
    assert way == sorted(way, reverse=True)
    assert set(way[-50:]) == {1.0}
    assert {record.target for record in records[10:]} == {1.0}


def test_a_hold_on_the_way_ends_goto(paper: Config) -> None:
    records = World(paper).run(60, {10: [Hold("me", 1.0)], 20: [Hold("me")]})
    assert len({record.position for record in records[20:]}) == 1
    assert records[-1].position > 1.5


@pytest.mark.parametrize("late_slots", [0.2, 1.2, 3.2])
def test_a_held_antenna_stays_where_a_late_stage_is_found(paper: Config, late_slots: float) -> None:
    bench = ScriptedBench(paper)

    def late(stage: ScriptedStage, wanted_mm: float, deadline_s: float) -> Arrival | None:
        stage.arrives_s = deadline_s + late_slots * bench.slot_s
        return None

    bench.stage.moves[9] = late  # in slot 10: the first slot has no command
    operator = Operator(bench.loop.steering, {10: [Hold("me")]})
    bench.loop._recorder.add(operator)
    kept = bench.run(20)
    commands = len(bench.stage.commands)
    assert commands == 9  # none after the late one
    found = kept.slot(16).position
    assert found == pytest.approx(bench.stage.position_mm / bench.wavelength_mm)


def test_a_stage_fault_while_held_is_tolerated(paper: Config) -> None:
    bench = ScriptedBench(paper)

    def fail() -> Arrival:
        raise StageError("no answer")

    bench.stage.wheres[2] = fail
    operator = Operator(bench.loop.steering, {3: [Hold("me")]})
    bench.loop._recorder.add(operator)
    kept = bench.run(1000)
    assert len(kept.events(EventKind.STAGE_FAULT)) == 1
    assert len({record.position for record in kept.slots[5:]}) == 1


def test_a_setting_counts_from_the_next_decision(paper: Config) -> None:
    settings = {"beta": 3.0, "eta": 0.5, "margin": 0.4}
    requests: dict[int, list[Request]] = {
        50: [Adjust("me", key, value) for key, value in settings.items()]
    }
    world = World(paper)
    world.run(200, requests)
    assert isinstance(world.policy, MoveUCB)
    assert world.policy.settings == settings
    # A policy that was built with these values has the same Δ and the same surface.
    replaced = paper.replace(**{f"algorithm__{key}": value for key, value in settings.items()})
    other = World(replaced).policy
    assert isinstance(other, MoveUCB)
    assert world.policy.margin == other.margin
    for record in world.kept.slots:
        if record.reward is not None:
            other.observe(record.slot, record.position, record.reward)
    last = world.kept.slots[-1]
    other.decide(last.slot, last.position)
    np.testing.assert_allclose(world.policy.surface, other.surface, atol=1e-9)


@pytest.mark.parametrize(
    ("policy", "changes", "keys"),
    [
        ("moveucb", {}, {"beta", "eta", "margin"}),
        ("moveucb", {"algorithm__use_movement_cost": False}, {"beta", "margin"}),
        ("moveucb", {"algorithm__use_persistence": False}, {"beta", "eta"}),
        ("gp-ucb", {}, {"beta"}),
        ("fixed", {}, set()),
        ("epsilon-greedy", {}, set()),
        ("sweep-and-hold", {}, set()),
    ],
)
def test_what_has_no_effect_cannot_be_changed(
    paper: Config, policy: str, changes: dict[str, bool], keys: set[str]
) -> None:
    built: Policy = World(paper.replace(algorithm__policy=policy, **changes)).policy
    assert (set(built.settings) if isinstance(built, HasSettings) else set()) == keys


class TestResurvey:
    @pytest.mark.parametrize("start", [0.5, 5.5])
    def test_it_visits_every_position_and_keeps_its_reward(
        self, paper: Config, start: float
    ) -> None:
        config = paper.replace(physical__initial_position=start, run__seed=4)
        world, walk = World(config), Resurvey(config)
        records = world.run(400, {1: [Survey("me", walk)]})
        assert walk.is_done
        survey = walk.survey()
        np.testing.assert_allclose(survey.position, config.survey_positions, atol=1e-9)
        length = config.physical.region_length
        ends = [record.position for record in records if record.position in (0.0, length)]
        assert ends[0] == (0.0 if start < length / 2 else length)  # the nearer one
        rewards = {(record.position, record.reward) for record in records[1:]}
        assert set(zip(survey.position, survey.reward, strict=True)) <= rewards
        assert survey.noise_variance == pytest.approx(config.noise_std**2)
        steps = [abs(b.position - a.position) for a, b in pairwise(records)]
        assert max(steps) <= config.physical.rho_max + 1e-9

    def test_a_new_policy_follows_it(self, paper: Config) -> None:
        world, walk = World(paper), Resurvey(paper)
        world.run(300, {1: [Survey("me", walk)]})
        assert world.loop.decision.policy is walk
        assert world.loop.decision.previous is world.policy
        new = make_policy(paper, walk.survey())
        world.loop.steering.submit(Adopt(new, "5 samples", 0.5))
        world.loop.run(first_slot=1000, slots=50)
        assert world.loop.decision.policy is new
        assert isinstance(new, MoveUCB)
        assert new.posterior.slots[-1] == 1049  # type: ignore[attr-defined]
        (event,) = world.kept.events(EventKind.SURVEY)
        assert event == Event(1000, event.time_s, EventKind.SURVEY, "5 samples", 0.5)

    def test_a_hold_pauses_it(self, paper: Config) -> None:
        world, walk = World(paper), Resurvey(paper)
        records = world.run(500, {1: [Survey("me", walk)], 30: [Hold("me")], 100: [Release("me")]})
        assert len({record.position for record in records[30:100]}) == 1
        assert walk.is_done


def test_requests_that_wait_are_bounded() -> None:
    steering = Steering()
    taken = [steering.submit(Hold("me")) for _ in range(2 * MOST_WAITING)]
    assert sum(taken) == len(steering.requests) == MOST_WAITING


def test_after_the_end_no_request_is_accepted() -> None:
    steering = Steering()
    assert steering.submit(Hold("test"))
    assert steering.end() == [Hold("test")]
    assert not steering.submit(Release("test"))
    assert steering.end() == []
