"""The emulated GRBL board of the virtual bench."""

from __future__ import annotations

from pathlib import Path

from macontrol.config import Config
from macontrol.hal import Clock
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl

GUIDE_SETTINGS: dict[int, float] = {20: 1, 22: 1, 27: 2, 100: 80, 110: 12000, 120: 2000, 130: 300}
"""The GRBL settings of docs/build-a-bench.md."""


def guide_board(config: Config, clock: Clock, link: Path | None) -> VirtualGrbl:
    """The board of the bench guide with the actuator of a config.

    The rail is longer than that of the guide only if `stage.travel_mm` asks for it, so that a
    config that does not fit the guide's rail does not fit this one either.
    """
    physical, stage = config.physical, config.stage
    travel_mm = 0.0 if stage.travel_mm == "auto" else stage.offset_mm + stage.travel_mm
    settings = {
        **GUIDE_SETTINGS,
        110: physical.actuator_speed_m_per_s * 1e3 * 60,
        130: max(GUIDE_SETTINGS[130], travel_mm + 2 * GUIDE_SETTINGS[27]),
    }
    if physical.acceleration_m_per_s2 != "ideal":
        settings[120] = physical.acceleration_m_per_s2 * 1e3
    if physical.step_mm != "ideal":
        settings[100] = 1 / physical.step_mm
    return VirtualGrbl(clock, link=link, settings=settings)
