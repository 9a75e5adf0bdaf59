"""The `[probe]` table: which probe measures the link, and what any probe needs.

Times are in seconds. The noise floor is a level in the probe's own unit: dBFS for a radio.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from macontrol.config.sections.driver import DriverSettings


class ProbeSettings(DriverSettings):
    """A probe, and what makes its measurements valid."""

    guard_s: Annotated[float, Field(ge=0.001, le=1)] = 0.005
    """left out at both ends of an interval: the uncertainty of a sample's time"""
    lead_s: Annotated[float, Field(ge=0, le=1)] = 0.0
    """left out at the end in addition, so that the result is ready in time for the decision"""
    settling_s: Annotated[float, Field(ge=0.05, le=60)] = 0.5
    """left out after the probe was opened and set up"""
    noise_floor: Annotated[float, Field(ge=-200, le=0)] | Literal["measure"] = "measure"
    """"measure": with the transmitter off, when a run starts; or a level"""
    noise_floor_s: Annotated[float, Field(ge=0.05, le=60)] = 1.0
    """how long the noise floor is measured"""
    floor_drift_db: Annotated[float, Field(ge=0.01, le=10)] = 0.1
    """the drift of the receiver's gain, and with it of the noise floor"""
    no_signal_slots: Annotated[int, Field(ge=2, le=100_000)] | Literal["off"] = 8
    """slots in a row at the noise floor that mean loss of signal, or "off\""""
    connect_timeout_s: Annotated[float, Field(ge=0.1, le=60)] = 8.0
    """the server of a radio may take 5 s from one client to the next"""
    stale_s: Annotated[float, Field(ge=0.1, le=10)] = 1.5
    """a measurement that takes longer than this is invalid"""
