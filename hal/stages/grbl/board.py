"""One axis of a GRBL board from the board's settings, and whether a config fits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from macontrol.config.model.errors import ConfigError
from macontrol.config.sections.stage import AXES
from macontrol.hal.diagnostics import Diagnosis
from macontrol.hal.serial.rail import Axis, homing_time_s, require_fit
from macontrol.hal.stages.grbl.settings import GrblSettings


@dataclass(frozen=True)
class BoardIdentity:
    """What a board reports about itself."""

    dialect: str
    version: str
    options: str
    """The letters of `[OPT:…]`: build options, for example H for `$HX`."""
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


@dataclass(frozen=True, kw_only=True)
class GrblAxis(Axis):
    """One axis of a GRBL board; a pull-off at both ends is not usable."""

    steps_per_mm: float
    travel_mm: float
    pull_off_mm: float


def read_axis(identity: BoardIdentity, settings: GrblSettings) -> GrblAxis:
    """The configured axis, or ConfigError if board and config contradict each other."""
    values, index = identity.settings, AXES.index(settings.axis)
    _require_settings(values, settings.axis)
    homes_positive = not int(values.get(23, 0)) >> index & 1
    if settings.homing_direction != "auto":
        homes_positive = settings.homing_direction == "positive"
    travel, pull_off = values[130 + index], max(values.get(27, 1.0), 0.0)
    axis = GrblAxis(
        step_mm=1.0 / values[100 + index],
        usable_mm=travel - 2 * pull_off,
        speed_mm_per_s=values[110 + index] / 60,
        acceleration_mm_per_s2=values[120 + index],
        homes_positive=homes_positive,
        homing_time_s=_homing_time_s(values, travel, pull_off, settings),
        steps_per_mm=values[100 + index],
        travel_mm=travel,
        pull_off_mm=pull_off,
    )
    require_fit(
        settings,
        axis,
        board="board",
        travel_source=f"${130 + index} = {travel:g} mm, minus $27 = {pull_off:g} mm at both ends",
        speed_source=f"${110 + index} is {axis.speed_mm_per_s * 60:g} mm/min",
    )
    return axis


def _require_settings(values: Mapping[int, float], axis: str) -> None:
    """Raise ConfigError if a setting is missing, or unsuitable for any config."""
    units = {100: "steps/mm", 110: "mm/min", 120: "mm/s²", 130: "mm of travel"}
    for base, unit in units.items():
        number = base + AXES.index(axis)
        if not values.get(number, 0.0) > 0:
            raise ConfigError(
                f"stage.grbl.axis = {axis!r}: the board has no ${number} ({unit}) for it",
                f"set stage.grbl.axis to an axis of this board, or set ${number}",
            )
    if values.get(13, 0) != 0:
        raise ConfigError("the board reports inches ($13=1)", "set $13=0")
    if values.get(22, 1) == 0:
        raise ConfigError(
            "homing is not enabled on the board ($22=0), and nothing else finds the position of "
            "the carriage",
            "connect a limit switch and set $22=1",
        )


def _homing_time_s(
    values: Mapping[int, float], travel_mm: float, pull_off_mm: float, settings: GrblSettings
) -> float:
    seek, feed = max(values.get(25, 500.0), 1.0) / 60, max(values.get(24, 25.0), 1.0) / 60
    # Per cycle: a search of 1.5 times the travel, then off, on and off again; up to three cycles.
    pull_off_s = pull_off_mm * (2 / seek + 5 / feed)
    cycle_s = 1.5 * travel_mm / seek + pull_off_s + 4 * values.get(26, 250) / 1e3
    reason = (
        f"the board searches its switch at $25 = {seek * 60:g} mm/min and touches it at "
        f"$24 = {feed * 60:g} mm/min"
    )
    return homing_time_s(settings, 3 * cycle_s + 5.0, reason)


def advice(identity: BoardIdentity, settings: GrblSettings) -> tuple[Diagnosis, ...]:
    """Settings that work, but should be changed."""
    values = identity.settings
    released = (
        f"$1={values.get(1, 255):g}: the motor is released at rest, and the carriage can slip"
    )
    homes_all = settings.homing_command != "axis" and "H" not in identity.options
    found = (
        (values.get(1, 255) != 255, released, "set $1=255"),
        (
            values.get(20, 1) == 0,
            "$20=0: the board's soft limits are off",
            "set $20=1 as a second safeguard",
        ),
        (
            values.get(21, 1) == 0,
            "$21=0: the board ignores its limit switches in motion",
            "set $21=1",
        ),
        (
            homes_all,
            "$H homes every axis of this board",
            "connect a limit switch to each, or use a one-axis build",
        ),
    )
    return tuple(Diagnosis(detail, fix) for applies, detail, fix in found if applies)
