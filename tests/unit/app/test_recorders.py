"""Recorders of the command line."""

from __future__ import annotations

from macontrol.controller.recording.records import Event, EventKind
from macontrol.recorders import FaultReporter


def test_a_fault_is_reported_once_until_the_device_works_again() -> None:
    reported: list[str] = []
    reporter = FaultReporter(reported.append)
    silent = Event(0, 0.0, EventKind.STAGE_FAULT, "no answer")
    lost = Event(0, 0.0, EventKind.STAGE_FAULT, "not connected")
    back = Event(0, 0.0, EventKind.RECOVERY, "works again")
    for event in (silent, lost, silent, lost, back, silent, back):
        reporter.submit(event)
    assert reported == [
        "stage-fault: no answer",
        "stage-fault: not connected",
        "recovery: works again",
        "stage-fault: no answer",
        "recovery: works again",
    ]
