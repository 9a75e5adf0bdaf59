"""A run to display, without a bench."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from macontrol.config.model.grid import Grid
from macontrol.config.model.slot_timing import SlotTiming
from macontrol.controller.recording.tally import Tally
from macontrol.display.run_state import RunFacts
from support.sample_run import slot_record


def played(slots: int = 3) -> Tally:
    """Three slots between 3.00 and 3.06 wavelengths, with the target at 4."""
    tally = Tally(3.0)
    for slot in range(1, slots + 1):
        tally.submit(
            slot_record(
                slot,
                position=3.0 + 0.06 * (slot % 2),
                reward=2.5,
                target=4.0,
                next_position=3.06,
                switched=slot == 1,
                transit=True,
                shortfall=0.0,
                wake_s=1e-4 * slot,
                actuate_s=1e-4 * slot,
                measure_s=1e-4 * slot,
                decide_s=1e-4 * slot,
            )
        )
    return tally


def a_run(tally: Tally | None = None, *, posterior: bool = True, activity: str = "") -> RunFacts:
    """The paper's rail at 60 mm, 5 ms slots, and an estimate that rises along the rail."""
    grid = Grid(6.0, 601)
    estimate = SimpleNamespace(grid=grid, mean=grid.points / 2, variance=np.full(601, 0.04))
    loop = SimpleNamespace(
        tally=tally or played(),
        timing=SlotTiming(5e-3, 1.1e-3, 4.5e-3),
        activity=activity,
        decision=SimpleNamespace(
            policy=SimpleNamespace(posterior=estimate) if posterior else SimpleNamespace()
        ),
    )
    return RunFacts(
        title="moveucb on sim",
        length=6.0,
        to_mm=lambda length: 10.0 * length,
        slot_s=0.005,
        g_max=4.0,
        transmission_share=0.8,
        loop=cast(Any, loop),
    )
