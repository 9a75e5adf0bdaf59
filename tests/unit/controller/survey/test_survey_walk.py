"""The survey of the rail, and its file."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.config.model.errors import DataError, HardwareError, ProbeError, StageError
from macontrol.config.model.reward import Reward
from macontrol.controller.recording.records import Event, Recorder
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.observation import Observation
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.file import (
    NoSurvey,
    fresh_survey,
    read_walks,
    save_survey,
    save_walks,
)
from macontrol.controller.survey.samples import Sample, Survey
from macontrol.controller.survey.walk import SurveyWalk, walk_rail
from macontrol.hal import Arrival, Measurement
from macontrol.hal.probe import UNKNOWN_SIGNAL, Signal
from macontrol.sim.bench.simulated import SimulatedBench, SimulatedStage
from macontrol.sim.world.channel import Channel


class ClaimingStage(SimulatedStage):
    """It does not move, claims the arrival of three moves, and then raises an error."""

    claimed = 0

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        self.claimed += 1
        self._clock.sleep_until(self._clock.now() + 0.05)
        if self.claimed % 4 == 0:
            raise StageError("it has not moved")
        return Arrival(position_mm, True, self._clock.now())


class ScriptedProbe:
    """Answers each request as scripted: with a reward, with an invalid one, or not at all."""

    def __init__(
        self, answers: Sequence[float | None], uncertainties: Sequence[float] = ()
    ) -> None:
        self._answers = list(answers)
        self._uncertainties = list(uncertainties)
        self._ready: list[Measurement] = []

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        answer = self._answers.pop(0)
        if answer is not None:
            sigma = self._uncertainties.pop(0) if self._uncertainties else nan
            self._ready.append(
                Measurement(slot, Reward(answer, sigma) if answer == answer else None, "clipping")
            )

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        pass


@pytest.fixture
def lab() -> Config:
    return load_config(preset="lab-2g4-grbl", assignments=["survey.samples=13"])


def test_the_rail_is_walked_through_the_guard_and_positions_are_the_reported_ones(
    lab: Config,
) -> None:
    clock = VirtualClock()
    bench = SimulatedBench(lab, clock, seed=5)
    survey = walk_rail(lab, bench, clock, Recorder(), stop=StopToken())
    assert survey.position == pytest.approx(lab.survey_positions, abs=1e-3)
    # The simulated channel drifts a slot a measurement, which is little beside the noise.
    exact = Channel(lab, 5).rewards(survey.position)
    assert np.abs(survey.reward - exact).max() < 5 * lab.noise_std


@pytest.mark.fault("driver-raises")
@pytest.mark.parametrize("method", ["request", "collect"])
@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(0)])
def test_a_probe_may_raise_anything(
    lab: Config, method: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again, for as long as a probe may fail."""
    errors = [error]
    probe = ScriptedProbe([1.0] * 20)
    real = getattr(probe, method)

    def call(*arguments: float) -> object:
        if errors:
            raise errors.pop()
        return real(*arguments)

    monkeypatch.setattr(probe, method, call)
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda x: x, Recorder())
    assert len(walk.run([0.0, 1.0, 2.0]).reward) == 3


@pytest.mark.fault("driver-raises")
@pytest.mark.parametrize("odd", [None, 3.0, "much"])
def test_a_probe_may_measure_anything(
    lab: Config, odd: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [[odd]]
    probe = ScriptedProbe([1.0] * 20)
    real = probe.collect
    monkeypatch.setattr(probe, "collect", lambda end_s: answers.pop() if answers else real(end_s))
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda x: x, Recorder())
    assert len(walk.run([0.0, 1.0, 2.0]).reward) == 3


@pytest.mark.fault("driver-raises")
def test_a_measurement_may_have_anything_above_its_floor(lab: Config) -> None:
    class OddProbe(ScriptedProbe):
        def collect(self, deadline_s: float) -> Sequence[Measurement]:
            found = super().collect(deadline_s)
            return [Measurement(one.slot, one.value, above_floor=None) for one in found]  # type: ignore[arg-type]

    walk = SurveyWalk(lab, OddProbe([1.0] * 500), VirtualClock(), lambda x: x, Recorder())
    with pytest.raises(HardwareError, match="the probe has failed for"):
        walk.run([0.0, 1.0, 2.0])


class MutedProbe:
    """A strong signal, except for some requests with the transmitter off."""

    def __init__(self, off: range) -> None:
        self.requests = 0
        self._off = off
        self._ready: list[Measurement] = []

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self.requests += 1
        self._ready = [
            Measurement(slot, Reward(0.0, 0.01), "no-signal", 0.1, "is it on?")
            if self.requests in self._off
            else Measurement(slot, Reward(2.0, 0.01), "", 50.0)
        ]

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        pass


class TestLossOfSignal:
    POSITIONS = tuple(k / 25 for k in range(50))

    @pytest.mark.fault("signal-lost-in-survey")
    def test_a_lost_signal_is_waited_for_and_gives_no_zero(self, lab: Config) -> None:
        probe, events = MutedProbe(range(11, 31)), Events()
        survey = SurveyWalk(lab, probe, VirtualClock(), lambda x: x, events).run(self.POSITIONS)
        assert set(survey.reward) == {2.0}
        # The seven before it was recognised are lost, and the one in which it may have vanished;
        # the place of the eighth is measured again.
        assert list(survey.position) == [*self.POSITIONS[:9], *self.POSITIONS[17:]]
        assert probe.requests == len(self.POSITIONS) + 14

    @pytest.mark.fault("signal-lost-in-survey")
    def test_a_signal_that_does_not_come_back_ends_the_survey(self, lab: Config) -> None:
        walk = SurveyWalk(lab, MutedProbe(range(11, 10_000)), VirtualClock(), float, Events())
        with pytest.raises(HardwareError, match="no-signal; is it on"):
            walk.run(self.POSITIONS)


@pytest.mark.parametrize(
    ("uncertainties", "expected"),
    [([0.1, 0.3, 0.2], 0.14 / 3), ([0.1, nan, 0.3], 0.05), ([nan, nan, nan], 0.0)],
)
def test_the_noise_is_the_one_that_the_probe_reports(
    lab: Config, uncertainties: list[float], expected: float
) -> None:
    probe = ScriptedProbe([1.0, 2.0, 4.0], uncertainties)
    survey = SurveyWalk(lab, probe, VirtualClock(), lambda x: x, Events()).run([0.0, 1.0, 2.0])
    assert survey.noise_variance == pytest.approx(expected)
    assert survey.sigma_f2(lab) == pytest.approx(7 / 3 - expected)
    assert survey.walked_wall_s == pytest.approx(time.time(), abs=60)


def test_an_invalid_or_missing_measurement_is_tried_again(lab: Config) -> None:
    probe = ScriptedProbe([1.0, nan, None, 2.0, 3.0])
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda position: position, Recorder())
    survey = walk.run([0.0, 1.0, 2.0])
    assert list(survey.position) == [0.0, 1.0, 2.0]
    assert list(survey.reward) == [1.0, 2.0, 3.0]


def test_a_late_measurement_is_not_used_for_the_next_position(lab: Config) -> None:
    """The measurements of the first position arrive with those of the second."""

    class LateProbe(ScriptedProbe):
        def collect(self, deadline_s: float) -> Sequence[Measurement]:
            return super().collect(deadline_s) if len(self._answers) < 3 else []

    probe = LateProbe([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda position: position, Recorder())
    survey = walk.run([0.0, 1.0, 2.0])
    assert list(survey.position) == [1.0, 2.0]
    assert list(survey.reward) == [4.0, 5.0]


@pytest.mark.fault("survey-position-without-reward")
def test_a_position_without_a_reward_is_left_out(lab: Config) -> None:
    probe = ScriptedProbe([1.0, nan, nan, nan, 3.0])
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda position: position, Recorder())
    survey = walk.run([0.0, 1.0, 2.0])
    assert list(survey.position) == [0.0, 2.0]


def test_an_impossible_reward_is_left_out(lab: Config) -> None:
    probe = ScriptedProbe([1.0, 1e9, 1e9, 1e9, 3.0])
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda position: position, Recorder())
    assert list(walk.run([0.0, 1.0, 2.0]).reward) == [1.0, 3.0]


@pytest.mark.fault("survey-position-without-reward")
@pytest.mark.parametrize(("rewards", "positions"), [(1, 2), (1, 4), (2, 5), (3, 7)])
def test_a_survey_with_too_few_rewards_is_refused(
    lab: Config, rewards: int, positions: int
) -> None:
    """It takes two, and half of the positions."""
    for enough in (False, True):
        given = [1.0] * (rewards + enough)
        probe = ScriptedProbe(given + [nan] * 3 * (positions - len(given)))
        walk = SurveyWalk(lab, probe, VirtualClock(), lambda position: position, Recorder())
        places = [0.1 * place for place in range(positions)]
        if enough:
            assert list(walk.run(places).reward) == given
        else:
            with pytest.raises(ProbeError, match=f"{rewards} of {positions} positions"):
                walk.run(places)


def test_it_ends_on_a_stop_request(lab: Config) -> None:
    stop = StopToken()
    walk = SurveyWalk(lab, ScriptedProbe([1.0]), VirtualClock(), lambda x: x, Recorder(), stop)
    survey = walk.run([0.0, 1.0], on_progress=lambda _: stop.request())
    assert list(survey.position) == [0.0]


class FailingProbe(ScriptedProbe):
    """Fails for a number of requests, and then answers as scripted."""

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
        self.reported: list[str] = []

    def submit(self, item: object) -> None:
        assert isinstance(item, Event)
        self.reported.append(f"{item.kind}: {item.detail}")


def test_a_probe_that_fails_for_a_while_is_waited_for(lab: Config) -> None:
    events, clock = Events(), VirtualClock()
    walk = SurveyWalk(lab, FailingProbe([1.0, 2.0], 20), clock, lambda x: x, events)
    survey = walk.run([0.0, 1.0])
    assert list(survey.reward) == [1.0, 2.0]
    assert events.reported == ["probe-fault: the server hung up"] * 20 + [
        "recovery: the probe works again"
    ]


@pytest.mark.fault("radio-lost-in-survey")
def test_a_probe_that_fails_for_too_long_ends_the_survey_with_the_cause(lab: Config) -> None:
    clock = VirtualClock()
    walk = SurveyWalk(lab, FailingProbe([], 1000), clock, lambda x: x, Recorder())
    with pytest.raises(HardwareError, match=r"probe has failed for 30 s .*: the server hung up"):
        walk.run([0.0, 1.0])


def test_a_stage_that_claims_its_arrivals_ends_the_survey_after_the_patience(lab: Config) -> None:
    ends = StopToken()
    clock = VirtualClock(on_wait=lambda: ends.request() if clock.now() > 1000.0 else None)
    bench = SimulatedBench(lab, clock, seed=5)
    bench.stage = ClaimingStage(bench.stage.description, clock, 100.0)
    with pytest.raises(HardwareError, match="it has not moved"):
        walk_rail(lab, bench, clock, Recorder(), stop=ends)
    assert clock.now() < 2 * lab.timing.fault_patience_s


def test_a_probe_that_never_answers_ends_the_survey_after_the_patience(lab: Config) -> None:
    clock, events, visited = VirtualClock(), Events(), list[float]()

    def go_to(position: float) -> float:
        visited.append(position)
        return position

    walk = SurveyWalk(lab, ScriptedProbe([None] * 200), clock, go_to, events)
    with pytest.raises(HardwareError, match="no measurement arrives"):
        walk.run(lab.survey_positions)
    patience_s = lab.timing.fault_patience_s
    assert patience_s < clock.now() < patience_s + 10.0
    assert len(visited) < len(lab.survey_positions)
    assert {each.partition(":")[0] for each in events.reported} == {"probe-fault"}


def test_a_measurement_is_not_waited_for_after_a_signal(lab: Config) -> None:
    """It can take seconds: a slot can be long, and a radio can stall."""
    stop, slow = StopToken(), lab.replace(physical__slot_duration_s=60.0)
    clock = VirtualClock(on_wait=lambda: stop.request() if clock.now() >= 5.0 else None)
    walk = SurveyWalk(slow, ScriptedProbe([None] * 9), clock, lambda x: x, Recorder(), stop)
    survey = walk.run([0.0, 1.0])
    assert len(survey.reward) == 0
    assert clock.now() < 5.5


def test_a_probe_that_fails_is_not_waited_for_after_a_signal(lab: Config) -> None:
    events, stop = Events(), StopToken()
    clock = VirtualClock(on_wait=lambda: stop.request() if len(events.reported) >= 3 else None)
    walk = SurveyWalk(lab, FailingProbe([], 1000), clock, lambda x: x, events, stop)
    survey = walk.run([0.0, 1.0])
    assert len(survey.reward) == 0


def test_each_sample_has_its_time_and_what_the_probe_knows(lab: Config) -> None:
    clock = VirtualClock()
    signal = Signal(-31.5, "dBFS", -60.0, 28.5, 0.0, 4800)

    class Radio(ScriptedProbe):
        def collect(self, deadline_s: float) -> Sequence[Measurement]:
            return [replace(found, signal=signal) for found in super().collect(deadline_s)]

    def go_to(position: float) -> float:
        clock.sleep_until(clock.now() + 10.0)
        return position

    walk = SurveyWalk(lab, Radio([1.0, 2.0], [0.1, nan]), clock, go_to, Recorder())
    first, second = walk.run([0.0, 1.0]).samples
    assert first.signal == second.signal == signal
    assert (first.uncertainty, second.reward) == (0.1, 2.0)
    assert second.unix_s - first.unix_s == pytest.approx(10.0, abs=0.02)
    # The measurement ends at the end of its interval, or as soon as it is collected.
    interval_s = lab.slot_timing.measure_s
    assert time.time() - second.unix_s == pytest.approx(-interval_s / 2, abs=0.5)


def test_a_walk_from_right_to_left_gives_the_survey_from_left_to_right(lab: Config) -> None:
    walk = SurveyWalk(lab, ScriptedProbe([1.0, 2.0, 3.0]), VirtualClock(), lambda x: x, Recorder())
    survey = walk.run([2.0, 1.0, 0.0])
    assert list(survey.position) == [0.0, 1.0, 2.0]
    assert list(survey.reward) == [3.0, 2.0, 1.0]


def test_a_reward_that_is_withdrawn_leaves_the_earlier_walk(lab: Config) -> None:
    probe = ScriptedProbe([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    walk = SurveyWalk(lab, probe, VirtualClock(), lambda x: x, Recorder())
    walk.run([0.0, 1.0, 2.0])
    walk.run([2.0, 1.0, 0.0])
    last = sorted(walk._seen)[2]
    walk._withdraw([Observation(last, nan, False)])
    assert [list(survey.reward) for survey in walk.finished] == [[1.0, 2.0], [6.0, 5.0, 4.0]]


def test_a_walk_that_was_stopped_is_not_finished(lab: Config) -> None:
    stop = StopToken()
    walk = SurveyWalk(lab, ScriptedProbe([1.0] * 9), VirtualClock(), lambda x: x, Recorder(), stop)
    walk.run([0.0, 1.0, 2.0])
    walk.run([2.0, 1.0, 0.0], on_progress=lambda _: stop.request())
    assert [len(survey.reward) for survey in walk.finished] == [3]


BENCH = {"firmware": "Grbl 1.1h", "port": "USB 1a86:7523 1-1.2"}


class TestSurveyFile:
    survey = Survey(np.array([0.0, 1.2, 2.3]), np.array([1.0, 3.0, 2.0]))

    def test_a_fresh_survey_of_the_same_bench_is_used(self, lab: Config, tmp_path: Path) -> None:
        path = tmp_path / "survey.npz"
        save_survey(path, lab, self.survey, BENCH)
        found = fresh_survey(path, lab, BENCH)
        assert isinstance(found, Survey)
        assert list(found.position) == [0.0, 1.2, 2.3]
        assert list(found.reward) == [1.0, 3.0, 2.0]
        assert os.listdir(path.parent) == ["survey.npz"]

    def test_the_homing_interval_does_not_change_the_bench(
        self, lab: Config, tmp_path: Path
    ) -> None:
        save_survey(tmp_path / "survey.npz", lab, self.survey, BENCH)
        other = lab.replace(stage__rehome_every_s=600.0, stage__homing="allow")
        assert isinstance(fresh_survey(tmp_path / "survey.npz", other, BENCH), Survey)

    @pytest.mark.parametrize("change", [{"survey__fresh_s": 0.0}, {"probe__gain_db": 3.0}])
    def test_an_old_survey_and_one_of_another_bench_are_not_used(
        self, lab: Config, tmp_path: Path, change: dict[str, float]
    ) -> None:
        save_survey(tmp_path / "survey.npz", lab, self.survey, BENCH)
        assert isinstance(
            fresh_survey(tmp_path / "survey.npz", lab.replace(**change), BENCH), NoSurvey
        )

    @pytest.mark.fault("other-board-since-last-run")
    @pytest.mark.parametrize(
        ("other", "reason"),
        [
            (BENCH | {"port": "USB 1a86:7523 1-1.3"}, "port was USB 1a86:7523 1-1.2 and is USB"),
            ({"firmware": "Grbl 1.1h"}, "and is unknown"),
            (BENCH | {"device": "7"}, "device was unknown and is 7"),
        ],
    )
    def test_a_survey_of_another_board_is_not_used_and_the_reason_names_the_part(
        self, lab: Config, tmp_path: Path, other: dict[str, str], reason: str
    ) -> None:
        save_survey(tmp_path / "survey.npz", lab, self.survey, BENCH)
        found = fresh_survey(tmp_path / "survey.npz", lab, other)
        assert isinstance(found, NoSurvey)
        assert reason in found.reason

    @pytest.mark.fault("other-board-since-last-run")
    def test_a_survey_without_identity_is_not_used(self, lab: Config, tmp_path: Path) -> None:
        path = tmp_path / "survey.npz"
        save_survey(path, lab, self.survey, BENCH)
        with np.load(path) as kept:
            np.savez(path, **{name: kept[name] for name in kept if name != "identity"})
        found = fresh_survey(path, lab, BENCH)
        assert isinstance(found, NoSurvey)
        assert "identity" in found.reason

    def test_the_probes_noise_and_the_time_of_the_survey_are_stored(
        self, lab: Config, tmp_path: Path
    ) -> None:
        walked = Survey(self.survey.position, self.survey.reward, 0.04, time.time() - 10)
        save_survey(tmp_path / "survey.npz", lab, walked, BENCH)
        found = fresh_survey(tmp_path / "survey.npz", lab, BENCH)
        assert isinstance(found, Survey)
        assert (found.noise_variance, found.walked_wall_s) == (0.04, walked.walked_wall_s)
        assert found.sigma_f2(lab) == pytest.approx(1.0 - 0.04)

    def test_what_is_known_of_each_sample_is_stored_walk_by_walk(
        self, lab: Config, tmp_path: Path
    ) -> None:
        signals = [UNKNOWN_SIGNAL, Signal(-31.5, "dBFS", -60.0, 28.5, 0.25, 4800)]
        walks = [
            Survey.of([Sample(x, x / 2, 0.1 * x, 100.0 + x, signal) for x in (0.5, 1.0)], 200.0 + n)
            for n, signal in enumerate(signals)
        ]
        save_walks(tmp_path / "survey.npz", lab, walks, BENCH)
        config, found = read_walks(tmp_path / "survey.npz")
        assert config == lab
        assert [walk.samples for walk in found] == [walk.samples for walk in walks]
        assert [walk.walked_wall_s for walk in found] == [200.0, 201.0]
        assert [walk.noise_variance for walk in found] == [walk.noise_variance for walk in walks]

    def test_the_next_run_uses_the_last_walk(self, lab: Config, tmp_path: Path) -> None:
        now = time.time()
        walks = [
            Survey.of([Sample(x, x + n, 0.1, now + x) for x in (0.0, 1.0, 2.0)], now - 50 + n)
            for n in range(2)
        ]
        save_walks(tmp_path / "survey.npz", lab, walks, BENCH)
        found = fresh_survey(tmp_path / "survey.npz", lab, BENCH)
        assert isinstance(found, Survey)
        assert list(found.reward) == [1.0, 2.0, 3.0]
        assert found.walked_wall_s == now - 49

    def test_a_survey_without_times_is_used_by_a_run_and_is_no_record_of_the_site(
        self, lab: Config, tmp_path: Path
    ) -> None:
        path = tmp_path / "survey.npz"
        save_survey(path, lab, self.survey, BENCH)
        with np.load(path) as kept:
            known = ("position", "reward", "noise_variance", "time", "bench", "identity")
            np.savez(path, **{name: kept[name] for name in known})
        assert isinstance(fresh_survey(path, lab, BENCH), Survey)
        with pytest.raises(DataError, match="of an earlier version"):
            read_walks(path)

    @pytest.mark.fault("survey-file-damaged")
    @pytest.mark.parametrize("content", [b"", b"nonsense", None])
    def test_a_damaged_or_missing_survey_is_not_used(
        self, lab: Config, tmp_path: Path, content: bytes | None
    ) -> None:
        path = tmp_path / "survey.npz"
        if content is not None:
            path.write_bytes(content)
        assert isinstance(fresh_survey(path, lab, BENCH), NoSurvey)

    @pytest.mark.fault("survey-file-damaged")
    @pytest.mark.parametrize(
        ("position", "reward"),
        [
            ([0.0, 1.2, 2.3], [1.0, nan, 2.0]),
            ([0.0, 1.2, 2.3], [1.0, inf, 2.0]),
            ([0.0, 1.2, 2.3], [1.0, 1e300, 2.0]),
            ([0.0, nan, 2.3], [1.0, 3.0, 2.0]),
            ([0.0, 99.0, -5.0], [1.0, 3.0, 2.0]),
            ([0.0, 1.2, 2.3], [1.0, 3.0]),
            ([[0.0, 1.2]], [[1.0, 3.0]]),
            ([0.3], [1.0]),
            ([], []),
        ],
    )
    def test_an_impossible_survey_is_not_used(
        self, lab: Config, tmp_path: Path, position: list[float], reward: list[float]
    ) -> None:
        path = tmp_path / "survey.npz"
        save_survey(path, lab, Survey(np.array(position), np.array(reward)), BENCH)
        assert isinstance(fresh_survey(path, lab, BENCH), NoSurvey)

    @pytest.mark.fault("survey-file-damaged")
    def test_no_flipped_bit_raises(self, lab: Config, tmp_path: Path) -> None:
        path = tmp_path / "survey.npz"
        save_survey(path, lab, self.survey, BENCH)
        whole = path.read_bytes()
        # Skip most of the two long texts, the bench and the config.
        bench = whole.index("carrier_frequency_hz".encode("utf-32-le"))
        after = whole.index(b"PK", bench)
        config = whole.index("carrier_frequency_hz".encode("utf-32-le"), after)
        end = whole.index(b"PK\1\2")
        for at in (*range(bench + 80), *range(after, config, 3), *range(end, len(whole), 3)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            found = fresh_survey(path, lab, BENCH)
            assert isinstance(found, NoSurvey) or np.array_equal(found.reward, self.survey.reward)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("time", [1.0, 2.0]),
            ("time", "x"),
            ("position", [0j, 1.2 + 1j, 2.3]),
            ("reward", ["a", "b", "c"]),
            ("reward", None),
        ],
    )
    def test_a_survey_with_values_of_other_types_is_not_used(
        self, lab: Config, tmp_path: Path, name: str, content: object
    ) -> None:
        path = tmp_path / "survey.npz"
        save_survey(path, lab, self.survey, BENCH)
        with np.load(path) as kept:
            values = dict(kept)
        assert isinstance(fresh_survey(path, lab, BENCH), Survey)
        if content is None:
            del values[name]
        else:
            values[name] = np.array(content)
        np.savez(path, **values)
        assert isinstance(fresh_survey(path, lab, BENCH), NoSurvey)

    def test_what_is_not_a_file_is_not_used_and_not_waited_for(
        self, lab: Config, tmp_path: Path
    ) -> None:
        path = tmp_path / "survey.npz"
        os.mkfifo(path)
        assert isinstance(fresh_survey(path, lab, BENCH), NoSurvey)
