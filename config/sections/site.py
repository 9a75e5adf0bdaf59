"""The `[site]` table: where and when the settings of a site were measured."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from macontrol.config.sections.section import NonNegative, Positive, Section, Words


def _refuse_other_than_time(text: str) -> str:
    if text:
        try:
            known = datetime.fromisoformat(text).tzinfo is not None
        except ValueError:
            known = False
        if not known:
            raise ValueError("it is no time with a time zone, as in 2026-11-19T08:30:00+00:00")
    return text


Moment: TypeAlias = Annotated[Words, AfterValidator(_refuse_other_than_time)]


class Site(Section):
    """Where and when `macontrol calibrate` measured the settings of a site."""

    measured: Moment = ""
    """when; empty: the settings were not measured"""
    carrier_frequency_hz: NonNegative = 0.0
    """the carrier then; 0: unknown"""
    rail_mm: NonNegative = 0.0
    """the rail then; 0: unknown"""
    bench: Words = ""
    """the stage and the port then, or the simulated bench"""
    max_age_days: Positive = 30.0
    """`check` and the start of a run warn when the measurement is older than this"""
