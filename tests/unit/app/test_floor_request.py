"""The noise floor on request: a signal requests it, a thread of its own measures it."""

from __future__ import annotations

import signal
import threading

import pytest

from macontrol.config.model.errors import ProbeError
from macontrol.floor_request import FloorRequest
from support.probe_settings import wait_until


def test_every_signal_is_one_measurement_and_never_in_the_slot_thread() -> None:
    reported: list[tuple[str, float | None]] = []
    threads: list[threading.Thread] = []

    def measure() -> float:
        threads.append(threading.current_thread())
        return -40.0

    with FloorRequest(measure, lambda *report: reported.append(report)):
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(reported) == 1)
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(reported) == 2)
    assert [report for report, _ in reported] == ["measured again"] * 2
    assert [dbfs for _, dbfs in reported] == pytest.approx([-40.0] * 2)
    assert threading.main_thread() not in threads


@pytest.mark.fault("driver-raises")
@pytest.mark.parametrize("error", [ProbeError("radio: gap"), KeyError("gap"), SystemExit("gap")])
def test_a_failed_measurement_is_reported_and_the_next_request_works(error: BaseException) -> None:
    reported: list[tuple[str, float | None]] = []
    failures = [error]

    def measure() -> float:
        if failures:
            raise failures.pop()
        return -30.0

    with FloorRequest(measure, lambda *report: reported.append(report)):
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(reported) == 1)
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(reported) == 2)
    assert "gap" in reported[0][0]
    assert reported[0][1] is None
    assert reported[1][0] == "measured again"
    assert reported[1][1] == pytest.approx(-30.0)


def test_the_signal_handler_is_restored_and_the_thread_ends() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with FloorRequest(lambda: 0.0, lambda *_: None):
        assert signal.getsignal(signal.SIGUSR1) != before
    assert signal.getsignal(signal.SIGUSR1) == before
    wait_until(lambda: not any(t.name == "noise-floor" for t in threading.enumerate()))


def test_it_is_measured_at_intervals_and_on_request_in_between() -> None:
    reported: list[tuple[str, float | None]] = []
    with FloorRequest(lambda: -40.0, lambda *report: reported.append(report)) as request:
        request.repeat(0.05)
        wait_until(lambda: len(reported) >= 3)
        request.repeat(60.0)
        count = len(reported)
        request.request()
        wait_until(lambda: len(reported) > count)


@pytest.mark.fault("sigusr1-simulated")
def test_a_probe_without_a_noise_floor_ignores_the_request() -> None:
    reported: list[tuple[str, float | None]] = []
    with FloorRequest(None, lambda *report: reported.append(report)):
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(reported) == 1)
    assert reported == [("ignored: this probe has no noise floor to measure", None)]
