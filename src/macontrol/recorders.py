"""Recorders that pass records on, count events, report them, or keep positions for the regret."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from macontrol.controller.recording.records import (
    Event,
    EventKind,
    LateReward,
    Recorder,
    SlotRecord,
)


class Fanout(Recorder):
    """Passes every record to several recorders."""

    def __init__(self) -> None:
        self._recorders: list[Recorder] = []

    def add(self, recorder: Recorder) -> None:
        self._recorders.append(recorder)

    def submit(self, item: SlotRecord | Event | LateReward) -> None:
        for recorder in self._recorders:
            recorder.submit(item)


class EventCounter(Recorder):
    """Counts the events of each kind."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def submit(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, Event):
            self.counts[item.kind] = self.counts.get(item.kind, 0) + 1


class FaultReporter(Recorder):
    """Reports events while there is no display, such as a fault in the survey.

    Each is reported once until the device works again: a device that is gone is tried every second.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._reported: set[str] = set()

    def submit(self, item: SlotRecord | Event | LateReward) -> None:
        if not isinstance(item, Event):
            return
        text = f"{item.kind}: {item.detail}"
        if text not in self._reported:
            self._report(text)
            self._reported.add(text)
        if item.kind is EventKind.RECOVERY:
            self._reported.clear()


class PositionKeeper(Recorder):
    """Keeps where the antenna was in each slot."""

    def __init__(self) -> None:
        self.slots = array("q")
        self.positions = array("d")

    def submit(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, SlotRecord):
            self.slots.append(item.slot)
            self.positions.append(item.position)


class LockFollower(Recorder):
    """Calls `follow` when a device works again: its port may have another name then."""

    def __init__(self, follow: Callable[[], None]) -> None:
        self._follow = follow

    def submit(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, Event) and item.kind is EventKind.RECOVERY:
            self._follow()
