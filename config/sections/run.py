"""The `[run]` table: length, seed and disk space of a run, and which earlier runs are kept."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from macontrol.config.sections.section import NonNegative, Positive, Section


def _for_node_exporter(path: str) -> str:
    if path and not path.endswith(".prom"):
        raise ValueError("must end with .prom: node_exporter reads no other files")
    return path


MetricsPath: TypeAlias = Annotated[str, AfterValidator(_for_node_exporter)]
LARGEST_SEED = 2**63 - 1
LARGEST_HORIZON = 10**9
All: TypeAlias = Literal["all"]


class Run(Section):
    """The length of a run, its seed, the disk space that its files leave free, the earlier runs of
    the bench that are kept, and a file of metrics."""

    horizon: Annotated[int, Field(ge=1, le=LARGEST_HORIZON)] = 15300
    """T, the number of slots of a simulated world"""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 1
    """of the simulated world and of a random policy"""
    free_space_floor_mb: NonNegative = 200.0
    """recording pauses while its disk has less room (MB); 0: never"""
    keep_runs: Annotated[int, Field(ge=1, le=LARGEST_HORIZON)] | All = "all"
    """a run removes all but this many of its bench's newest runs, itself included"""
    keep_days: Positive | All = "all"
    """... and those that were last written longer ago than this (days)"""
    keep_mb: Positive | All = "all"
    """... and the oldest ones while all together are larger than this (MB)"""
    metrics_file: MetricsPath = ""
    """the metrics for Prometheus are written to this file (*.prom) every 10 s; empty: to none"""
