"""A short run of known slots as a run file, for tests that read it, damage it, or continue it."""

from __future__ import annotations

from pathlib import Path

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


def write_run(path: Path, slots: range, *, window: tuple[Sample, ...] = ()) -> Path:
    run = RunHeader.of(
        CONFIG,
        backend="sim",
        stage="sim",
        survey=SURVEY,
        sigma_f2=0.75,
        started_wall_s=WALL,
        started_clock_s=CLOCK,
        window=window,
        identity=BENCH,
    )
    file = RunFileRecorder(path, run)
    file.start()
    for slot in slots:
        blind = slot % 10 == 0
        file.submit(
            SlotRecord(
                slot=slot,
                start_s=CLOCK + slot * 0.005,
                position=slot / 100,
                commanded=None,
                on_time=True,
                reward=None if blind else slot / 7,
                uncertainty=None,
                invalid="gap" if blind else None,
                target=4.0,
                next_position=slot / 100 + 0.01,
                switched=False,
                transit=True,
                shortfall=None,
                surface_movement=None,
                wake_s=0.0,
                actuate_s=0.0,
                measure_s=0.0,
                decide_s=0.0,
            )
        )
    if 30 in slots:
        file.submit(LateReward(30, 30 / 7, None))
    file.submit(Event(1, CLOCK, EventKind.START, "slot 1"))
    file.close()
    return path
