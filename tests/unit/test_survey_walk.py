"""The survey that walks the rail, and the file that keeps it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.config.errors import HardwareError
from macontrol.controller.clock import VirtualClock
from macontrol.controller.record import Event, Recorder
from macontrol.controller.survey import Survey
from macontrol.controller.survey_file import fresh_survey, save_survey
from macontrol.controller.survey_walk import SurveyWalk, walk_rail
from macontrol.hal import Measurement, ProbeError
from macontrol.sim.bench import SimulatedBench
from macontrol.sim.channel import Channel


class ScriptedProbe:
    """Answers each request by what a script says of its attempt: a reward, or invalid, or None."""

    def __init__(self, answers: Sequence[float | None]) -> None:
        self._answers = list(answers)
        self._ready: list[Measurement] = []

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        answer = self._answers.pop(0)
        if answer is not None:
            self._ready.append(Measurement(slot, answer, answer == answer, reason="clipping"))

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        pass


@pytest.fixture
def lab() -> Config:
    return load_config(preset="lab-2g4-grbl", assignments=["survey.samples=13"])


def test_the_rail_is_walked_through_the_guard_and_seen_where_the_stage_is(lab: Config) -> None:
    clock = VirtualClock()
    bench = SimulatedBench(lab, clock, seed=5)
    survey = walk_rail(lab, bench, clock, Recorder(), is_stopped=lambda: False)
    assert survey.position == pytest.approx(lab.survey_positions, abs=1e-3)
    # The simulated channel drifts a slot a measurement, which is little beside the noise.
    exact = Channel(lab, 5).rewards(survey.position)
    assert np.abs(survey.reward - exact).max() < 5 * lab.noise_std


def test_an_invalid_or_missing_measurement_is_tried_again(lab: Config) -> None:
    probe = ScriptedProbe([1.0, nan, None, 2.0, 3.0])
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda position: position, Recorder())
    survey = walk.run([0.0, 1.0, 2.0])
    assert list(survey.position) == [0.0, 1.0, 2.0]
    assert list(survey.reward) == [1.0, 2.0, 3.0]


def test_a_position_without_a_reward_is_left_out(lab: Config) -> None:
    probe = ScriptedProbe([1.0, nan, nan, nan, 3.0])
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda position: position, Recorder())
    survey = walk.run([0.0, 1.0, 2.0])
    assert list(survey.position) == [0.0, 2.0]


def test_a_reward_that_cannot_be_is_left_out(lab: Config) -> None:
    probe = ScriptedProbe([1.0, 1e9, 1e9, 1e9, 3.0])
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda position: position, Recorder())
    assert list(walk.run([0.0, 1.0, 2.0]).reward) == [1.0, 3.0]


def test_a_survey_with_too_few_rewards_is_refused(lab: Config) -> None:
    probe = ScriptedProbe([1.0] + [nan] * 9)
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda position: position, Recorder())
    with pytest.raises(ProbeError, match="1 of 4 positions"):
        walk.run([0.0, 1.0, 2.0, 2.4])


def test_it_ends_when_told_to(lab: Config) -> None:
    walk = SurveyWalk(
        lab, ScriptedProbe([1.0]), VirtualClock(), lambda position: position, Recorder()
    )
    seen: list[int] = []
    survey = walk.run([0.0, 1.0], on_progress=seen.append, is_stopped=lambda: bool(seen))
    assert list(survey.position) == [0.0]


class FailingProbe(ScriptedProbe):
    """Fails so many times when it is asked, and then does as it is told."""

    def __init__(self, answers: Sequence[float | None], failures: int) -> None:
        super().__init__(answers)
        self._failures = failures

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        if not self._failures:
            super().request(slot, start_s, end_s)

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        if self._failures:
            self._failures -= 1
            raise ProbeError("the server hung up")
        return super().collect(deadline_s)


class Events(Recorder):
    def __init__(self) -> None:
        self.told: list[str] = []

    def hand_over(self, item: object) -> None:
        assert isinstance(item, Event)
        self.told.append(f"{item.kind}: {item.detail}")


def test_a_probe_that_fails_for_a_while_is_waited_for(lab: Config) -> None:
    events, clock = Events(), VirtualClock()
    walk = SurveyWalk(lab, FailingProbe([1.0, 2.0], 20), clock, lambda x: x, events)
    survey = walk.run([0.0, 1.0])
    assert list(survey.reward) == [1.0, 2.0]
    assert events.told == ["probe-fault: the server hung up"] * 20 + [
        "recovery: the probe works again"
    ]


def test_a_probe_that_fails_for_too_long_ends_the_survey_with_the_cause(lab: Config) -> None:
    clock = VirtualClock()
    walk = SurveyWalk(lab, FailingProbe([], 1000), clock, lambda x: x, Recorder())
    with pytest.raises(HardwareError, match=r"probe has failed for 30 s .*: the server hung up"):
        walk.run([0.0, 1.0])


def test_a_measurement_is_not_waited_for_after_a_signal(lab: Config) -> None:
    """It may take seconds to come: a slot may be long, and a radio may stall."""
    clock, slow = VirtualClock(), lab.replace(physical__slot_duration_s=60.0)
    walk = SurveyWalk(slow, ScriptedProbe([None] * 9), clock, lambda x: x, Recorder())
    survey = walk.run([0.0, 1.0], is_stopped=lambda: clock.now() >= 5.0)
    assert len(survey.reward) == 0
    assert clock.now() < 5.5


def test_a_probe_that_fails_is_not_waited_for_after_a_signal(lab: Config) -> None:
    events = Events()
    walk = SurveyWalk(lab, FailingProbe([], 1000), VirtualClock(), lambda x: x, events)
    survey = walk.run([0.0, 1.0], is_stopped=lambda: len(events.told) >= 3)
    assert len(survey.reward) == 0


class TestSurveyFile:
    survey = Survey(np.array([0.0, 1.2, 2.4]), np.array([1.0, 3.0, 2.0]))

    def test_a_fresh_one_of_the_same_bench_is_used_again(self, lab: Config, tmp_path: Path) -> None:
        path = tmp_path / "deep" / "survey.npz"
        save_survey(path, lab, self.survey)
        found = fresh_survey(path, lab)
        assert found is not None
        assert list(found.position) == [0.0, 1.2, 2.4]
        assert list(found.reward) == [1.0, 3.0, 2.0]
        assert os.listdir(path.parent) == ["survey.npz"]

    def test_how_often_the_stage_is_homed_makes_no_other_bench(
        self, lab: Config, tmp_path: Path
    ) -> None:
        save_survey(tmp_path / "survey.npz", lab, self.survey)
        other = lab.replace(stage__rehome_every_s=600.0, stage__homing="allow")
        assert fresh_survey(tmp_path / "survey.npz", other) is not None

    @pytest.mark.parametrize("change", [{"survey__fresh_s": 0.0}, {"probe__gain_db": 3.0}])
    def test_a_stale_one_or_one_of_another_bench_is_not(
        self, lab: Config, tmp_path: Path, change: dict[str, float]
    ) -> None:
        save_survey(tmp_path / "survey.npz", lab, self.survey)
        assert fresh_survey(tmp_path / "survey.npz", lab.replace(**change)) is None

    @pytest.mark.parametrize("content", [b"", b"nonsense", None])
    def test_a_broken_or_missing_one_is_none(
        self, lab: Config, tmp_path: Path, content: bytes | None
    ) -> None:
        path = tmp_path / "survey.npz"
        if content is not None:
            path.write_bytes(content)
        assert fresh_survey(path, lab) is None

    @pytest.mark.parametrize(
        ("position", "reward"),
        [
            ([0.0, 1.2, 2.4], [1.0, nan, 2.0]),
            ([0.0, 1.2, 2.4], [1.0, inf, 2.0]),
            ([0.0, 1.2, 2.4], [1.0, 1e300, 2.0]),
            ([0.0, nan, 2.4], [1.0, 3.0, 2.0]),
            ([0.0, 99.0, -5.0], [1.0, 3.0, 2.0]),
            ([0.0, 1.2, 2.4], [1.0, 3.0]),
            ([[0.0, 1.2]], [[1.0, 3.0]]),
            ([0.3], [1.0]),
            ([], []),
        ],
    )
    def test_one_that_no_walk_can_have_given_is_none(
        self, lab: Config, tmp_path: Path, position: list[float], reward: list[float]
    ) -> None:
        path = tmp_path / "survey.npz"
        save_survey(path, lab, Survey(np.array(position), np.array(reward)))
        assert fresh_survey(path, lab) is None

    def test_any_bit_may_be_flipped(self, lab: Config, tmp_path: Path) -> None:
        path = tmp_path / "survey.npz"
        save_survey(path, lab, self.survey)
        whole = path.read_bytes()
        long = whole.index("carrier_frequency_hz".encode("utf-32-le"))  # the bench: skip most of it
        for at in [*range(long + 80), *range(whole.index(b"PK", long), len(whole))]:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            found = fresh_survey(path, lab)
            assert found is None or np.array_equal(found.reward, self.survey.reward)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("time", [1.0, 2.0]),
            ("time", "x"),
            ("position", [0j, 1.2 + 1j, 2.4]),
            ("reward", ["a", "b", "c"]),
            ("reward", None),
        ],
    )
    def test_one_of_other_kinds_of_values_is_none(
        self, lab: Config, tmp_path: Path, name: str, content: object
    ) -> None:
        path = tmp_path / "survey.npz"
        save_survey(path, lab, self.survey)
        with np.load(path) as kept:
            values = dict(kept)
        assert fresh_survey(path, lab) is not None
        if content is None:
            del values[name]
        else:
            values[name] = np.array(content)
        np.savez(path, **values)
        assert fresh_survey(path, lab) is None

    def test_what_is_no_file_is_none_and_is_not_waited_for(
        self, lab: Config, tmp_path: Path
    ) -> None:
        path = tmp_path / "survey.npz"
        os.mkfifo(path)
        assert fresh_survey(path, lab) is None
