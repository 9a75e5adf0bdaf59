"""A probe that is no radio: settings and description of an imaginary power meter."""

from __future__ import annotations

from typing import Literal

from macontrol.config.sections.probe import ProbeSettings
from macontrol.hal.registry import ProbeDriver


class PowerMeterSettings(ProbeSettings):
    driver: Literal["power-meter"] = "power-meter"
    visa_address: str = "USB0::1"
    """where the meter is"""


DESCRIPTION = ProbeDriver(
    name="power-meter",
    label="power meter",
    settings=PowerMeterSettings,
    probe="support.meter_driver:no_such_probe",
    option="power-meter:ADDRESS",
    parse=lambda text: (
        {"visa_address": text.removeprefix("power-meter:")}
        if text.startswith("power-meter:")
        else None
    ),
    remedy="switch it on",
)
