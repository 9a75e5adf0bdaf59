"""Every serial stage that the contract suite runs against: one per registered driver, or more.

By default these are emulated boards. With a port in the environment it is a real board, which is
homed and moved over its whole travel (clear the rail first):

MACONTROL_STAGE_PORT is the port of a GRBL board, MACONTROL_STAGE_AXIS its axis (default X);
MACONTROL_ZABER_PORT is the port of a Zaber device, MACONTROL_ZABER_MICROSTEP_MM its microstep;
MACONTROL_STAGE_DEADLINE is how many seconds one step may take (default 60).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Arrival
from macontrol.hal.registry import STAGES
from macontrol.hal.serial.stage import SerialStage
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.boards.zaber import MICROSTEP_MM, VirtualZaber
from macontrol.testing import StageBench, emulated_bench, stage_subject
from support.scripted_stage import stage_settings
from support.scripted_zaber import zaber_settings

CLOCK = WallClock()

GRBL_PORT = os.environ.get("MACONTROL_STAGE_PORT")
AXIS = os.environ.get("MACONTROL_STAGE_AXIS", "X")
ZABER_PORT = os.environ.get("MACONTROL_ZABER_PORT")
ZABER_MICROSTEP_MM = float(os.environ.get("MACONTROL_ZABER_MICROSTEP_MM", "nan"))
DEADLINE_S = float(os.environ.get("MACONTROL_STAGE_DEADLINE", "60"))

if GRBL_PORT or ZABER_PORT:
    GRBL = ["grbl-port"] if GRBL_PORT else []
    ZABER = ["zaber-port"] if ZABER_PORT else []
else:
    GRBL = ["grbl", "grblhal"]
    ZABER = ["zaber", "zaber-alerting"]
IS_REAL = bool(GRBL_PORT or ZABER_PORT)
OTHERS = [] if IS_REAL else [name for name in STAGES.names() if name not in ("grbl", "zaber")]
BENCHES = [*GRBL, *ZABER, *OTHERS]
"""The names for `open_bench`: at least one per registered driver."""


@contextmanager
def open_bench(name: str) -> Iterator[StageBench]:
    """A bench; its stage is closed at the end."""
    with _opened(name) as bench:
        try:
            yield bench
        finally:
            bench.close()


@contextmanager
def _opened(name: str) -> Iterator[StageBench]:
    if name == "grbl-port":
        assert GRBL_PORT
        yield StageBench(stage_settings(GRBL_PORT, axis=AXIS, homing_time_s=2 * DEADLINE_S))
    elif name == "zaber-port":
        assert ZABER_PORT
        yield StageBench(zaber_settings(ZABER_PORT, microstep_mm=ZABER_MICROSTEP_MM))
    elif name in GRBL:
        dialect: Literal["grbl", "grblhal"] = "grblhal" if name == "grblhal" else "grbl"
        with VirtualGrbl(CLOCK, dialect=dialect, distance_mm=20.0) as board:
            yield StageBench(stage_settings(board.port), board)
    elif name in OTHERS:
        with emulated_bench(name) as bench:
            yield bench
    else:
        settings = {"comm.alert": float(name == "zaber-alerting"), "limit.max": 120_000.0}
        with VirtualZaber(CLOCK, settings=settings, distance_mm=20.0) as device:
            yield StageBench(zaber_settings(device.port, microstep_mm=MICROSTEP_MM), device)


@contextmanager
def homed_stage(bench: StageBench) -> Iterator[SerialStage]:
    """A stage that is connected and homed."""
    stage = bench.stage()
    try:
        stage.connect(soon())
        stage.home(soon(2 * DEADLINE_S))
        yield stage
    finally:
        stage.close()


def ready(stage: SerialStage) -> SerialStage:
    """The stage at rest, recovered if the previous test has left it lost."""
    stage.recover(soon(2 * DEADLINE_S))
    await_rest(stage)
    return stage


def soon(seconds: float = DEADLINE_S) -> float:
    return CLOCK.now() + seconds


def await_rest(stage: SerialStage) -> Arrival:
    return stage_subject.await_rest(stage, CLOCK, DEADLINE_S)


def whole_steps(stage: SerialStage, position_mm: float) -> float:
    step = stage.description.step_mm
    return round(position_mm / step) * step
