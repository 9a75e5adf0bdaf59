"""The `[run]` table: length, seed and disk space of a run, and which earlier runs are kept."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from macontrol.config.sections.section import NonNegative, Positive, Section

LARGEST_SEED = 2**63 - 1
LARGEST_HORIZON = 10**9
All: TypeAlias = Literal["all"]


class Run(Section):
    """The length of a run, its seed, the disk space that its files leave free, and which earlier
    runs of the bench are kept."""

    horizon: Annotated[int, Field(ge=1, le=LARGEST_HORIZON)] = 15300
    """T, the number of slots of a simulated world"""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 1
    """of the simulated world and of a random policy"""
    free_space_floor_mb: NonNegative = 200.0
    """recording pauses while its disk has less room (MB); 0: never"""
    keep_runs: Annotated[int, Field(ge=1, le=LARGEST_HORIZON)] | All = "all"
    """a run starts with the removal of all but so many of the bench's runs, itself included"""
    keep_days: Positive | All = "all"
    """... of its runs that were last written longer ago (days)"""
    keep_mb: Positive | All = "all"
    """... of its oldest runs, if all together are larger (MB)"""
