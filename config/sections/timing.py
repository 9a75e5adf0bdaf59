"""The `[timing]` table: how a slot is divided when it is run live."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from macontrol.config.sections.section import Positive, Section


class Timing(Section):
    """How a slot is divided when it is run live."""

    guard_share: Annotated[float, Field(ge=0, lt=1)] = 0.02
    """share of a slot between T_a and the measurement"""
    decision_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """share of a slot that is kept free at its end to decide in"""
    fault_patience_s: Positive = 30.0
    """how long a stage, a probe or a policy may fail before the run gives up"""
