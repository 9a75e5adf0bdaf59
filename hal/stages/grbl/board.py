"""What a GRBL board's settings say about one of its axes, and whether a config fits them."""

from __future__ import annotations

from dataclasses import dataclass, field

from macontrol.config.model.errors import ConfigError
from macontrol.config.model.rounding import at_most
from macontrol.config.sections.stage import AXES
from macontrol.hal.diagnostics import Diagnosis
from macontrol.hal.stage import LONGEST_HOMING_S
from macontrol.hal.stages.grbl.settings import GrblSettings


@dataclass(frozen=True)
class BoardIdentity:
    """What a board says of itself."""

    dialect: str
    version: str
    options: str
    """The letters of `[OPT:…]`: build options, as H for `$HX`."""
    settings: dict[int, float] = field(default_factory=dict)

    def parts(self, axis: str) -> dict[str, str]:
        """The firmware, and the settings on which positions along an axis depend."""
        index = AXES.index(axis)
        wanted = (3, 23, 27, 100 + index, 110 + index, 120 + index, 130 + index)
        values = self.settings
        return {
            "firmware": " ".join((self.dialect, self.version, self.options)).strip(),
            "settings": " ".join(f"${n}={values[n]:g}" for n in wanted if n in values),
        }


@dataclass(frozen=True)
class Axis:
    """One axis of a board, from its settings."""

    steps_per_mm: float
    speed_mm_per_s: float
    acceleration_mm_per_s2: float
    travel_mm: float
    pull_off_mm: float
    homes_positive: bool
    homing_time_s: float
    """How long a homing cycle can take."""

    @property
    def step_mm(self) -> float:
        return 1.0 / self.steps_per_mm

    @property
    def usable_mm(self) -> float:
        """The way from where it stands after homing to a pull-off before the other end."""
        return self.travel_mm - 2 * self.pull_off_mm


def read_axis(identity: BoardIdentity, settings: GrblSettings) -> Axis:
    """The configured axis, or ConfigError if the board and the config contradict each other."""
    values, index = identity.settings, AXES.index(settings.axis)
    what = {100: "steps/mm", 110: "mm/min", 120: "mm/s²", 130: "mm of travel"}
    for base, unit in what.items():
        if not values.get(base + index, 0.0) > 0:
            raise ConfigError(
                f"stage.axis = {settings.axis!r}: the board tells no ${base + index} ({unit}) for "
                "it; is it an axis of this board?"
            )
    if values.get(13, 0) != 0:
        raise ConfigError("the board reports inches ($13=1); set $13=0")
    if values.get(22, 1) == 0:
        raise ConfigError(
            "homing is not enabled on the board; set $22=1, which takes a limit switch: without "
            "one nobody knows where the carriage is"
        )
    pull_off = max(values.get(27, 1.0), 0.0)
    homes_positive = not int(values.get(23, 0)) >> index & 1
    if settings.homing_direction != "auto":
        homes_positive = settings.homing_direction == "positive"
    travel = values[130 + index]
    seek, feed = max(values.get(25, 500.0), 1.0) / 60, max(values.get(24, 25.0), 1.0) / 60
    # Per cycle: a search of 1.5 times the travel, then off, on and off again; up to three cycles.
    cycle = 1.5 * travel / seek + pull_off * (2 / seek + 5 / feed) + 4 * values.get(26, 250) / 1e3
    homing_time = 3 * cycle + 5.0
    if settings.homing_time_s != "auto":
        homing_time = settings.homing_time_s
    elif homing_time > LONGEST_HOMING_S:
        raise ConfigError(
            f"homing could take {homing_time / 60:.0f} minutes: the board seeks its switch at "
            f"$25 = {seek * 60:g} mm/min and touches it at $24 = {feed * 60:g} mm/min; raise them, "
            "or set stage.homing_time_s to how long it may take"
        )
    axis = Axis(
        steps_per_mm=values[100 + index],
        speed_mm_per_s=values[110 + index] / 60,
        acceleration_mm_per_s2=values[120 + index],
        travel_mm=travel,
        pull_off_mm=pull_off,
        homes_positive=homes_positive,
        homing_time_s=homing_time,
    )
    _refuse_contradictions(axis, settings, index)
    return axis


def _refuse_contradictions(axis: Axis, settings: GrblSettings, index: int) -> None:
    usable = axis.usable_mm - settings.offset_mm
    if usable < axis.step_mm:
        raise ConfigError(
            f"stage.offset_mm = {settings.offset_mm:g}: nothing is left of the board's travel "
            f"(${130 + index} = {axis.travel_mm:g} mm, less $27 = {axis.pull_off_mm:g} mm at "
            "both ends)"
        )
    if settings.travel_mm != "auto" and settings.travel_mm > usable + 1e-6:
        raise ConfigError(
            f"stage.travel_mm = {settings.travel_mm:g} is more than the board has: "
            f"{usable:g} mm of ${130 + index} = {axis.travel_mm:g} are left after stage.offset_mm "
            f"and the pull-off at both ends; set stage.travel_mm to at most "
            f"{at_most(usable)}"
        )
    fastest = axis.speed_mm_per_s
    if settings.speed_mm_per_s != "auto" and settings.speed_mm_per_s > fastest * (1 + 1e-9):
        raise ConfigError(
            f"stage.speed_mm_per_s = {settings.speed_mm_per_s:g} is more than the board allows: "
            f"${110 + index} is {fastest * 60:g} mm/min; set stage.speed_mm_per_s to at most "
            f"{at_most(fastest)}"
        )


def advice(identity: BoardIdentity, settings: GrblSettings) -> tuple[Diagnosis, ...]:
    """What could be better, though the board can be used as it is."""
    values, found = identity.settings, []
    if values.get(1, 255) != 255:
        found.append(
            Diagnosis(
                f"$1={values[1]:g}: the motor is released at standstill, and the carriage can slip",
                "set $1=255",
            )
        )
    if values.get(20, 1) == 0:
        found.append(
            Diagnosis("$20=0: the board's soft limits are off", "set $20=1 as a second safeguard")
        )
    if values.get(21, 1) == 0:
        found.append(
            Diagnosis("$21=0: the board ignores its limit switches in motion", "set $21=1")
        )
    if settings.homing_command != "axis" and "H" not in identity.options:
        found.append(
            Diagnosis(
                "$H homes every axis of this board", "each needs a switch, or a one-axis build"
            )
        )
    return tuple(found)
