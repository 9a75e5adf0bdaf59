"""What a Zaber device knows of itself, in millimetres, and whether the config fits it.

A device counts in microsteps and does not know how long one is: that stands in the config.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from macontrol.config.model.errors import ConfigError
from macontrol.config.model.rounding import at_most
from macontrol.hal.stage import LONGEST_HOMING_S
from macontrol.hal.stages.zaber.settings import ZaberSettings

SPEED_UNIT = 1.6384
"""Speed data are microsteps per second times this."""
ACCELERATION_UNIT = SPEED_UNIT / 10_000
"""Acceleration data are microsteps per second squared times this."""

_SPEED_OF_A_MOVE = (7, 25)
"""The firmware from which a move can be given a speed of its own."""


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """What a device says of itself. Two that say the same are the same."""

    firmware: str
    device_id: int
    serial: int
    resolution: int
    """Microsteps to a step of the motor."""
    low: int
    high: int
    """Where its travel ends, in microsteps."""
    maxspeed: int
    accel: int
    approach: int
    """Its speed towards the home sensor, in the unit of `maxspeed`."""

    @property
    def parts(self) -> dict[str, str]:
        """The firmware, the device, and the settings on which its positions depend."""
        return {
            "firmware": self.firmware,
            "device": f"{self.device_id}, serial number {self.serial}",
            "settings": f"resolution={self.resolution} limit.min={self.low} "
            f"limit.max={self.high} maxspeed={self.maxspeed} accel={self.accel}",
        }


@dataclass(frozen=True, slots=True)
class DeviceAxis:
    """The configured axis. Positions are in microsteps, as the device counts them."""

    microstep_mm: float
    low: int
    high: int
    home: int
    """Where it is expected to stand after homing."""
    homes_positive: bool
    speed_mm_per_s: float
    acceleration_mm_per_s2: float
    homing_time_s: float
    move_speed: int | None
    """The speed data that go with every move, if it is to be slower than the device's own."""

    @property
    def usable_mm(self) -> float:
        """The way from where it stands after homing to the other end."""
        other = self.low if self.homes_positive else self.high
        return abs(other - self.home) * self.microstep_mm


def read_microstep(settings: ZaberSettings) -> float:
    """The size of a microstep (mm), or ConfigError: nothing else can tell it."""
    if settings.microstep_mm == "unknown":
        raise ConfigError(
            "stage.microstep_mm: a Zaber device does not know how long its microsteps are; set it "
            "to the microstep size in its data sheet, in mm (1 µm is 0.001)"
        )
    return settings.microstep_mm


def read_axis(identity: DeviceIdentity, settings: ZaberSettings) -> DeviceAxis:
    """The configured axis, or ConfigError if the device and the config contradict each other."""
    microstep = read_microstep(settings)
    if not identity.low < identity.high or identity.maxspeed <= 0:
        raise ConfigError(
            f"the device has no travel (limit.min = {identity.low}, limit.max = {identity.high}) "
            f"or no speed (maxspeed = {identity.maxspeed}); set them on the device"
        )
    positive = settings.homing_direction == "positive"
    home = identity.high if positive else min(max(0, identity.low), identity.high)
    slowest = max(min(identity.maxspeed, identity.approach), 1) / SPEED_UNIT
    acceleration = identity.accel / ACCELERATION_UNIT * microstep
    # To the sensor, and off it and on it again at a crawl.
    homing_time = 3 * (identity.high - identity.low) / slowest + 10.0
    if settings.homing_time_s != "auto":
        homing_time = settings.homing_time_s
    elif homing_time > LONGEST_HOMING_S:
        raise ConfigError(
            f"homing could take {homing_time / 60:.0f} minutes: the device seeks its sensor at "
            f"limit.approach.maxspeed = {identity.approach}; raise that on the device, or set "
            "stage.homing_time_s to how long it may take"
        )
    axis = DeviceAxis(
        microstep_mm=microstep,
        low=identity.low,
        high=identity.high,
        home=home,
        homes_positive=positive,
        speed_mm_per_s=identity.maxspeed / SPEED_UNIT * microstep,
        acceleration_mm_per_s2=acceleration if acceleration > 0 else inf,
        homing_time_s=homing_time,
        move_speed=None
        if settings.speed_mm_per_s == "auto"
        else max(int(settings.speed_mm_per_s / microstep * SPEED_UNIT + 1e-6), 1),
    )
    _refuse_contradictions(axis, identity, settings)
    return axis


def _refuse_contradictions(
    axis: DeviceAxis, identity: DeviceIdentity, settings: ZaberSettings
) -> None:
    usable = axis.usable_mm - settings.offset_mm
    limits = f"limit.min = {axis.low}, limit.max = {axis.high} microsteps"
    if usable < axis.microstep_mm:
        raise ConfigError(
            f"stage.offset_mm = {settings.offset_mm:g}: nothing is left of the device's travel "
            f"({axis.usable_mm:g} mm from home; {limits})"
        )
    if settings.travel_mm != "auto" and settings.travel_mm > usable + 1e-6:
        raise ConfigError(
            f"stage.travel_mm = {settings.travel_mm:g} is more than the device has: {usable:g} mm "
            f"are left after stage.offset_mm ({limits}); set stage.travel_mm to at most "
            f"{at_most(usable)}"
        )
    if settings.speed_mm_per_s == "auto":
        return
    fastest = axis.speed_mm_per_s
    if settings.speed_mm_per_s > fastest * (1 + 1e-9):
        raise ConfigError(
            f"stage.speed_mm_per_s = {settings.speed_mm_per_s:g} is more than the device allows: "
            f"its maxspeed is {identity.maxspeed}; set stage.speed_mm_per_s to at most "
            f"{at_most(fastest)}"
        )
    if _version(identity.firmware) < _SPEED_OF_A_MOVE:
        raise ConfigError(
            f"stage.speed_mm_per_s = {settings.speed_mm_per_s:g}: firmware {identity.firmware} "
            'moves at its own speed only; set maxspeed on the device, and "auto" here'
        )


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)
