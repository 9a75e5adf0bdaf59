"""The `[survey]` table: the warm-up walk."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from macontrol.config.sections.section import NonNegative, Positive, Section


class Survey(Section):
    """The warm-up: T_0 samples of the frozen reward map, from which sigma_f follows."""

    samples: Annotated[int, Field(ge=2, le=100_000)]
    variance_floor: Positive
    fresh_s: NonNegative
