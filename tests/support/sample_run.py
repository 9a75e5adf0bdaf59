"""Records of known slots, and a short run file of them for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from macontrol.config import load_config
from macontrol.controller.recording.records import Event, EventKind, LateReward, SlotRecord
from macontrol.controller.recording.runfile import RunFileRecorder, RunHeader, Sample
from macontrol.controller.survey.samples import Survey

WALL, CLOCK = 1_700_000_000.0, 5000.0
CONFIG = load_config().replace(algorithm__window=20, physical__region_length=0.1 + 5.9)
SURVEY = Survey(np.linspace(0, 6, 100), np.random.default_rng(1).normal(3.0, 1.0, 100))
LAST_START = 40 * 0.005
BENCH = {"bench": "simulated"}


def slot_record(slot: int = 1, **changes: Any) -> SlotRecord:
    """A slot at 3 wavelengths without reward and motion, except for the changes."""
    plain = SlotRecord(
        slot=slot,
        start_s=CLOCK + slot * 0.005,
        position=3.0,
        commanded=None,
        on_time=True,
        reward=None,
        uncertainty=None,
        invalid=None,
        target=3.0,
        next_position=3.0,
        switched=False,
        transit=False,
        shortfall=None,
        surface_movement=None,
        wake_s=0.0,
        actuate_s=0.0,
        measure_s=0.0,
        decide_s=0.0,
    )
    return plain._replace(**changes)


def start_run(
    path: Path, *, backend: str = "sim", stage: str = "sim", **changes: Any
) -> RunFileRecorder:
    """A run file that takes records."""
    header = RunHeader.of(
        CONFIG,
        backend=backend,
        stage=stage,
        survey=SURVEY,
        sigma_f2=0.75,
        started_wall_s=WALL,
        started_clock_s=CLOCK,
        **changes,
    )
    file = RunFileRecorder(path, header)
    file.start()
    return file


def write_run(path: Path, slots: range, *, window: tuple[Sample, ...] = ()) -> Path:
    file = start_run(path, window=window, identity=BENCH)
    for slot in slots:
        blind = slot % 10 == 0
        file.submit(
            slot_record(
                slot,
                position=slot / 100,
                reward=None if blind else slot / 7,
                invalid="gap" if blind else None,
                target=4.0,
                next_position=slot / 100 + 0.01,
                transit=True,
            )
        )
    if 30 in slots:
        file.submit(LateReward(30, 30 / 7, None))
    file.submit(Event(1, CLOCK, EventKind.START, "slot 1"))
    file.close()
    return path
