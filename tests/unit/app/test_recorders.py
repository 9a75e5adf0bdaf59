"""Recorders of the command line."""

from __future__ import annotations

import threading

from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event
from macontrol.recorders import FaultReporter, LockFollower, PositionKeeper
from support.sample_run import slot_record
from support.waiting import wait_until


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


def test_positions_are_stored_by_slot() -> None:
    keeper = PositionKeeper()
    keeper.submit(slot_record(3, position=1.5))
    keeper.submit(Event(4, 0.0, EventKind.MISSED, "", 1.0))
    keeper.submit(slot_record(5, position=2.5))
    assert list(keeper.slots) == [3, 5]
    assert list(keeper.positions) == [1.5, 2.5]


def test_the_lock_is_followed_outside_the_slot_thread() -> None:
    threads: list[threading.Thread] = []
    blocked = threading.Event()

    def follow() -> None:
        threads.append(threading.current_thread())
        blocked.wait(10.0)

    with LockFollower(follow) as follower:
        follower.submit(Event(1, 0.0, EventKind.STAGE_FAULT, "gone"))
        follower.submit(slot_record(2))
        follower.submit(Event(3, 0.0, EventKind.RECOVERY, "back"))  # returns although it blocks
        wait_until(lambda: len(threads) == 1)
        blocked.set()
    assert threading.current_thread() not in threads
    assert not threads[0].is_alive()
