"""The ring: the times of samples, and whether a window is ready, pending or lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from macontrol.config.model.errors import ProbeError
from macontrol.hal.probes.sdr.ring import IQRing, Window
from support.probe_settings import wait_until

RATE = 10_000.0
BLOCK = 640  # 64 ms
START = 1000.0


def numbered(first: int, count: int) -> npt.NDArray[np.float64]:
    """Samples whose value is their number."""
    n = np.arange(first, first + count, dtype=float)
    return np.column_stack([n, -n])


def ring_of(
    capacity_s: float = 3.0, tolerance_s: float = 0.005, settling_s: float = 0.2, **more: Any
) -> IQRing:
    return IQRing(
        RATE,
        capacity_s=capacity_s,
        tolerance_s=tolerance_s,
        settling_s=settling_s,
        dtype=np.float64,
        **more,
    )


class Radio:
    """Takes sample n at START + n/RATE and delivers it in blocks, with a given delay."""

    def __init__(self, ring: IQRing, rate: float = RATE) -> None:
        self.ring = ring
        self.rate = rate
        self.count = 0
        self.arrival = 0.0
        self.lost = 0
        self.errors: list[ProbeError] = []

    def run(
        self, seconds: float, delay: Callable[[float], float] = lambda _: 0.0, block: int = BLOCK
    ) -> None:
        for _ in range(round(seconds * self.rate / block)):
            taken = START + (self.count + self.lost + block) / self.rate
            self.arrival = max(self.arrival, taken + delay(taken))
            rows = numbered(self.count + self.lost, block)
            try:
                self.ring.append(rows, self.arrival)
            except ProbeError as error:
                self.errors.append(error)
            self.count += block

    def lose(self, seconds: float) -> None:
        self.lost += round(seconds * self.rate)


def numbers(window: Window) -> npt.NDArray[np.float64]:
    assert window.state == "ready"
    assert window.samples is not None
    column: npt.NDArray[np.float64] = window.samples[:, 0]
    return column


def test_a_window_holds_the_samples_taken_in_it_and_no_others() -> None:
    radio = Radio(ring_of())
    radio.run(2.0)
    found = numbers(radio.ring.window(START + 1.0, START + 1.1))
    assert found[0] == pytest.approx(10_000, abs=1)
    assert found[-1] == pytest.approx(10_999, abs=1)
    assert np.all(np.diff(found) == 1)


def test_delivery_jitter_does_not_shift_the_samples() -> None:
    rng = np.random.default_rng(1)
    radio = Radio(ring_of())
    radio.run(6.0, lambda _: float(rng.exponential(0.01)))
    assert abs(radio.ring._time_of(40_000) - (START + 4.0)) < 0.001


def test_parts_of_a_block_are_stamped_by_its_end() -> None:
    ring = ring_of()
    arrival = START
    for k in range(1, 40):
        arrival = START + k * BLOCK / RATE
        for piece in np.array_split(numbered((k - 1) * BLOCK, BLOCK), 4):
            ring.append(piece, arrival)
    assert ring._time_of(0) == pytest.approx(START, abs=1e-9)
    assert ring.window(arrival - 0.1, arrival).state == "ready"


def test_a_window_is_pending_until_its_last_sample_has_arrived() -> None:
    radio = Radio(ring_of())
    radio.run(1.0)
    end = START + radio.count / RATE
    assert radio.ring.window(end - 0.05, end).state == "ready"
    assert radio.ring.window(end - 0.05, end + 0.001).state == "pending"
    radio.run(0.064)
    found = numbers(radio.ring.window(end - 0.05, end + 0.001))
    assert found[-1] == pytest.approx(radio.count - BLOCK + 9, abs=1)


def test_a_late_block_completes_a_window_only_after_a_block_on_time() -> None:
    radio = Radio(ring_of())
    radio.run(1.0)
    end = START + radio.count / RATE
    radio.run(0.064, lambda _: 0.05)
    assert radio.ring.window(end, end + 0.06).state == "pending"
    radio.run(0.064)
    assert numbers(radio.ring.window(end, end + 0.06))[0] == pytest.approx(
        (end - START) * RATE, abs=1
    )


def test_lost_samples_cause_a_gap_and_no_shift() -> None:
    radio = Radio(ring_of())
    radio.run(2.0)
    lost_at = START + radio.count / RATE
    radio.lose(0.03)
    radio.run(0.7)
    assert radio.ring.window(lost_at - 0.05, lost_at + 0.05).state == "pending"
    radio.run(0.7)
    assert radio.ring.window(lost_at - 0.05, lost_at + 0.05).reason == "gap"
    assert radio.ring.restarts == {"gap": 1}
    radio.run(1.0)
    assert abs(numbers(radio.ring.window(START + 4.0, START + 4.1))[0] - 40_000) <= 1


def test_small_losses_accumulate_to_a_gap() -> None:
    radio = Radio(ring_of())
    radio.run(2.0)
    for _ in range(10):
        radio.lose(0.001)
        radio.run(0.3)
    assert radio.ring.restarts == {"gap": 1}


def test_samples_delayed_by_a_stall_keep_their_own_time() -> None:
    """The server has queued two seconds of samples, which arrive in a burst."""
    radio = Radio(ring_of(capacity_s=5.0))
    radio.run(2.0)
    until = START + radio.count / RATE + 2.0
    radio.run(2.0, lambda taken: max(0.0, until - taken))
    radio.run(1.0)
    assert radio.ring.restarts == {}
    assert numbers(radio.ring.window(START + 3.0, START + 3.1))[0] == pytest.approx(30_000, abs=1)
    assert numbers(radio.ring.window(START + 4.5, START + 4.6))[0] == pytest.approx(45_000, abs=1)


def test_a_backlog_longer_than_the_envelope_memory_is_not_stamped_as_recent() -> None:
    radio = Radio(ring_of())
    radio.run(2.0)
    until = START + radio.count / RATE + 20.0
    for _ in range(20):
        radio.run(1.0, lambda taken: max(0.0, until - taken))
        window = radio.ring.window(until - 0.5, until - 0.4)
        assert (
            window.state != "ready" or abs(numbers(window)[0] / RATE - (until - 0.5 - START)) < 1e-3
        )
    radio.run(2.0)
    found = numbers(radio.ring.window(until + 1.0, until + 1.1))
    assert found[0] / RATE == pytest.approx(until + 1.0 - START, abs=1e-3)


@pytest.mark.fault("radio-behind")
def test_a_stream_that_stays_far_behind_must_be_reopened() -> None:
    radio = Radio(ring_of(stale_s=1.5))
    radio.run(2.0)
    radio.run(0.9, lambda _: 2.0)
    assert radio.errors == []
    radio.run(0.5, lambda _: 2.0)
    assert "1.5 s late" in radio.errors[0].detail


def test_a_stream_that_catches_up_too_slowly_must_be_reopened() -> None:
    radio = Radio(ring_of(stale_s=1.5))
    radio.run(2.0)
    began = START + radio.count / RATE
    radio.run(3.0, lambda taken: 5.0 - 0.2 * (taken - began))
    assert "1.5 s late" in radio.errors[0].detail


@pytest.mark.parametrize("ppm", [-100, 100])
def test_the_envelope_follows_an_inexact_sample_clock(ppm: int) -> None:
    radio = Radio(ring_of(), rate=RATE * (1 + ppm * 1e-6))
    radio.run(120.0)
    error = radio.ring._time_of(radio.count) - radio.arrival
    assert abs(error) < 0.001
    assert radio.ring.restarts == {}


@pytest.mark.fault("sample-rate-wrong")
@pytest.mark.parametrize("rate", [0.75, 0.95, 1.05, 1.17, 4.0])
def test_a_wrong_rate_is_refused_until_it_is_right(rate: float) -> None:
    settled: list[bool] = []
    ring = ring_of(on_settled=lambda: settled.append(True))
    radio = Radio(ring, rate=RATE * rate)
    radio.run(7.0)
    assert "probe.sample_rate_hz" in radio.errors[-1].fix
    assert radio.errors[-1].detail.startswith(f"{RATE * rate:,.0f}"[:2])
    settled.clear()
    radio.errors.clear()
    radio.ring.restart("gap", radio.arrival, reopened=True)
    radio.run(6.5)
    assert settled == []
    assert radio.errors
    right = Radio(radio.ring)
    right.arrival = radio.arrival
    radio.ring.restart("gap", radio.arrival, reopened=True)
    right.run(6.0, lambda _: radio.arrival)
    assert radio.ring.is_settled
    assert right.errors == []


@pytest.mark.parametrize(
    ("rate", "some_ready"), [(0.95, False), (1.05, True), (1.17, True), (4.0, False)]
)
def test_a_wrong_rate_shifts_no_window_by_more_than_jitter(rate: float, some_ready: bool) -> None:
    radio = Radio(ring_of(), rate=RATE * rate)
    windows = 0
    for _ in range(200):
        radio.run(0.05)
        window = radio.ring.window(radio.arrival - 0.14, radio.arrival - 0.04)
        if window.samples is not None:
            middle = START + float(window.samples[:, 0].mean()) / (RATE * rate)
            assert middle == pytest.approx(radio.arrival - 0.09, abs=0.02)
            windows += 1
    assert (windows > 0) == some_ready


def test_occasional_losses_are_not_a_wrong_rate() -> None:
    radio = Radio(ring_of())
    for _ in range(3):
        radio.run(4.0)
        radio.lose(0.5)
    radio.run(4.0)
    assert radio.errors == []
    assert radio.ring.restarts == {"gap": 3}


def test_a_stall_that_is_recovered_in_steps_is_not_a_wrong_rate() -> None:
    """Each step looks like a clock that is too fast, and samples are missing until the last one."""
    radio = Radio(ring_of())
    radio.run(6.0)
    stalled = START + radio.count / RATE

    def delay(taken: float) -> float:
        steps = max(0, int((taken - stalled - 1.5) / 0.5))
        return max(0.0, 1.4 - 0.2 * steps)

    radio.run(7.0, delay, block=BLOCK // 4)
    assert radio.ring.restarts["gap"] >= 4
    assert radio.errors == []
    assert radio.ring.is_settled


def test_a_delivery_that_becomes_faster_is_not_a_wrong_rate() -> None:
    radio = Radio(ring_of())
    radio.run(20.0, lambda taken: max(0.0, 0.04 - 0.01 * (taken - START)))
    assert radio.ring.restarts == {}


@pytest.mark.fault("stream-breaks-repeatedly")
def test_a_stream_that_breaks_repeatedly_must_be_reopened() -> None:
    radio = Radio(ring_of())
    radio.run(2.0)
    for _ in range(50):
        radio.run(0.128)
        radio.ring.restart("overflow", radio.arrival)
    assert radio.errors == []
    for _ in range(5):
        radio.run(0.128)
        radio.ring.restart("overflow", radio.arrival)
    assert "(overflow)" in radio.errors[-1].detail
    radio.ring.restart("gap", radio.arrival, reopened=True)
    radio.errors.clear()
    radio.run(2.0)
    assert radio.errors == []
    assert radio.ring.is_settled


def test_a_clock_that_stopped_causes_a_gap() -> None:
    radio = Radio(ring_of())
    radio.run(1.0)
    radio.arrival = 0.0
    radio.run(0.2, lambda _: -3.0)
    assert radio.ring.restarts == {"gap": 1}


def test_no_window_is_ready_before_the_radio_has_settled() -> None:
    radio = Radio(ring_of(settling_s=0.5))
    radio.run(0.4)
    assert not radio.ring.is_settled
    assert radio.ring.window(START + 0.1, START + 0.2).state == "pending"
    radio.run(0.6)
    assert radio.ring.window(START + 0.1, START + 0.2).reason == "settling"
    assert radio.ring.window(START + 0.7, START + 0.8).state == "ready"


def test_no_older_window_is_ready_after_a_reopening() -> None:
    radio = Radio(ring_of())
    radio.run(1.0)
    broken = START + radio.count / RATE
    radio.ring.restart("overflow", broken, reopened=True)
    radio.run(1.0)
    assert radio.ring.window(broken - 0.2, broken - 0.1).reason == "overflow"
    assert radio.ring.window(broken + 0.01, broken + 0.1).reason == "settling"
    assert radio.ring.window(broken + 0.5, broken + 0.6).state == "ready"


def test_the_memory_is_bounded_and_overwritten_samples_are_stale() -> None:
    radio = Radio(ring_of(capacity_s=1.0))
    radio.run(5.0)
    assert radio.ring._store.capacity == 10_000
    assert radio.ring.window(START + 2.0, START + 2.1).reason == "stale"
    assert len(numbers(radio.ring.window(START + 4.2, START + 4.9))) == pytest.approx(7_000, abs=2)


def test_only_the_end_of_a_block_longer_than_the_ring_is_kept() -> None:
    radio = Radio(ring_of(capacity_s=0.5, settling_s=0.0))
    radio.run(4.0, block=20_000)
    found = numbers(radio.ring.window(START + 3.6, START + 3.9))
    assert found[0] == pytest.approx(36_000, abs=1)


def test_a_known_delay_shifts_the_samples_back() -> None:
    radio = Radio(ring_of(delay_s=0.02))
    radio.run(1.0, lambda _: 0.02)
    assert radio.ring._time_of(0) == pytest.approx(START)


def test_the_rate_is_measured() -> None:
    radio = Radio(ring_of(), rate=RATE * 1.17)
    radio.run(4.0)
    assert np.isnan(radio.ring.measured_rate_hz)
    radio.run(4.0)
    assert radio.ring.measured_rate_hz == pytest.approx(RATE * 1.17, rel=0.02)


def test_a_wait_ends_with_the_awaited_sample() -> None:
    radio = Radio(ring_of())
    radio.run(1.0)
    end = START + radio.count / RATE
    waiting = threading.Thread(target=radio.ring.wait, args=(end + 0.03, 30.0))
    waiting.start()
    time.sleep(0.02)
    assert waiting.is_alive()
    radio.run(0.064)
    waiting.join(10.0)
    assert not waiting.is_alive()


def test_a_wait_continues_while_the_stream_settles_and_ends_afterwards() -> None:
    radio = Radio(ring_of(settling_s=1.0))
    radio.run(0.5)
    waiting = threading.Thread(target=radio.ring.wait, args=(START + 0.1, 30.0))
    waiting.start()
    radio.run(0.3)
    waiting.join(0.2)
    assert waiting.is_alive()
    radio.run(0.4)
    waiting.join(10.0)
    assert not waiting.is_alive()


def test_a_wait_ends_when_the_stream_breaks() -> None:
    ring = ring_of()
    waiting = threading.Thread(target=ring.wait, args=(START, 30.0))
    waiting.start()
    wait_until(lambda: ring._awaited_s == START)
    ring.restart("gap", START)
    waiting.join(10.0)
    assert not waiting.is_alive()
