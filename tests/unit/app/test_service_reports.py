"""Reports to the service manager come from a thread of their own."""

from __future__ import annotations

import threading
from math import nan

import pytest

from macontrol import service_reports
from macontrol.controller.host.notify import Notifier
from macontrol.controller.recording.tally import Tally
from macontrol.service_reports import ServiceReports, status_text
from macontrol.stop_signals import StopSignals
from support.sample_run import slot_record
from support.waiting import wait_until


class RecordedNotifier(Notifier):
    """Records its messages instead of sending them."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__({})
        self.watchdogs = 0
        self.states: list[str] = []
        self.threads: set[threading.Thread] = set()
        self._enabled = enabled

    @property
    def enabled(self) -> bool:
        return self._enabled

    def watchdog(self) -> None:
        self.watchdogs += 1
        self.threads.add(threading.current_thread())

    def status(self, text: str) -> None:
        self.states.append(text)
        self.threads.add(threading.current_thread())


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_reports, "_STATUS_INTERVAL_S", 0.01)


def reports(notifier: Notifier, signals: StopSignals, warnings: list[str]) -> ServiceReports:
    return ServiceReports(notifier, signals, Tally(3.0), warnings.append)


def test_the_watchdog_message_needs_a_new_sign_of_life() -> None:
    notifier = RecordedNotifier()
    with reports(notifier, StopSignals(), []) as running:
        wait_until(lambda: len(notifier.states) > 3)
        assert notifier.watchdogs == 0, "the slot thread has given no sign"
        running.sign_of_life()
        wait_until(lambda: notifier.watchdogs == 1)
        count = len(notifier.states)
        wait_until(lambda: len(notifier.states) > count + 3)
        assert notifier.watchdogs == 1, "the slot thread hangs"
    assert threading.current_thread() not in notifier.threads


def test_without_a_service_manager_there_is_no_thread() -> None:
    notifier = RecordedNotifier(enabled=False)
    before = threading.active_count()
    with reports(notifier, StopSignals(), []) as running:
        running.sign_of_life()
        assert threading.active_count() == before
    assert not notifier.states


def test_an_ignored_hang_up_is_reported_once() -> None:
    signals, warnings = StopSignals(ignore_hang_up=True), list[str]()
    signals.hang_ups = 2
    with reports(RecordedNotifier(), signals, warnings):
        wait_until(lambda: bool(warnings))
    assert len(warnings) == 1
    assert "SIGHUP" in warnings[0]


def test_one_at_the_very_end_is_reported_too() -> None:
    signals, warnings = StopSignals(ignore_hang_up=True), list[str]()
    with reports(RecordedNotifier(enabled=False), signals, warnings):
        signals.hang_ups = 1
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("reward", "text"), [(nan, "slot 7, 0 late"), (1.25, "slot 7, 0 late, reward 1.250")]
)
def test_the_status_is_one_line(reward: float, text: str) -> None:
    tally = Tally(3.0)
    tally.submit(slot_record(7, reward=None if reward != reward else reward))
    assert status_text(tally) == text
