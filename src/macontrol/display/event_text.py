"""Format an event as one line of text, with the unit of its value."""

from __future__ import annotations

from macontrol.controller.recording.records import Event, EventKind

_VALUES = {
    EventKind.MISSED: ", {:.0f} slots",
    EventKind.NO_SIGNAL: " (slots in a row: {:.0f})",
    EventKind.RECOVERY: " after {:.3g} s",
    EventKind.HOMING: ", in {:.3g} s",
    EventKind.ACTION: ": {:.6g}",
    EventKind.APPROACH: ", {:.3f} λ",
    EventKind.NOISE_FLOOR: ": {:.1f} dBFS",
    EventKind.REFERENCE: "",  # its detail states the noise floor
    EventKind.REMOVED_RUN: ", {:.1f} MB",
}
_LATE = (EventKind.LATE_ARRIVAL, EventKind.LATE_DECISION)


def event_text(event: Event) -> str:
    """`slot 7: late-arrival: the stage was not in position by T_a, 46.20 ms late`."""
    form = _VALUES.get(event.kind, " {:.3g}")
    value = "" if event.value is None else form.format(event.value)
    if event.kind == EventKind.MISSED and event.value == 1:
        value = ", 1 slot"
    elif event.kind in _LATE and event.value is not None:
        value = f", {_duration(event.value)} late"
    return f"slot {event.slot}: {event.kind}: {event.detail}{value}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds < 1.0 else f"{seconds:.3g} s"
