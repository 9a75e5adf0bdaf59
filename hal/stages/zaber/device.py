"""One axis of a Zaber device in millimetres, and whether the config fits it.

A device counts in microsteps and does not know their length, which is a setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from macontrol.config.model.errors import ConfigError
from macontrol.hal.serial.rail import Axis, homing_time_s, require_fit
from macontrol.hal.stages.zaber.settings import ZaberSettings

SPEED_UNIT = 1.6384
"""Speed data are microsteps per second times this."""
ACCELERATION_UNIT = SPEED_UNIT / 10_000
"""Acceleration data are microsteps per second squared times this."""
NEAR = 8
"""A device with an encoder may stand this many microsteps beside its target."""

_FIRST_WITH_MOVE_SPEED = (7, 25)
"""The first firmware that accepts a speed for each move."""


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """What a device reports about itself. Equal reports come from the same device."""

    firmware: str
    device_id: int
    serial: int
    resolution: int
    """Microsteps per step of the motor."""
    low: int
    high: int
    """The ends of its travel, in microsteps."""
    maxspeed: int
    accel: int
    approach: int
    """Its speed towards the home sensor, in the unit of `maxspeed`."""

    @property
    def parts(self) -> dict[str, str]:
        """The firmware, the device, and the settings on which positions depend."""
        return {
            "firmware": self.firmware,
            "device": f"{self.device_id}, serial number {self.serial}",
            "settings": f"resolution={self.resolution} limit.min={self.low} "
            f"limit.max={self.high} maxspeed={self.maxspeed} accel={self.accel}",
        }


@dataclass(frozen=True, kw_only=True)
class ZaberAxis(Axis):
    """One axis of a device. Its positions are in microsteps, which are its steps."""

    low: int
    high: int
    home: int
    """The expected position after homing."""
    move_speed: int | None
    """The speed data of every move; None to use the device's own speed."""


def read_microstep(settings: ZaberSettings) -> float:
    """The length of a microstep (mm), or ConfigError if it is not set."""
    if settings.microstep_mm == "unknown":
        raise ConfigError(
            "stage.zaber.microstep_mm is unknown, and a Zaber device does not report it",
            "set it to the microstep size in the data sheet, in mm (1 µm is 0.001)",
        )
    return settings.microstep_mm


def read_axis(identity: DeviceIdentity, settings: ZaberSettings) -> ZaberAxis:
    """The configured axis, or ConfigError if device and config contradict each other."""
    microstep = read_microstep(settings)
    if not identity.low < identity.high or identity.maxspeed <= 0:
        raise ConfigError(
            f"the device has no travel (limit.min = {identity.low}, limit.max = {identity.high}) "
            f"or no speed (maxspeed = {identity.maxspeed})",
            "set them on the device",
        )
    positive = settings.homing_direction == "positive"
    home = identity.high if positive else min(max(0, identity.low), identity.high)
    acceleration = identity.accel / ACCELERATION_UNIT * microstep
    speed = settings.speed_mm_per_s
    axis = ZaberAxis(
        step_mm=microstep,
        usable_mm=abs((identity.low if positive else identity.high) - home) * microstep,
        speed_mm_per_s=identity.maxspeed / SPEED_UNIT * microstep,
        acceleration_mm_per_s2=acceleration if acceleration > 0 else inf,
        homes_positive=positive,
        homing_time_s=_homing_time_s(identity, settings),
        low=identity.low,
        high=identity.high,
        home=home,
        move_speed=None if speed == "auto" else max(int(speed / microstep * SPEED_UNIT + 1e-6), 1),
    )
    require_fit(
        settings,
        axis,
        board="device",
        travel_source=f"{axis.usable_mm:g} mm from home; limit.min = {axis.low}, "
        f"limit.max = {axis.high} microsteps",
        speed_source=f"its maxspeed is {identity.maxspeed}",
    )
    if speed != "auto" and _version(identity.firmware) < _FIRST_WITH_MOVE_SPEED:
        raise ConfigError(
            f"stage.speed_mm_per_s = {speed:g}: firmware {identity.firmware} has one speed for all "
            "moves",
            'set maxspeed on the device, and stage.speed_mm_per_s to "auto"',
        )
    return axis


def _homing_time_s(identity: DeviceIdentity, settings: ZaberSettings) -> float:
    slowest = max(min(identity.maxspeed, identity.approach), 1) / SPEED_UNIT
    # To the sensor, then off it and on it again slowly.
    time_s = 3 * (identity.high - identity.low) / slowest + 10.0
    reason = f"the device searches its sensor at limit.approach.maxspeed = {identity.approach}"
    return homing_time_s(settings, time_s, reason)


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)
