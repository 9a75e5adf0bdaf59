"""Run the slot loop on the simulated bench, with any policy."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from macontrol.config import Config, load_config
from macontrol.config.model.errors import InputOutputError, StageError
from macontrol.controller.host.realtime import ORDINARY_DECISION_S
from macontrol.controller.recording.runfile import RunFileRecorder, RunHeader, set_aside
from macontrol.controller.runtime.clock import VirtualClock, WallClock
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.survey.samples import Survey
from macontrol.hal import Clock
from macontrol.interface.arguments import slots_of
from macontrol.interface.policies import AnyPolicy, build_policy, with_policy
from macontrol.interface.runs import Run, open_run
from macontrol.sim.bench.simulated import SimulatedBench

_CLOSE_S = 10.0


def run_simulated(
    policy: AnyPolicy | None = None,
    config: Config | None = None,
    *,
    slots: int | None = None,
    seed: int | None = None,
    fast: bool = True,
    run_file: Path | str | None = None,
) -> Run:
    """Run the loop of the controller on the simulated bench, and return the recorded run.

    The guard, the timing and the recording are those of a run on hardware. With `fast` the clock is
    virtual and the run takes as long as it computes. Without `slots` and `seed`, the config's
    `run.horizon` and `run.seed` are used. The run is also kept in `run_file`, if one is given; an
    earlier file of this name is renamed. `policy` is as for `replay`.
    """
    config = with_policy(config or load_config(), policy)
    if seed is not None:
        config = load_config(assignments=[f"run.seed={seed}"], base=config)
    slots = slots_of(config, slots)
    with ExitStack() as closing:
        if run_file is None:
            folder = closing.enter_context(TemporaryDirectory(prefix="macontrol-"))
            path = Path(folder) / "run"
        else:
            path = Path(run_file)
            set_aside(path)
        _record(policy, config, slots, fast=fast, path=path)
        return open_run(path)


def _record(
    policy: AnyPolicy | None, config: Config, slots: int, *, fast: bool, path: Path
) -> None:
    clock: Clock = VirtualClock(on_wait=lambda: recorder.throttle()) if fast else WallClock()
    bench = SimulatedBench(config, clock, seed=config.run.seed)
    positions = np.array(config.survey_positions)
    rewards = bench.prior_survey(config.physical.to_mm(positions).tolist())
    survey = Survey(positions, np.asarray(rewards))
    built, name = build_policy(policy, config, survey, config.run.seed)
    header = RunHeader.of(
        config,
        backend="sim",
        stage="sim",
        survey=survey,
        sigma_f2=survey.sigma_f2(config),
        started_wall_s=time.time(),
        started_clock_s=clock.now(),
        clock="virtual" if fast else "monotonic",
        window=(),
        resumed_from=None,
        identity=bench.identity,
    )
    recorder = RunFileRecorder(path, replace(header, policy=name))
    recorder.start()
    loop = SlotLoop(config, built, Guard.of(config, bench.stage), bench.probe, clock, recorder)
    if not fast:
        loop.reserve_decision(ORDINARY_DECISION_S)
    try:
        loop.approach(built.start_position)
        loop.run(slots=slots)
    finally:
        with suppress(StageError):
            loop.halt()
        recorder.close(_CLOSE_S)
    if recorder.lost:
        raise InputOutputError(
            f"{path}: {recorder.lost} records could not be written", "check the disk"
        )
