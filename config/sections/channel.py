"""The `[channel]` table: the simulated multipath channel."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from macontrol.config.sections.section import Auto, NonNegative, Positive, Section, Sector


class Channel(Section):
    """The simulated multipath channel (eq. multipath, Scenarios)."""

    scenario: Literal["blocked", "dense"] = "blocked"
    """blocked: a shadow covers a part of the rail | dense: no shadow"""
    path_powers: Annotated[
        tuple[Positive, ...], Field(strict=False, min_length=1, max_length=64)
    ] = (0.6, 0.2, 0.2)
    """the mean power of each path, line of sight first"""
    sector_deg: Sector = (30.0, 150.0)
    """the sector in which the paths arrive"""
    angular_spread_deg: NonNegative = 2.0
    """of the sub-rays around their path"""
    sub_rays: Annotated[int, Field(ge=1, le=4096)] = 16
    """the number of sub-rays per path"""
    sub_ray_phases: Literal["aligned", "random"] = "aligned"
    """open: aligned: all agree at x = 0; their mean | random: uniform, drawn once per realization;
    their sum over the root of sub_rays"""
    blockage_db: NonNegative = 10.0
    """A_b, the loss in the shadow, in scenario blocked"""
    shadow_extent: Positive | Auto = "auto"
    """the length of the shadow; "auto": half the rail"""
    shadow_edge: Positive = 0.3
    """open: the shape; here tanh((x - s) / edge) at both ends"""
