"""Recorders of the command line: report faults, keep positions for the regret, follow the lock."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from queue import SimpleQueue

from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Item, Recorder, SlotRecord

_JOIN_S = 1.0


class FaultReporter(Recorder):
    """Report events while there is no display, such as a fault in the survey.

    Each is reported once until the device works again: a lost device is tried every second.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._reported: set[str] = set()

    def submit(self, item: Item) -> None:
        if not isinstance(item, Event):
            return
        text = f"{item.kind}: {item.detail}"
        if text not in self._reported:
            self._report(text)
            self._reported.add(text)
        if item.kind is EventKind.RECOVERY:
            self._reported.clear()


class PositionKeeper(Recorder):
    """Store the position of the antenna in each slot."""

    def __init__(self) -> None:
        self.slots = array("q")
        self.positions = array("d")

    def submit(self, item: Item) -> None:
        if isinstance(item, SlotRecord):
            self.slots.append(item.slot)
            self.positions.append(item.position)


class LockFollower(Recorder):
    """Call `follow` when a device works again: its port may have another name then.

    `follow` opens files, so a thread of its own calls it, from `__enter__` to `__exit__`.
    """

    def __init__(self, follow: Callable[[], None]) -> None:
        self._follow = follow
        self._requests: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="lock-follower", daemon=True)

    def __enter__(self) -> LockFollower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put(False)
        self._thread.join(_JOIN_S)

    def submit(self, item: Item) -> None:
        if isinstance(item, Event) and item.kind is EventKind.RECOVERY:
            self._requests.put(True)

    def _work(self) -> None:
        while self._requests.get():
            self._follow()
