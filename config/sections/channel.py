"""The `[channel]` table: the simulated multipath channel."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from macontrol.config.sections.section import Auto, NonNegative, Positive, Section, Sector


class Channel(Section):
    """The simulated multipath channel (eq. multipath, Scenarios)."""

    scenario: Literal["blocked", "dense"]
    path_powers: Annotated[tuple[Positive, ...], Field(strict=False, min_length=1, max_length=64)]
    sector_deg: Sector
    angular_spread_deg: NonNegative
    sub_rays: Annotated[int, Field(ge=1, le=4096)]
    sub_ray_phases: Literal["aligned", "random"]
    blockage_db: NonNegative
    shadow_extent: Positive | Auto
    shadow_edge: Positive
