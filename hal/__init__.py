"""Hardware: the protocols of stage, probe and clock, their data, and one package per driver.

This room imports only `macontrol.config`. The controller and the simulator import its protocols,
never a driver.
"""

from macontrol.hal.backend import Backend
from macontrol.hal.clock import Clock
from macontrol.hal.probe import Measurement, Probe
from macontrol.hal.stage import (
    Arrival,
    Stage,
    StageDescription,
)

__all__ = [
    "Arrival",
    "Backend",
    "Clock",
    "Measurement",
    "Probe",
    "Stage",
    "StageDescription",
]
