"""Recorders of the daemon's own: one that hands on, one that keeps positions for the regret."""

from __future__ import annotations

from array import array

from macontrol.controller.record import Event, LateReward, Recorder, SlotRecord


class Fanout(Recorder):
    """Hands every record to several recorders."""

    def __init__(self) -> None:
        self._recorders: list[Recorder] = []

    def add(self, recorder: Recorder) -> None:
        self._recorders.append(recorder)

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        for recorder in self._recorders:
            recorder.hand_over(item)


class PositionKeeper(Recorder):
    """Keeps where the antenna was in each slot."""

    def __init__(self) -> None:
        self.slots = array("q")
        self.positions = array("d")

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, SlotRecord):
            self.slots.append(item.slot)
            self.positions.append(item.position)
