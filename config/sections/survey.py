"""The `[survey]` table: the warm-up walk."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from macontrol.config.sections.section import NonNegative, Positive, Section


class Survey(Section):
    """The warm-up: T_0 samples of the frozen reward map, from which sigma_f follows."""

    samples: Annotated[int, Field(ge=2, le=100_000)] = 100
    """T_0, the number of positions that the survey measures"""
    variance_floor: Positive = 1e-3
    """open: least sigma_f^2 that the survey may give"""
    fresh_s: NonNegative = 3600.0
    """a stored survey gives sigma_f for this time, and samples for w slots"""
