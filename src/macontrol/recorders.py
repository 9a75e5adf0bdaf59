"""Recorders of the command line's own: to hand on, to tell, to keep positions for the regret."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from macontrol.controller.record import Event, EventKind, LateReward, Recorder, SlotRecord


class Fanout(Recorder):
    """Hands every record to several recorders."""

    def __init__(self) -> None:
        self._recorders: list[Recorder] = []

    def add(self, recorder: Recorder) -> None:
        self._recorders.append(recorder)

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        for recorder in self._recorders:
            recorder.hand_over(item)


class Teller(Recorder):
    """Tells what happens while there is no display, as a fault in the survey."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, Event):
            self._tell(f"{item.kind}: {item.detail}")


class PositionKeeper(Recorder):
    """Keeps where the antenna was in each slot."""

    def __init__(self) -> None:
        self.slots = array("q")
        self.positions = array("d")

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, SlotRecord):
            self.slots.append(item.slot)
            self.positions.append(item.position)


class Follower(Recorder):
    """Has something done whenever a part of the bench works again."""

    def __init__(self, follow: Callable[[], None]) -> None:
        self._follow = follow

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, Event) and item.kind is EventKind.RECOVERY:
            self._follow()
