"""What the drivers of serial stages have in common beside the transport."""

from __future__ import annotations

from collections.abc import Callable

from macontrol.config.stage_settings import StageSettings
from macontrol.hal.clock import Clock
from macontrol.hal.serial_line import SerialLine, TrafficLog
from macontrol.hal.stage import StageError

ROUNDING_MM = 1e-6
"""Commands may exceed the rail by this much of rounding; they are then taken back to its end."""


def open_port(settings: StageSettings, clock: Clock, log: TrafficLog | None) -> SerialLine:
    """Open the port that is configured, as it is configured."""
    return SerialLine(
        settings.port,
        settings.baud_rate,
        clock,
        dtr=settings.dtr,
        rts=settings.rts,
        log=log,
    )


def require_leave_to_home(settings: StageSettings, confirm: Callable[[], bool] | None) -> None:
    """Raise StageError unless homing is allowed, or somebody agrees to it now."""
    if settings.homing == "never":
        raise StageError(
            'the stage must be homed before it moves, and stage.homing = "never" forbids it'
        )
    if settings.homing == "ask" and not (confirm is not None and confirm()):
        raise StageError(
            "the stage must be homed before it moves, and nobody has agreed to it: "
            'stage.homing is "ask"; agree when asked, or set it to "allow"'
        )


def require_on_rail(position_mm: float, travel_mm: float) -> None:
    """Raise StageError for a position off the rail, or one that is no number."""
    if not -ROUNDING_MM <= position_mm <= travel_mm + ROUNDING_MM:  # nor does NaN pass
        raise StageError(f"{position_mm!r} mm is off the rail [0, {travel_mm:g}]")
