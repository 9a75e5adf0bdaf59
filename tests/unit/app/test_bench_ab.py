"""`macontrol bench ab` on the simulated bench, and what a stop or a fault leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from macontrol.cli import main
from macontrol.config import Config, load_config
from macontrol.config.model.errors import HardwareError, StageError
from macontrol.controller.recording.records import Recorder
from macontrol.controller.recording.runfile import read_run
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.samples import Survey
from macontrol.hal import Arrival
from macontrol.sim.bench.simulated import SimulatedBench
from macontrol.sim.world.channel import Channel
from macontrol.trial.blocks import Place, Trial
from macontrol.trial.outcome import outcome_of
from macontrol.trial.plan import Plan
from support.watched_stage import WatchedStage

Trials = Callable[..., dict[str, Any]]


@pytest.fixture
def trial(capsys: pytest.CaptureFixture[str]) -> Trials:
    """Run a trial on the simulated bench and a virtual clock; return its JSON."""

    def run(*options: str) -> dict[str, Any]:
        words = ["bench", "ab", "--backend", "sim", "--fast", "--json", *options]
        assert main(words) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return run


def test_the_result_is_that_of_the_recorded_slots(trial: Trials, tmp_path: Path) -> None:
    """Computed again from the run files, with SciPy's paired t-test."""
    folder = tmp_path / "files"
    found = trial(
        *("--policies", "moveucb,sweep-and-hold", "--block", "3s", "--blocks", "5"),
        *("--seed", "4", "--out", str(folder)),
    )
    assert found["settling_s"] == 1.5  # a window
    means: dict[str, list[float]] = {"moveucb": [], "sweep-and-hold": []}
    last = 0
    for number, one in enumerate(found["blocks"], 1):
        run = read_run(one["run_file"])
        slots, reward = run.slots["slot"], run.slots["reward"]
        assert (
            run.header.policy == one["policy"] == found["order"][one["round"] - 1][(number - 1) % 2]
        )
        assert slots[0] > last  # slots of time since the start of the trial
        last = int(slots[-1])
        assert len(slots) == 600
        assert one["reward"] == pytest.approx(float(np.nanmean(reward[300:])))
        travel = np.abs(np.diff(run.slots["position"][300:])).sum()
        assert one["travel_mm"] == pytest.approx(load_config().physical.to_mm(float(travel)))
        means[one["policy"]].append(float(np.nanmean(reward[300:])))
    interval = stats.ttest_rel(means["sweep-and-hold"], means["moveucb"]).confidence_interval()
    difference = found["differences"][0]
    assert (difference["low"], difference["high"]) == pytest.approx((interval.low, interval.high))
    assert json.loads((folder / "trial.json").read_text("utf-8")) == found
    assert len(list(folder.glob("*.sqlite"))) == 10


def test_the_slots_of_a_run_file_are_those_of_the_world(trial: Trials, tmp_path: Path) -> None:
    config = load_config(assignments=["run.seed=7"])
    found = trial(
        *("--policies", "moveucb,fixed", "--block", "1", "--blocks", "2", "--seed", "7"),
        *("--out", str(tmp_path / "files")),
    )
    channel = Channel(config, 7)
    for one in found["blocks"]:
        run = read_run(one["run_file"])
        for slot, position, reward in zip(
            run.slots["slot"], run.slots["position"], run.slots["reward"], strict=True
        ):
            channel.advance(int(slot) - channel.slot)
            assert reward == pytest.approx(channel.reward(float(position)) + channel.noise)


def test_a_better_policy_is_found_better(trial: Trials) -> None:
    found = trial("--policies", "fixed,moveucb", "--block", "3", "--blocks", "20", "--seed", "2")
    assert found["differences"][0]["verdict"] == "better"
    assert found["differences"][0]["low"] > 0.2


def test_a_policy_compared_with_itself_shows_no_difference(trial: Trials) -> None:
    """In 12 worlds: more than two false differences have a probability of 2 %."""
    verdicts = []
    for seed in range(12):
        options = ("--block", "1", "--blocks", "8", "--seed", str(seed))
        found = trial("--policies", "fixed,fixed", *options)
        assert found["differences"][0]["policy"] == "fixed#2"
        verdicts.append(found["differences"][0]["verdict"])
    assert verdicts.count("level") >= 10


def test_a_duration_gives_whole_rounds(trial: Trials) -> None:
    found = trial("--policies", "fixed,moveucb", "--block", "1", "--duration", "7s")
    assert found["rounds_planned"] == 3
    assert found["rounds_counted"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--policies", "fixed"), 64),
        (("--policies", "fixed,best"), 64),
        (("--policies", "fixed,moveucb", "--block", "0.02"), 64),
        (("--policies", "fixed,moveucb", "--block", "nan"), 64),
        (("--policies", "fixed,moveucb", "--block", "5", "--duration", "9"), 64),
        (("--policies", "fixed,moveucb", "--blocks", "1000"), 64),
        (("--policies", "fixed,moveucb", "--out", "/dev/null/x"), 74),
    ],
)
def test_impossible_trials_are_refused(options: tuple[str, ...], code: int) -> None:
    command = [sys.executable, "-m", "macontrol", "bench", "ab", "--backend", "sim", "--fast"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    kept = tmp_path / "001-fixed.sqlite"
    kept.write_text("precious", "utf-8")
    words = ["bench", "ab", "--backend", "sim", "--policies", "fixed,fixed", "--out", str(tmp_path)]
    assert main(words) == 74
    assert kept.read_text("utf-8") == "precious"


def test_a_stop_keeps_what_was_measured(tmp_path: Path) -> None:
    """A real process on a wall clock; the signal comes in the third block."""
    folder = tmp_path / "files"
    command = [sys.executable, "-m", "macontrol", "bench", "ab", "--backend", "sim", "--json"]
    command += ["--policies", "fixed,moveucb", "--block", "1", "--blocks", "50"]
    command += ["--out", str(folder), "--preset", "demo"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        for line in process.stderr:
            if line.startswith("round 1/50") and len(list(folder.glob("*.sqlite"))) >= 2:
                break
        while len(list(folder.glob("003-*.sqlite"))) == 0:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        found = json.loads(process.stdout.read())
        process.stderr.read()
    assert process.returncode == 130
    assert found["rounds_counted"] == [1]
    assert [one["is_complete"] for one in found["blocks"]] == [True, True, False]
    assert found["differences"][0]["half_width"] is None
    assert json.loads((folder / "trial.json").read_text("utf-8")) == found
    assert not list(folder.glob("*-wal"))


class _Breaking:
    """A simulated bench whose stage fails for good after a number of commands."""

    def __init__(self, config: Config, clock: VirtualClock, commands: int) -> None:
        bench = SimulatedBench(config, clock, seed=1)
        self.probe, self.identity = bench.probe, bench.identity
        physical = config.physical
        self.stage = WatchedStage(
            bench.stage, region_mm=config.rail_mm, stroke_mm=physical.stroke_mm
        )
        self.prior_survey = bench.prior_survey
        move, where = self.stage.move_to, self.stage.where

        def move_to(position_mm: float, deadline_s: float) -> Arrival:
            if self.stage.commands >= commands:
                raise StageError("the stage is broken")
            return move(position_mm, deadline_s)

        def where_is(deadline_s: float) -> Arrival:
            if self.stage.commands >= commands:
                raise StageError("the stage is broken")
            return where(deadline_s)

        self.stage.move_to, self.stage.where = move_to, where_is  # type: ignore[method-assign]


def test_a_fault_keeps_what_was_measured_and_the_guard_is_in_front(tmp_path: Path) -> None:
    config = load_config(assignments=["timing.fault_patience_s=1", "algorithm.policy=moveucb"])
    plan = Plan.random(["moveucb", "moveucb"], 5, seed=1, slots=200, settling=100)

    def build(commands: int) -> tuple[Trial, _Breaking]:
        clock = VirtualClock()
        bench = _Breaking(config, clock, commands)
        positions = np.array(config.survey_positions)
        rewards = bench.prior_survey(config.physical.to_mm(positions).tolist())
        trial = Trial(
            plan,
            [config, config],
            bench,
            Survey(positions, np.asarray(rewards)),
            clock,
            Place("sim", "sim", tmp_path, is_virtual=True),
            stop=StopToken(),
            also=Recorder(),
            note=lambda text: None,
            on_hang=lambda: None,
        )
        return trial, bench

    trial, bench = build(commands=10**9)
    trial.run()
    assert bench.stage.objections == []
    assert bench.stage.commands > 100
    assert len(trial.results) == 10
    trial, bench = build(commands=bench.stage.commands // 2)
    with pytest.raises(HardwareError):
        trial.run()
    assert bench.stage.objections == []
    assert not trial.results[-1].is_complete
    outcome = outcome_of(plan, trial.results)
    assert outcome.rounds == tuple(range(1, len(outcome.rounds) + 1))
    assert 0 < len(outcome.rounds) < 5
    last = trial.results[-1].run_file
    assert last is not None
    kinds = [event.kind for event in read_run(last).events]
    assert "stage-fault" in kinds
    assert kinds[-1] == "stop"
