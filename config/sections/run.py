"""The `[run]` table: length, seed and disk space of a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from macontrol.config.sections.section import NonNegative, Section

LARGEST_SEED = 2**63 - 1
LARGEST_HORIZON = 10**9


class Run(Section):
    """The length of a run, its seed, and the disk space that its files leave free."""

    horizon: Annotated[int, Field(ge=1, le=LARGEST_HORIZON)] = 15300
    """T, the number of slots of a simulated world"""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 1
    """of the simulated world and of a random policy"""
    free_space_floor_mb: NonNegative = 200.0
    """recording pauses while its disk has less room (MB); 0: never"""
