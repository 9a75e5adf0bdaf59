"""The daemon in this process: what it wires together, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol import daemon as daemon_module
from macontrol.cli import main
from macontrol.config import Config
from macontrol.config.errors import HardwareError, MacontrolError, UsageError
from macontrol.controller.policy import Decision
from macontrol.controller.realtime import RealtimeReport
from macontrol.controller.record import EventKind
from macontrol.controller.runfile import RunFileRecorder, read_run
from macontrol.controller.survey import Survey
from macontrol.daemon import Daemon, RunOptions
from macontrol.hal import Arrival, StageBrokenError, StageError
from macontrol.sim.bench import SimulatedBench, SimulatedStage
from macontrol.sim.campaign.episode import play
from macontrol.sim.channel import survey_rewards
from macontrol.sim.oracle import oracle_value
from macontrol.sim.rewardmap import simulate_map
from macontrol.stop_signals import ForcedStop, StopSignals


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written but into the test's folder, and this process stays an ordinary one."""
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "locks"))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    report = RealtimeReport((), (), priority=0, locked=False, blas_threads=1)
    monkeypatch.setattr(daemon_module, "enter_realtime", lambda: report)


def options(**changes: Any) -> RunOptions:
    plain: dict[str, Any] = {
        "backend": "sim",
        "name": "sim",
        "yes": False,
        "slots": 50,
        "duration_s": None,
        "fast": True,
        "run_file": None,
        "cold": False,
        "regret": False,
        "faults": None,
    }
    known = {field.name for field in fields(RunOptions)}
    return RunOptions(**{key: value for key, value in (plain | changes).items() if key in known})


def log(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


class StrangePolicy:
    """A policy that does what a test wants at slot 20."""

    start_position = 3.0

    def __init__(self, strange: Callable[[], object]) -> None:
        self._strange = strange

    def resume(self, target: float) -> None: ...

    def observe(self, slot: int, position: float, reward: float) -> None: ...

    def decide(self, slot: int, position: float) -> Decision:
        if slot == 20:
            self._strange()
        step = position + (0.06 if slot % 2 else -0.06)
        return Decision(step, step, False, False, float("nan"))


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    def install(act: Callable[[], object]) -> None:
        monkeypatch.setattr(daemon_module, "make_policy", lambda *_: StrangePolicy(act))

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

    def test_what_a_run_starts_from_is_told(
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
        ("settings", "says"),
        [
            ({}, False),
            ({"physical__stroke": 0.05}, False),
            ({"physical__command_latency_s": 2e-4}, True),
            ({"physical__command_latency_s": 2e-4, "physical__stroke": 0.03}, False),
            ({"physical__acceleration_m_per_s2": 3000.0, "physical__stroke": "auto"}, True),
        ],
    )
    def test_a_stroke_shorter_than_v_t_a_is_told(
        self,
        paper: Config,
        settings: dict[str, Any],
        says: bool,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        Daemon(paper.replace(**settings), options(slots=2)).run()
        told = [line["detail"] for line in log(capfd) if line["event"] == "warning"]
        assert bool(told) == says
        assert all("that is the stroke of this run" in line for line in told)

    @pytest.mark.parametrize(
        ("arguments", "slots"),
        [(["--slots", "7"], 7), (["--duration", "0.35"], 70), (["--duration", "1"], 200)],
    )
    def test_lengths_are_exact(
        self, arguments: list[str], slots: int, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["--backend", "sim", "--fast", *arguments]) == 0
        assert log(capfd)[-1]["slots"] == slots

    def test_faults_injected_are_those_told(
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

    def first_slot(self, config: Config, capfd: pytest.CaptureFixture[str], **kind: Any) -> int:
        capfd.readouterr()
        assert Daemon(config, options(fast=False, slots=3, **kind)).run() == 0
        lines = log(capfd)
        (start,) = (line for line in lines if line["event"] == "start")
        resumed = any(line["event"] == "resume" for line in lines)
        slot = int(start["detail"].split()[1].rstrip(","))
        assert resumed == (slot > 1)
        return slot

    def test_a_fresh_run_is_resumed(
        self, config: Config, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert self.first_slot(config, capfd) == 1
        assert self.first_slot(config, capfd) > 3

    def test_but_not_if_asked_not_to(
        self, config: Config, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.first_slot(config, capfd)
        assert self.first_slot(config, capfd, cold=True) == 1
        assert self.first_slot(config, capfd, regret=True) == 1

    def test_nor_of_another_bench_or_config(
        self, config: Config, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.first_slot(config, capfd)
        assert self.first_slot(config, capfd, name="other") == 1
        assert self.first_slot(config.replace(run__seed=2), capfd) == 1

    def test_nor_if_it_is_older_than_the_window(
        self, config: Config, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.first_slot(config, capfd)
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 20.0)
        assert Daemon(config, options(fast=False, slots=3)).run() == 0
        (told,) = (line for line in log(capfd) if line["event"] == "cold-start")
        assert "says nothing any more" in told["detail"]

    def test_it_goes_on_towards_its_target(
        self, config: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        moving = config.replace(algorithm__policy="moveucb", run__seed=4)
        paths = [tmp_path / "first.sqlite", tmp_path / "second.sqlite"]
        assert Daemon(moving, options(fast=False, slots=30, run_file=paths[0])).run() == 0
        paths[0].rename(paths[1])
        assert Daemon(moving, options(fast=False, slots=2, run_file=paths[1])).run() == 0
        (aside,) = tmp_path.glob("second-*.sqlite")
        before, after = read_run(aside), read_run(paths[1])
        assert after.header.resumed_from == str(aside)
        assert after.slots["position"][0] == pytest.approx(before.slots["next_position"][-1])
        seen = before.slots["slot"][~np.isnan(before.slots["reward"])]
        assert [sample.slot for sample in after.header.window] == list(seen)
        summary = log(capfd)[-1]
        assert summary["switches"] == np.sum(after.slots["switched"])


class TestEnding:
    def test_an_exception_of_the_policy_is_an_internal_error(
        self,
        paper: Config,
        tmp_path: Path,
        strange: Callable[[Callable[[], object]], None],
        stops: list[float],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        strange(lambda: 1 / 0)
        path = tmp_path / "run.sqlite"
        code = main(["--backend", "sim", "--fast", "--slots", "50", "--run", str(path)])
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
        assert stops[0] == pytest.approx(20.9 * 0.005)  # in that very slot
        lines = [json.loads(line) for line in captured.out.splitlines()]
        assert [line["event"] for line in lines][-2:] == ["internal-error", "stop"]

    def test_without_a_run_file_the_log_has_the_traceback(
        self,
        paper: Config,
        strange: Callable[[Callable[[], object]], None],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        strange(lambda: 1 / 0)
        with pytest.raises(MacontrolError, match="the traceback is in the log"):
            Daemon(paper, options()).run()
        assert any("Traceback" in str(line.get("detail")) for line in log(capfd))

    def test_before_anything_listens_it_is_printed(
        self, paper: Config, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*_: object) -> None:
            raise KeyError("early")

        monkeypatch.setattr(daemon_module, "make_policy", fail)
        with pytest.raises(MacontrolError, match=r"KeyError.*the traceback is above"):
            Daemon(paper, options()).run()
        assert "Traceback" in capfd.readouterr().err

    def test_hardware_that_fails_for_good_is_69_and_stopped(
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
        strange: Callable[[Callable[[], object]], None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def silent(*_: object) -> None:
            raise StageError("no answer")

        monkeypatch.setattr(SimulatedStage, "stop", silent)
        strange(lambda: 1 / 0)
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

    def test_a_run_that_fails_is_summed_up_before_the_cause_is_told(
        self,
        paper: Config,
        strange: Callable[[Callable[[], object]], None],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        def fail() -> None:
            raise StageBrokenError("it is broken")

        strange(fail)
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
        monkeypatch.setattr(daemon_module, "walk_rail", walk)
        assert Daemon(paper, options(run_file=tmp_path / "run.sqlite")).run() == 0
        assert "stopped before the rail was walked" in capfd.readouterr().out
        assert list(tmp_path.rglob("*.*")) == []

    def test_a_signal_during_the_survey_is_not_forgotten(
        self, paper: Config, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        real = Daemon._survey

        def survey(daemon: Daemon, *arguments: Any) -> Any:
            os.kill(os.getpid(), signal.SIGTERM)
            return real(daemon, *arguments)

        monkeypatch.setattr(Daemon, "_survey", survey)
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


class TestSignals:
    def test_ignored_ones_stay_ignored(self) -> None:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            with StopSignals() as signals:
                os.kill(os.getpid(), signal.SIGHUP)
                assert signals.first == 0
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_what_shall_stop_is_called_at_once_if_the_signal_has_come(self) -> None:
        called: list[int] = []
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            signals.on_stop(lambda: called.append(1))
            assert called == [1]
            os.kill(os.getpid(), signal.SIGTERM)  # at once, as `timeout` does: not a second wish
            time.sleep(0.1)
            with pytest.raises(ForcedStop), suppress(Exception):  # no handler of errors keeps it
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
