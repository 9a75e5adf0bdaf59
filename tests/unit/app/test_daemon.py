"""The daemon in this process: what it connects, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from macontrol import daemon as daemon_module
from macontrol import realtime_slots, starting_point, stop_signals
from macontrol.cli import main
from macontrol.config import Config, load_config
from macontrol.config.model.errors import (
    HardwareError,
    MacontrolError,
    PolicyError,
    StageBrokenError,
    StageError,
    UsageError,
)
from macontrol.config.model.slot_timing import SlotTiming
from macontrol.controller.host.realtime import ORDINARY_DECISION_S, RealtimeReport
from macontrol.controller.policies.policy import Decision
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.records import EventKind, Item, Recorder, SlotRecord
from macontrol.controller.recording.runfile import (
    RunFileRecorder,
    default_run_folder,
    new_run_path,
    read_run,
    runs_in,
)
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.runtime.steering import Hold, Steering
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.file import keep_survey
from macontrol.controller.survey.samples import Survey
from macontrol.daemon import Daemon
from macontrol.hal import Arrival
from macontrol.recording import Recording
from macontrol.run_options import RunOptions
from macontrol.sim.bench.simulated import SimulatedBench, SimulatedStage
from macontrol.sim.research.episode import play
from macontrol.sim.research.oracle import oracle_value
from macontrol.sim.world.channel import survey_rewards
from macontrol.sim.world.rewardmap import simulate_map
from macontrol.starting_point import StartingPoint
from macontrol.stop_signals import ForcedStop, StopSignals


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write only into the test's folder, and keep normal scheduling."""
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "locks"))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    report = RealtimeReport((), priority=0)
    monkeypatch.setattr(realtime_slots, "enter_realtime", lambda: report)


def options(**changes: Any) -> RunOptions:
    plain: dict[str, Any] = {
        "backend": "sim",
        "name": "sim",
        "yes": False,
        "slots": 50,
        "duration_s": None,
        "fast": True,
        "run_file": None,
        "resume": False,
        "cold": False,
        "regret": False,
        "faults": None,
        "log": "json",
    }
    known = {field.name for field in fields(RunOptions)}
    return RunOptions(**{key: value for key, value in (plain | changes).items() if key in known})


def log(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


class StrangePolicy:
    """A policy with an action of the test in slot 20."""

    start_position = 3.0

    def __init__(self, strange: Callable[[], object]) -> None:
        self._strange = strange

    def resume(self, target: float) -> None: ...

    def observe(self, slot: int, position: float, reward: float) -> None: ...

    def withdraw(self, slot: int) -> None: ...

    def decide(self, slot: int, position: float) -> Decision:
        if slot == 20:
            self._strange()
        step = position + (0.06 if slot % 2 else -0.06)
        return Decision(step, step, False, False, float("nan"))


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    def install(act: Callable[[], object]) -> None:
        monkeypatch.setattr(daemon_module, "make_policy", lambda *_, **__: StrangePolicy(act))

    return install


@pytest.fixture
def strange_slot(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Something happens in slot 20, in the code of the loop."""

    def install(act: Callable[[], object]) -> None:
        real = SlotLoop._run_slot

        def run_slot(loop: SlotLoop, slot: int, *rest: float) -> tuple[float | None, float]:
            if slot == 20:
                act()
            return real(loop, slot, *rest)

        monkeypatch.setattr(SlotLoop, "_run_slot", run_slot)

    return install


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the stage was stopped."""
    moments: list[float] = []
    real = SimulatedStage.stop

    def stop(stage: SimulatedStage) -> None:
        moments.append(stage._clock.now())
        real(stage)

    monkeypatch.setattr(SimulatedStage, "stop", stop)
    return moments


class TestRun:
    def test_a_fast_run_is_the_papers_run(
        self, paper: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "run.sqlite"
        config = paper.replace(run__seed=3)
        assert Daemon(config, options(slots=400, regret=True, run_file=path)).run() == 0
        world = simulate_map(config, seed=3, slots=400)
        episode = play(config, world, seed=3)
        run = read_run(path)
        np.testing.assert_allclose(run.slots["position"], episode.trajectory.position, atol=1e-9)
        np.testing.assert_allclose(run.slots["reward"], episode.observed, atol=1e-9)
        assert run.header.clock == "virtual"
        assert run.header.survey is not None
        np.testing.assert_allclose(run.header.survey.reward, survey_rewards(config, 3))

        summary = log(capfd)[-1]
        assert summary["event"] == "summary"
        assert summary["slots"] == 400
        assert summary["reward_per_slot"] == pytest.approx(episode.observed.mean())
        assert summary["travel"] == pytest.approx(episode.trajectory.travel)
        assert summary["switches"] == episode.trajectory.switched.sum()
        assert summary["transit_share"] == pytest.approx(episode.trajectory.transit.mean())
        fixed = world.reward[:, config.grid_size // 2].mean()
        assert summary["fixed_antenna_reward"] == pytest.approx(fixed)
        assert summary["gain_over_fixed"] == pytest.approx(episode.reward.mean() / fixed - 1)
        best = float(oracle_value(world.reward, config)[0])
        earned = episode.net_reward(config.reward.movement_cost)
        assert summary["regret_per_slot"] == pytest.approx((best - earned) / 400)
        for name, verdict in episode.theory.items():
            assert summary["theory"][name]["holds"] in (verdict.holds, True)
        for phase in ("wake_s", "actuate_s", "measure_s", "decide_s"):
            assert set(summary[phase]) == {"p50", "p99", "p99.9", "max"}
        assert summary["records_lost"] == 0
        assert summary["records_written"] == 400 + len(run.events)

    def test_the_start_of_a_run_is_reported(
        self, paper: Config, capfd: pytest.CaptureFixture[str]
    ) -> None:
        Daemon(paper, options()).run()
        lines = log(capfd)
        assert [line["event"] for line in lines] == [
            "policy",
            "survey",
            "start",
            "stop",
            "summary",
        ]
        variance = float(np.var(survey_rewards(paper, 1), ddof=1)) - paper.noise_std**2
        assert lines[1]["value"] == pytest.approx(variance**0.5)

    def test_a_fast_run_leaves_nothing_behind_unless_asked(
        self, paper: Config, tmp_path: Path
    ) -> None:
        Daemon(paper, options()).run()
        assert not (tmp_path / "state").exists()
        assert not list((tmp_path / "locks").iterdir())

    @pytest.mark.parametrize(
        ("settings", "is_reported"),
        [
            ({}, False),
            ({"physical__stroke": 0.05}, False),
            ({"physical__command_latency_s": 2e-4}, True),
            ({"physical__command_latency_s": 2e-4, "physical__stroke": 0.03}, False),
            ({"physical__acceleration_m_per_s2": 3000.0, "physical__stroke": "auto"}, True),
        ],
    )
    def test_a_stroke_shorter_than_v_t_a_is_reported(
        self,
        paper: Config,
        settings: dict[str, Any],
        is_reported: bool,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        Daemon(paper.replace(**settings), options(slots=2)).run()
        reported = [line["detail"] for line in log(capfd) if line["event"] == "warning"]
        assert bool(reported) == is_reported
        assert all("that is the stroke of this run" in line for line in reported)

    @pytest.mark.parametrize(
        ("priority", "fast", "reserved"),
        [(0, False, [ORDINARY_DECISION_S]), (50, False, []), (0, True, [])],
    )
    def test_more_time_is_kept_to_decide_only_in_ordinary_scheduling(
        self,
        paper: Config,
        priority: int,
        fast: bool,
        reserved: list[float],
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        report = RealtimeReport((), priority=priority)
        monkeypatch.setattr(realtime_slots, "enter_realtime", lambda: report)
        seen: list[float] = []
        monkeypatch.setattr(SlotLoop, "reserve_decision", lambda _, seconds: seen.append(seconds))
        assert Daemon(paper, options(slots=2, fast=fast)).run() == 0
        assert seen == reserved
        assert log(capfd)[-1].get("realtime", {}).get("priority") == (None if fast else priority)

    def test_without_real_time_the_demo_keeps_several_milliseconds_to_decide(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Other programs may run for milliseconds before the slot thread does."""
        report = RealtimeReport((), priority=0)
        monkeypatch.setattr(realtime_slots, "enter_realtime", lambda: report)
        seen: list[SlotTiming] = []
        reserve = SlotLoop.reserve_decision

        def watched(loop: SlotLoop, seconds: float) -> None:
            reserve(loop, seconds)
            seen.append(loop.timing)

        monkeypatch.setattr(SlotLoop, "reserve_decision", watched)
        assert Daemon(load_config(preset="demo"), options(slots=2, fast=False)).run() == 0
        (timing,) = seen
        assert timing.decide_s >= 6e-3
        assert timing.measure_s >= 4e-3

    @pytest.mark.parametrize(
        ("arguments", "slots"),
        [(["--slots", "7"], 7), (["--duration", "0.35"], 70), (["--duration", "1"], 200)],
    )
    def test_lengths_are_exact(
        self, arguments: list[str], slots: int, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["--backend", "sim", "--fast", "--log", "json", *arguments]) == 0
        assert log(capfd)[-1]["slots"] == slots

    def test_the_injected_faults_are_the_reported_ones(
        self, paper: Config, capfd: pytest.CaptureFixture[str]
    ) -> None:
        Daemon(paper, options(slots=500, faults=(7, 0.1))).run()
        summary = log(capfd)[-1]
        injected = summary["faults_injected"]
        assert injected["late-reward"] == summary["late_rewards"] > 0
        assert injected["invalid-measurement"] == summary["invalid_measurements"] > 0
        assert injected["probe-fault"] == summary["probe_faults"] > 0

    def test_all_records_of_a_long_fast_run_are_written(
        self, paper: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "run.sqlite"
        config = paper.replace(algorithm__policy="fixed")
        Daemon(config, options(slots=8000, run_file=path)).run()
        assert log(capfd)[-1]["records_lost"] == 0
        assert len(read_run(path).slots["slot"]) == 8000

    @pytest.mark.parametrize("limit", [{"slots": 200_000}, {"slots": None, "duration_s": 1e3}])
    def test_a_regret_that_would_fill_the_memory_is_refused(
        self, paper: Config, limit: dict[str, Any]
    ) -> None:
        with pytest.raises(UsageError, match="at most 100000 slots"):
            Daemon(paper, options(regret=True, **limit))


class TestRestart:
    @pytest.fixture
    def config(self, paper: Config) -> Config:
        return paper.replace(
            algorithm__policy="fixed",
            physical__slot_duration_s=0.02,
            algorithm__window=1000,
        )

    def run(
        self, config: Config, capfd: pytest.CaptureFixture[str], **kind: Any
    ) -> list[dict[str, Any]]:
        capfd.readouterr()
        chosen = {"fast": False, "slots": 3, "resume": True} | kind
        assert Daemon(config, options(**chosen)).run() == 0
        return log(capfd)

    def first_slot(self, config: Config, capfd: pytest.CaptureFixture[str], **kind: Any) -> int:
        lines = self.run(config, capfd, **kind)
        (start,) = (line for line in lines if line["event"] == "start")
        resumed = any(line["event"] == "resume" for line in lines)
        slot = int(start["detail"].split()[1].rstrip(","))
        assert resumed == (slot > 1)
        return slot

    def test_a_fresh_run_is_resumed_if_asked_for(
        self, config: Config, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert self.first_slot(config, capfd) == 1
        assert self.first_slot(config, capfd) > 3
        assert self.first_slot(config, capfd, resume=False) == 1

    def test_a_run_that_ended_before_its_first_slot_does_not_hide_the_run_before_it(
        self, config: Config, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.first_slot(config, capfd)
        (first,) = runs_in(default_run_folder(), "sim")
        dead = RunFileRecorder(
            new_run_path(default_run_folder(), "sim", time.time() + 2), read_run(first).header
        )
        dead.start()
        dead.close()
        assert self.first_slot(config, capfd) > 3

    def test_what_happens_to_an_earlier_file_of_the_same_name_is_printed(
        self, config: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "run.sqlite"

        def reports(**kind: Any) -> list[str]:
            lines = self.run(config, capfd, run_file=path, **kind)
            return [line["detail"] for line in lines if line["event"] == "bench"]

        assert reports() == ["not resumed: there is no earlier run"]
        (renamed,) = reports(resume=False)
        (aside,) = tmp_path.glob("run-*.sqlite")
        assert renamed == f"{path}: the earlier run of this name is now {aside}"
        resumed, renamed = reports()
        assert resumed.startswith(f"resumed from {path}, ")
        assert "is now" in renamed

    def test_a_run_of_another_bench_or_config_is_not_resumed(
        self, config: Config, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.first_slot(config, capfd)
        assert self.first_slot(config, capfd, name="other") == 1
        assert self.first_slot(config.replace(run__seed=2), capfd) == 1

    @pytest.mark.fault("other-board-since-last-run")
    @pytest.mark.parametrize("before", [{"bench": "simulated", "port": "USB 1"}, None])
    def test_a_run_of_another_board_under_the_same_name_is_not_resumed(
        self,
        config: Config,
        before: dict[str, str] | None,
        capfd: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(SimulatedBench, "identity", before)
            self.first_slot(config, capfd)
        lines = self.run(config, capfd)
        (cold,) = (line["detail"] for line in lines if line["event"] == "cold-start")
        assert ("port was USB 1 and is unknown" if before else "no identity") in cold

    def test_a_run_older_than_the_window_is_not_resumed(
        self, config: Config, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.first_slot(config, capfd)
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 20.0)
        lines = self.run(config, capfd)
        (cold,) = (line["detail"] for line in lines if line["event"] == "cold-start")
        assert "s old, and the window is" in cold

    def test_a_run_that_became_too_old_while_the_bench_opened_is_not_resumed(
        self, config: Config, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.first_slot(config, capfd)
        real = StartingPoint.find_resume

        def find(start: StartingPoint) -> Any:
            found = real(start)
            start.last_slot_began_s -= 20.0  # as if homing had taken that long
            return found

        monkeypatch.setattr(StartingPoint, "find_resume", find)
        lines = self.run(config, capfd)
        (cold,) = (line["detail"] for line in lines if line["event"] == "cold-start")
        assert "now that the bench is ready" in cold

    def test_a_resumed_run_keeps_its_target_and_window(
        self, config: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        moving = config.replace(algorithm__policy="moveucb", run__seed=4)
        paths = [tmp_path / "first.sqlite", tmp_path / "second.sqlite"]
        self.run(moving, capfd, slots=30, run_file=paths[0])
        paths[0].rename(paths[1])
        summary = self.run(moving, capfd, slots=2, run_file=paths[1])[-1]
        (aside,) = tmp_path.glob("second-*.sqlite")
        before, after = read_run(aside), read_run(paths[1])
        assert after.header.resumed_from == str(aside)
        assert after.slots["position"][0] == pytest.approx(before.slots["next_position"][-1])
        seen = before.slots["slot"][~np.isnan(before.slots["reward"])]
        assert [sample.slot for sample in after.header.window] == list(seen)
        assert summary["switches"] == np.sum(after.slots["switched"])


@pytest.mark.parametrize("other", ["--cold", "--fast", "--regret"])
def test_options_that_contradict_resuming_are_refused(
    other: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(["--backend", "sim", "--slots", "3", "--resume", other])
    except SystemExit as left:  # the parser's own refusals
        code = left.code
    assert code == 64
    assert "--resume" in capfd.readouterr().err


@pytest.mark.fault("low-space-at-start")
def test_a_start_without_free_space_is_reported_and_the_run_continues(
    paper: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.sqlite"
    config = paper.replace(run__free_space_floor_mb=1e12)
    assert Daemon(config, options(slots=20, run_file=path)).run() == 0
    lines = log(capfd)
    (warning,) = (line["detail"] for line in lines if line["event"] == "warning")
    assert "recording is paused from the start: only" in warning
    assert (lines[-1]["slots"], lines[-1]["records_written"]) == (20, 0)
    assert lines[-1]["records_lost"] >= 20
    assert len(read_run(path).slots["slot"]) == 0


class TestKeptSurvey:
    """How a run on a bench without prior knowledge uses a stored survey."""

    BENCH: ClassVar = {"bench": "simulated"}

    @pytest.fixture
    def start(self, paper: Config, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
        """Store a survey of some age, start, and return survey, notes and walks."""
        monkeypatch.setattr(SimulatedBench, "prior_survey", lambda *_: None)
        walked = Survey(np.array([0.0, 3.0, 6.0]), np.array([1.0, 3.0, 2.0]), 0.0, time.time())
        walks: list[int] = []

        def walk(*_: object, **__: object) -> Survey:
            walks.append(1)
            return walked

        monkeypatch.setattr(starting_point, "walk_rail", walk)

        def begin(age_s: float, policy: str = "moveucb", **kind: Any) -> Any:
            config = paper.replace(
                algorithm__policy=policy, physical__slot_duration_s=0.02, algorithm__window=1000
            )
            kept = replace(walked, walked_wall_s=time.time() - age_s)
            assert keep_survey(config, kept, self.BENCH) is None
            notes: list[str] = []
            point = StartingPoint(
                config,
                options(**kind),
                VirtualClock(),
                StopToken(),
                note=notes.append,
            )
            bench = SimulatedBench(config, VirtualClock(), seed=1)
            found = point.survey(bench, show_progress=False)
            assert found is not None
            return found, found.is_in_window(config, time.time()), notes, len(walks)

        return begin

    def test_its_samples_are_used_while_they_fit_the_window(
        self, start: Callable[..., Any]
    ) -> None:
        _, in_window, (note,), walks = start(5.0)
        assert (in_window, walks) == (True, 0)
        assert note.startswith("survey: 3 samples from ")
        assert note.endswith(", 5 s old")

    @pytest.mark.fault("survey-older-than-window")
    @pytest.mark.parametrize("policy", ["moveucb", "gp-ucb", "epsilon-greedy", "fixed"])
    def test_later_only_sigma_f_is_used(self, start: Callable[..., Any], policy: str) -> None:
        survey, in_window, (note,), walks = start(25.0, policy)
        assert (in_window, walks) == (False, 0)
        assert survey.reward.tolist() == [1.0, 3.0, 2.0]
        assert "is 25 s old, and the window is 20 s: sigma_f = 1.000 is used" in note

    @pytest.mark.fault("survey-older-than-window")
    def test_a_policy_that_starts_from_samples_walks_again(self, start: Callable[..., Any]) -> None:
        _, in_window, notes, walks = start(25.0, "sweep-and-hold")
        assert (in_window, walks) == (True, 1)
        assert "sweep-and-hold starts from its samples" in notes[0]

    def test_after_fresh_s_or_if_cold_the_rail_is_walked(self, start: Callable[..., Any]) -> None:
        assert start(3601.0)[3] == 1
        assert start(5.0, cold=True)[3] == 2

    def test_a_run_with_sigma_f_alone_starts_without_samples(
        self, paper: Config, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        config = paper.replace(algorithm__policy="moveucb")
        monkeypatch.setattr(SimulatedBench, "prior_survey", lambda *_: None)
        survey = Survey(np.linspace(0, 6, 50), np.linspace(0, 6, 50), 0.1, time.time() - 60)
        assert keep_survey(config, survey, self.BENCH) is None
        made: list[Any] = []

        def make(*arguments: Any, **kind: Any) -> Any:
            made.append(make_policy(*arguments, **kind))
            assert len(made[0].posterior) == 0
            return made[0]

        monkeypatch.setattr(daemon_module, "make_policy", make)
        assert Daemon(config, options(slots=3)).run() == 0
        assert made[0].posterior.slots == [1, 2, 3]
        assert made[0].posterior.sigma_f2 == survey.sigma_f2(config)
        (reported,) = (line for line in log(capfd) if line["event"] == "survey")
        assert reported["detail"].startswith("0 samples")


class TestEnding:
    def test_an_exception_in_a_slot_is_an_internal_error(
        self,
        tmp_path: Path,
        strange_slot: Callable[[Callable[[], object]], None],
        stops: list[float],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        strange_slot(lambda: 1 / 0)
        path = tmp_path / "run.sqlite"
        words = ["--backend", "sim", "--fast", "--log", "json", "--slots", "50"]
        code = main([*words, "--run", str(path)])
        assert code == 70
        captured = capfd.readouterr()
        assert captured.err.startswith("macontrol: internal error: ZeroDivisionError: division")
        assert str(path) in captured.err
        assert "Traceback" not in captured.err
        run = read_run(path)
        assert list(run.slots["slot"]) == list(range(1, 20))
        internal, stop = run.events[-2:]
        assert internal.kind == EventKind.INTERNAL
        assert "Traceback" in internal.detail
        assert "1 / 0" in internal.detail
        assert (stop.kind, stop.detail) == (EventKind.STOP, "internal error")
        assert stops
        assert stops[0] == pytest.approx(20 * 0.005, abs=0.005)  # in that very slot
        lines = [json.loads(line) for line in captured.out.splitlines()]
        assert [line["event"] for line in lines][-2:] == ["internal-error", "stop"]

    def test_without_a_run_file_the_log_has_the_traceback(
        self,
        paper: Config,
        strange_slot: Callable[[Callable[[], object]], None],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        strange_slot(lambda: 1 / 0)
        with pytest.raises(MacontrolError, match="the traceback is in the log"):
            Daemon(paper, options()).run()
        assert any("Traceback" in str(line.get("detail")) for line in log(capfd))

    def test_an_early_traceback_is_printed(
        self, paper: Config, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise KeyError("early")

        monkeypatch.setattr(daemon_module, "make_policy", fail)
        with pytest.raises(MacontrolError, match=r"KeyError.*the traceback is above"):
            Daemon(paper, options()).run()
        assert "Traceback" in capfd.readouterr().err

    def test_hardware_that_keeps_failing_ends_the_run_with_69_and_a_stopped_stage(
        self,
        paper: Config,
        tmp_path: Path,
        stops: list[float],
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        def silent(*_: object) -> Arrival:
            raise StageError("no answer")

        monkeypatch.setattr(SimulatedStage, "move_to", silent)
        monkeypatch.setattr(SimulatedStage, "where", silent)
        path = tmp_path / "run.sqlite"
        assert main(["--backend", "sim", "--fast", "--slots", "9", "--run", str(path)]) == 69
        assert "the stage has failed for 30 s" in capfd.readouterr().err
        assert stops
        stop = read_run(path).events[-1]
        assert stop.kind == EventKind.STOP
        assert "the stage has failed" in stop.detail

    def test_a_stage_that_cannot_be_stopped_does_not_hide_the_reason(
        self,
        paper: Config,
        strange_slot: Callable[[Callable[[], object]], None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def silent(*_: object) -> None:
            raise StageError("no answer")

        monkeypatch.setattr(SimulatedStage, "stop", silent)
        strange_slot(lambda: 1 / 0)
        with pytest.raises(MacontrolError):
            Daemon(paper, options()).run()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_a_signal_ends_it_after_the_slot(
        self,
        paper: Config,
        number: signal.Signals,
        strange: Callable[[Callable[[], object]], None],
        stops: list[float],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        before = signal.getsignal(number)
        strange(lambda: os.kill(os.getpid(), number))
        assert Daemon(paper, options()).run() == 0
        assert log(capfd)[-1]["slots"] == 20
        assert stops
        assert signal.getsignal(number) is before

    def test_the_stage_is_stopped_before_anything_is_waited_for(
        self,
        paper: Config,
        tmp_path: Path,
        stops: list[float],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        stopped_before: list[bool] = []
        real = RunFileRecorder.close

        def close(recorder: RunFileRecorder, timeout: float = 5.0) -> None:
            stopped_before.append(bool(stops))
            real(recorder, timeout)

        monkeypatch.setattr(RunFileRecorder, "close", close)
        assert Daemon(paper, options(run_file=tmp_path / "run.sqlite")).run() == 0
        assert stopped_before == [True]

    def test_a_second_signal_ends_it_in_the_slot(
        self,
        paper: Config,
        strange: Callable[[Callable[[], object]], None],
        stops: list[float],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        def twice() -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)

        strange(twice)
        assert Daemon(paper, options()).run() == 128 + signal.SIGTERM
        lines = log(capfd)
        assert lines[-1]["slots"] == 19
        assert [line["detail"] for line in lines if line["event"] == "stop"] == ["forced"]
        assert stops

    def test_a_second_signal_while_it_closes_ends_it_without_a_traceback(
        self,
        paper: Config,
        strange: Callable[[Callable[[], object]], None],
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        strange(lambda: os.kill(os.getpid(), signal.SIGTERM))
        monkeypatch.setattr(
            SimulatedStage, "close", lambda _stage: os.kill(os.getpid(), signal.SIGINT)
        )
        assert Daemon(paper, options()).run() == 128 + signal.SIGTERM
        assert capfd.readouterr().err == ""

    def test_a_failed_run_has_a_summary_before_the_cause(
        self,
        paper: Config,
        strange_slot: Callable[[Callable[[], object]], None],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        def fail() -> None:
            raise StageBrokenError("it is broken")

        strange_slot(fail)
        with pytest.raises(StageBrokenError, match="it is broken"):
            Daemon(paper, options()).run()
        lines = log(capfd)
        assert [line["detail"] for line in lines if line["event"] == "stop"] == ["it is broken"]
        assert lines[-1]["slots"] == 19

    def test_a_signal_while_the_rail_is_walked_leaves_neither_run_nor_survey(
        self,
        paper: Config,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        def walk(*_: object, on_progress: Callable[[int], None], **__: object) -> Survey:
            on_progress(3)
            os.kill(os.getpid(), signal.SIGTERM)
            return Survey(np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]))

        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        monkeypatch.setattr(SimulatedBench, "prior_survey", lambda *_: None)
        monkeypatch.setattr(starting_point, "walk_rail", walk)
        assert Daemon(paper, options(run_file=tmp_path / "run.sqlite")).run() == 0
        assert "stopped before the survey was complete" in capfd.readouterr().out
        assert list(tmp_path.rglob("*.*")) == []

    def test_a_signal_during_the_survey_is_not_forgotten(
        self, paper: Config, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        real = StartingPoint.survey

        def survey(start: StartingPoint, bench: Any, **options: Any) -> Any:
            os.kill(os.getpid(), signal.SIGTERM)
            return real(start, bench, **options)

        monkeypatch.setattr(StartingPoint, "survey", survey)
        assert Daemon(paper, options()).run() == 0
        assert log(capfd)[-1]["slots"] == 0

    @pytest.mark.parametrize("slots", [1000, 5000])
    def test_after_a_signal_only_a_short_regret_is_computed(
        self,
        paper: Config,
        slots: int,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        config = paper.replace(algorithm__policy="fixed")
        daemon = Daemon(config, options(slots=slots, regret=True))
        real = Daemon._theory

        def theory(self: Daemon, *arguments: Any) -> Any:
            self._signals.first = signal.SIGTERM  # as if it had come in the last slot
            return real(self, *arguments)

        monkeypatch.setattr(Daemon, "_theory", theory)
        assert daemon.run() == 0
        assert ("regret_per_slot" in log(capfd)[-1]) == (slots <= 2000)


class TestPolicyFaults:
    """A policy that fails ends the run after the patience, with 70 and a stopped stage."""

    words: ClassVar = ["--backend=sim", "--preset=demo", "--log=json", "--slots=60"]
    impatient = "--set=timing.fault_patience_s=1"

    @pytest.fixture
    def failing(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
        """The policy does something in every slot from 20 on."""

        class Failing(StrangePolicy):
            def decide(self, slot: int, position: float) -> Decision:
                if slot > 20:
                    self._strange()
                return super().decide(slot, position)

        def install(act: Callable[[], object]) -> None:
            monkeypatch.setattr(daemon_module, "make_policy", lambda *_, **__: Failing(act))

        return install

    @pytest.mark.fault("policy-raises")
    def test_a_policy_that_raises(
        self,
        failing: Callable[[Callable[[], object]], None],
        tmp_path: Path,
        stops: list[float],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        path = tmp_path / "run.sqlite"
        failing(lambda: 1 / 0)
        code = main([*self.words, self.impatient, "--fast", "--run", str(path)])
        assert code == 70
        captured = capfd.readouterr()
        (line,) = captured.err.splitlines()
        assert line.startswith("macontrol: the policy moveucb has failed for 1 s")
        assert "ZeroDivisionError: division by zero (test_daemon.py, line " in line
        assert stops
        events = read_run(path).events
        faults = [event for event in events if event.kind == EventKind.POLICY_FAULT]
        assert faults[0].slot == 20
        assert "Traceback" in faults[0].detail
        assert "1 / 0" in faults[0].detail
        assert events[-1].kind == EventKind.STOP
        lines = [json.loads(text) for text in captured.out.splitlines()]
        logged = [line["detail"] for line in lines if line["event"] == "policy-fault"]
        assert "Traceback" in logged[0]
        assert lines[-1]["event"] == "summary"
        assert lines[-1]["events"]["policy-fault"] == len(faults)

    @pytest.mark.fault("policy-hangs")
    @pytest.mark.parametrize("returns", [False, True])
    def test_a_policy_that_does_not_return(
        self,
        returns: bool,
        tmp_path: Path,
        failing: Callable[[Callable[[], object]], None],
        stops: list[float],
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """Here the end of the process lets the policy return; or it returns just before."""
        released, codes, commands = threading.Event(), [], []
        real_close, real_move = Recording.close, SimulatedStage.move_to

        def end(code: int) -> None:
            codes.append((code, bool(stops)))
            released.set()

        def close(recording: Any, timeout_s: float) -> None:
            if returns and not released.is_set():
                released.set()
                time.sleep(0.2)  # 4 slots
            real_close(recording, timeout_s)

        def move_to(stage: SimulatedStage, *arguments: float) -> Arrival:
            commands.append(bool(stops))
            return real_move(stage, *arguments)

        monkeypatch.setattr(os, "_exit", end)
        monkeypatch.setattr(Recording, "close", close)
        monkeypatch.setattr(SimulatedStage, "move_to", move_to)
        failing(lambda: released.wait(60))
        path = tmp_path / "run.sqlite"
        main([*self.words, self.impatient, "--run", str(path)])
        assert codes == [(70, True)], "it ends with a stopped stage"
        assert commands
        assert not any(commands), "no command after the stop"
        err = capfd.readouterr().err
        assert err.startswith("macontrol: the policy moveucb has not returned for 1 s")
        events = read_run(path).events
        (fault,) = [event for event in events if event.kind == EventKind.POLICY_FAULT]
        assert "released.wait(60)" in fault.detail, "where it hangs"

    @pytest.mark.fault("policy-cannot-resume")
    @pytest.mark.parametrize("method", ["observe", "resume"])
    def test_a_policy_that_cannot_continue(
        self, method: str, paper: Config, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise KeyError("no such slot")

        config = paper.replace(physical__slot_duration_s=0.02, algorithm__window=1000)
        kind = options(fast=False, slots=3, resume=True)
        assert Daemon(config, kind).run() == 0
        policy = StrangePolicy(lambda: None)
        monkeypatch.setattr(policy, method, fail)
        monkeypatch.setattr(daemon_module, "make_policy", lambda *_, **__: policy)
        with pytest.raises(PolicyError, match=r"cannot continue the run .*KeyError") as end:
            Daemon(config, kind).run()
        assert end.value.exit_code == 70


class TestSignals:
    @pytest.mark.fault("sighup")
    def test_a_service_does_not_end_on_sighup(
        self,
        paper: Config,
        tmp_path: Path,
        strange: Callable[[Callable[[], object]], None],
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(tmp_path / "notify"))
            monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
            strange(lambda: os.kill(os.getpid(), signal.SIGHUP))
            assert Daemon(paper, options(slots=40)).run() == 0
        lines = log(capfd)
        assert lines[-1]["slots"] == 40
        assert [line for line in lines if "SIGHUP is ignored" in line.get("detail", "")]

    @pytest.mark.fault("sigusr1-simulated")
    def test_a_simulated_bench_ignores_a_request_for_the_noise_floor(
        self,
        paper: Config,
        strange: Callable[[Callable[[], object]], None],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        before = signal.getsignal(signal.SIGUSR1)
        strange(lambda: os.kill(os.getpid(), signal.SIGUSR1))
        assert Daemon(paper, options(slots=40)).run() == 0
        assert log(capfd)[-1]["slots"] == 40
        assert signal.getsignal(signal.SIGUSR1) is before

    def test_sighup_stops_a_run_that_is_not_a_service(self) -> None:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.first == signal.SIGHUP

    def test_an_ignored_sighup_is_not_the_first_signal(self) -> None:
        with StopSignals(ignore_hang_up=True) as signals:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGHUP)
            assert (signals.first, signals.hang_ups) == (0, 3)

    def test_ignored_signals_stay_ignored(self) -> None:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            with StopSignals() as signals:
                os.kill(os.getpid(), signal.SIGHUP)
                assert signals.first == 0
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_the_first_signal_requests_a_stop_and_the_second_forces_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stop_signals, "_DEBOUNCE_S", 60.0)
        with StopSignals() as signals:
            assert not signals.stop.is_set
            os.kill(os.getpid(), signal.SIGTERM)
            assert signals.stop.is_set
            os.kill(os.getpid(), signal.SIGTERM)  # debounced: `timeout` sends the signal twice
            monkeypatch.setattr(stop_signals, "_DEBOUNCE_S", 0.0)
            with pytest.raises(ForcedStop), suppress(Exception):  # not an Exception
                os.kill(os.getpid(), signal.SIGTERM)


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["--backend", "none"], 64),
            (["--backend", "sim", "--slots", "0"], 64),
            (["--backend", "sim", "--slots", "3", "--duration", "1"], 64),
            (["--backend", "sim", "--duration", "nan"], 64),
            (["--backend", "sim", "--faults", "x"], 64),
            (["--backend", "sim", "--faults", "1:2"], 64),
            (["--backend", "sim", "--regret"], 64),
            (["--backend", "sim", "--set", "algorithm.beta=-1"], 78),
            (["--backend", "sim", "--set", "algorithm.betta=1"], 78),
            (["--backend", "sim", "--preset", "nope"], 78),
            (["--backend", "sim", "--config", "/nonexistent.toml"], 78),
        ],
    )
    def test_exit_codes(
        self, arguments: list[str], code: int, capfd: pytest.CaptureFixture[str]
    ) -> None:
        found: object
        try:
            found = main(arguments)
        except SystemExit as leaving:
            found = leaving.code
        assert found == code
        assert capfd.readouterr().err

    def test_errors_of_hardware_and_files_have_their_codes(self) -> None:
        assert HardwareError("").exit_code == 69
        assert MacontrolError("").exit_code == 70


class _LastMoment(Recorder):
    """Requests a hold and a stop in the last slot, as two operators may."""

    def __init__(self, steering: Steering, stop: StopToken) -> None:
        self._steering, self._stop = steering, stop

    def submit(self, item: Item) -> None:
        if isinstance(item, SlotRecord) and item.slot == 5:
            assert self._steering.submit(Hold("a person"))
            self._stop.request()


def test_an_action_that_no_slot_follows_is_recorded_as_such(paper: Config, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    daemon = Daemon(paper, options(run_file=path))
    daemon._recorders.add(_LastMoment(daemon._steering, daemon._signals.stop))
    assert daemon.run() == 0
    run = read_run(path)
    assert run.slots["slot"][-1] == 5
    *_, action, stop = run.events
    assert (action.kind, action.detail) == (EventKind.ACTION, "hold by a person; no slot followed")
    assert stop.kind is EventKind.STOP
