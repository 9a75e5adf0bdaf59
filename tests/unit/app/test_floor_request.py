"""The noise floor on request: a signal asks for it, and a thread of its own measures it."""

from __future__ import annotations

import signal
import threading
from math import nan

import pytest

from macontrol.config.model.errors import ProbeError
from macontrol.floor_request import FloorRequest
from macontrol.hal.probes.sdr.noise_floor import NoiseFloor
from support.probe_settings import wait_until


def test_every_signal_is_one_measurement_and_never_in_the_slot_thread() -> None:
    told: list[tuple[str, float | None]] = []
    threads: list[threading.Thread] = []

    def measure() -> NoiseFloor:
        threads.append(threading.current_thread())
        return NoiseFloor(1e-4, 0.1, 0.0)

    with FloorRequest(measure, lambda *words: told.append(words)):
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(told) == 1)
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(told) == 2)
    assert [words for words, _ in told] == ["measured again"] * 2
    assert [dbfs for _, dbfs in told] == pytest.approx([-40.0] * 2)
    assert threading.main_thread() not in threads


def test_a_floor_that_cannot_be_measured_is_told_and_the_next_request_is_heard() -> None:
    told: list[tuple[str, float | None]] = []
    failures = ["radio: noise floor not measured: gap"]

    def measure() -> NoiseFloor:
        if failures:
            raise ProbeError(failures.pop())
        return NoiseFloor(1e-3, 0.1, nan)

    with FloorRequest(measure, lambda *words: told.append(words)):
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(told) == 1)
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(told) == 2)
    assert told[0] == (
        "radio: noise floor not measured: gap; keeping the previous noise floor",
        None,
    )
    assert told[1][0] == "measured again"
    assert told[1][1] == pytest.approx(-30.0)


def test_the_signal_is_as_before_afterwards_and_the_thread_has_gone() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with FloorRequest(lambda: NoiseFloor(1.0, 0.0, nan), lambda *_: None):
        assert signal.getsignal(signal.SIGUSR1) != before
    assert signal.getsignal(signal.SIGUSR1) == before
    wait_until(lambda: not any(t.name == "noise-floor" for t in threading.enumerate()))


@pytest.mark.fault("sigusr1-simulated")
def test_a_simulated_probe_has_none_and_says_so() -> None:
    told: list[tuple[str, float | None]] = []
    with FloorRequest(None, lambda *words: told.append(words)):
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: len(told) == 1)
    assert told == [("ignored: a simulated probe has no noise floor to measure", None)]
