"""The SDR probe on a scripted stream. Its clock advances only with samples."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from math import log2, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from macontrol.config.model.errors import ProbeError
from macontrol.hal import Measurement, Probe
from macontrol.hal.probes.sdr import reader as sdr_reader
from macontrol.hal.probes.sdr import worker as sdr_worker
from macontrol.hal.probes.sdr.power import PowerReading, wideband
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.hal.probes.sdr.ring import IQRing, Window
from macontrol.hal.probes.sdr.samples import Samples
from support.probe_settings import probe_settings, wait_until

RATE = 100_000.0
BLOCK = 1_000  # 10 ms
FLOOR = 1e-4
SHARE = 0.75


class Bench:
    """A clock and a stream of noise with a given power. Time passes only with samples."""

    name = "bench"
    dtype = np.float32

    def __init__(self) -> None:
        self.time_s = 1000.0
        self.rng = np.random.default_rng(5)
        self.ring: IQRing | None = None
        self.opened = 0
        self.refuse = ""
        self.break_with: Exception | None = None
        self.primed_s = 0.5
        self.primed = threading.Event()

    def now(self) -> float:
        return self.time_s

    def sleep_until(self, moment: float) -> None:
        raise AssertionError("a probe does not sleep on the clock")

    def open(self, stop: threading.Event) -> None:
        if self.refuse:
            raise ProbeError(self.refuse)
        self.opened += 1
        self.break_with = None

    def read(self, ring: IQRing, stop: threading.Event) -> None:
        self.ring = ring
        self.run(self.primed_s)
        self.primed.set()
        while not stop.wait(0.002):
            if self.break_with is not None:
                raise self.break_with

    def close(self) -> None:
        self.ring = None

    def samples(self, power: float, count: int = BLOCK) -> npt.NDArray[np.float32]:
        return self.rng.standard_normal((count, 2), np.float32) * np.float32(sqrt(power / 2))

    def run(self, seconds: float, power: float = FLOOR, late_s: float = 0.0) -> None:
        """Let time pass, with samples of a given power."""
        for _ in range(round(seconds * RATE / BLOCK)):
            self.time_s += BLOCK / RATE
            assert self.ring is not None
            self.ring.append(self.samples(power), self.time_s + late_s)

    def lose(self, seconds: float) -> None:
        self.time_s += seconds


def settings_of(**changes: Any) -> Any:
    base = {"sample_rate_hz": RATE, "tone_offset_hz": 10e3, "settling_s": 0.3, "least_samples": 500}
    return probe_settings(**(base | changes))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def probe_on(bench: Bench, **changes: Any) -> SdrProbe:
    probe = SdrProbe(settings_of(**changes), bench, bench)
    probe.open()
    assert bench.primed.wait(10.0)
    return probe


@pytest.fixture
def probe(bench: Bench) -> Iterator[SdrProbe]:
    probe = probe_on(bench, noise_floor=-40.0)
    yield probe
    probe.close()


def reward(measurement: Measurement) -> float:
    assert measurement.value is not None
    return measurement.value.reward(SHARE)[0]


def sigma(measurement: Measurement) -> float:
    assert measurement.value is not None
    return measurement.value.reward(SHARE)[1]


def collected(probe: Probe, count: int = 1) -> list[Measurement]:
    """Collect until there are enough measurements: the worker needs real time."""
    found: list[Measurement] = []

    def enough() -> bool:
        with contextlib.suppress(ProbeError):
            found.extend(probe.collect(-1.0))
        return len(found) >= count

    wait_until(enough)
    return found


def test_a_slot_is_measured_over_its_interval(bench: Bench, probe: SdrProbe) -> None:
    probe.request(7, bench.time_s, bench.time_s + 0.1)
    bench.run(0.1, power=FLOOR * 100)
    bench.run(0.1)
    (measurement,) = collected(probe)
    assert (measurement.slot, measurement.valid, measurement.reason) == (7, True, "")
    assert reward(measurement) == pytest.approx(SHARE * log2(100), abs=0.1)
    assert 0.005 < sigma(measurement) < 0.03


@pytest.mark.fault("interval-guards")
@pytest.mark.parametrize(("before", "after"), [(0.1, FLOOR * 4), (FLOOR * 4, 0.1)])
def test_the_guards_exclude_the_time_before_and_after(
    bench: Bench, probe: SdrProbe, before: float, after: float
) -> None:
    """The tolerance is fixed, because samples from outside would increase the uncertainty too."""
    bench.run(0.05, power=before)
    probe.request(1, bench.time_s - 0.004, bench.time_s + 0.104)
    bench.run(0.1, power=FLOOR * 4)
    bench.run(0.05, power=after)
    (measurement,) = collected(probe)
    assert reward(measurement) == pytest.approx(SHARE * 2, abs=0.1)


def test_with_a_lead_a_fast_radio_answers_before_the_interval_ends(bench: Bench) -> None:
    probe = probe_on(bench, noise_floor=-40.0, lead_s=0.03)
    begin = bench.time_s
    probe.request(1, begin, begin + 0.1)
    bench.run(0.07)
    assert collected(probe)[0].valid
    assert bench.time_s < begin + 0.1
    probe.close()


@pytest.mark.fault("sample-pending")
def test_older_samples_never_replace_missing_ones(bench: Bench, probe: SdrProbe) -> None:
    bench.run(0.5, power=0.1)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.09)
    time.sleep(0.15)
    assert probe.collect(bench.time_s) == []
    bench.run(0.02)
    assert reward(collected(probe)[0]) < 0.2


def test_late_measurements_belong_to_their_own_slots(bench: Bench, probe: SdrProbe) -> None:
    begin = bench.time_s
    for slot in range(4):
        probe.request(slot, begin + slot * 0.1, begin + slot * 0.1 + 0.1)
    assert probe.collect(bench.time_s) == []
    for slot in range(4):
        bench.run(0.1, power=FLOOR * 4**slot)
    found = collected(probe, 4)
    assert [m.slot for m in found] == [0, 1, 2, 3]
    assert [reward(m) for m in found] == pytest.approx([SHARE * 2 * k for k in range(4)], abs=0.1)


@pytest.mark.fault("slot-thread-bounded-wait")
def test_collect_waits_for_the_latest_request_until_its_deadline(
    bench: Bench, probe: SdrProbe
) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    started = time.monotonic()
    # The clock stands still, 0.2 s before the deadline.
    assert probe.collect(bench.time_s + 0.2) == []
    assert 0.19 < time.monotonic() - started < 2.0
    feeder = threading.Timer(0.05, bench.run, (0.1,))
    feeder.start()
    assert [m.slot for m in probe.collect(bench.time_s + 30.0)] == [1]
    feeder.join()


def no_wait(_: float) -> bool:
    raise AssertionError("collect waits")


@pytest.mark.fault("slot-thread-bounded-wait")
def test_collect_does_not_wait_for_a_stream_that_is_known_to_be_too_slow(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    for slot in range(3):
        probe.request(slot, bench.time_s, bench.time_s + 0.1)
        bench.run(0.09)
        bench.time_s += 0.07  # the block that completes the window arrives 70 ms later
        assert bench.ring is not None
        bench.ring.append(bench.samples(FLOOR, 7_000 + BLOCK), bench.time_s + 0.01)
        bench.time_s += 0.01
        assert collected(probe)[0].valid
    probe.request(3, bench.time_s, bench.time_s + 0.1)
    monkeypatch.setattr(probe._answered, "wait", no_wait)
    assert probe.collect(bench.time_s + 0.1) == []


def test_collect_does_not_wait_for_a_request_answered_out_of_order(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.request(5, bench.time_s, bench.time_s + 0.1)
    probe.request(6, bench.time_s, bench.time_s)  # too short: needs no samples
    wait_until(lambda: len(probe._ready) == 1)
    bench.run(0.1)
    wait_until(lambda: len(probe._ready) == 2)
    monkeypatch.setattr(probe._answered, "wait", no_wait)
    assert [m.slot for m in probe.collect(bench.time_s + 30.0)] == [6, 5]


@pytest.mark.fault("slot-thread-bounded-wait")
def test_collect_does_not_wait_for_a_stream_lost_just_before_the_wait(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    clear = probe._answered.clear

    def lost_and_clear() -> None:
        probe._reader.fault = ProbeError("the server disconnected")
        clear()

    monkeypatch.setattr(probe._answered, "clear", lost_and_clear)
    monkeypatch.setattr(probe._answered, "wait", no_wait)
    with pytest.raises(ProbeError, match="the server disconnected"):
        probe.collect(bench.time_s + 30.0)


@pytest.mark.fault("slot-thread-bounded-wait")
def test_request_and_collect_neither_compute_nor_wait_past_the_deadline(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed_by: Counter[str] = Counter()

    def measure(samples: Samples) -> PowerReading:
        computed_by[threading.current_thread().name] += 1
        return wideband(samples)

    monkeypatch.setattr(sdr_worker, "wideband", measure)
    monkeypatch.setattr(probe._answered, "wait", no_wait)
    for slot in range(20):
        probe.request(slot, bench.time_s, bench.time_s + 0.03)
        bench.run(0.03)
        probe.collect(bench.time_s)
    wait_until(lambda: computed_by.total() == 20)
    assert computed_by == {"probe-worker": 20}


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_clipping(bench: Bench, probe: SdrProbe, share: float) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    for _ in range(10):
        bench.time_s += 0.01
        block = bench.samples(0.01)
        block[: round(share * BLOCK)] = 1.0
        assert bench.ring is not None
        bench.ring.append(block, bench.time_s)
    (measurement,) = collected(probe)
    assert measurement.valid == (share == 0.0)
    assert measurement.reason == ("clipping" if share else "")
    level, unit, _, _, clipped, samples = measurement.signal
    assert level is not None
    assert clipped == pytest.approx(share, abs=0.01)
    assert unit == "dBFS"
    assert samples == pytest.approx(0.09 * RATE, rel=0.01)  # the guards are not measured


def test_a_gap(bench: Bench, probe: SdrProbe) -> None:
    bench.run(1.0)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.05)
    bench.lose(0.03)
    bench.run(1.4)
    assert collected(probe)[0].reason == "gap"
    probe.request(2, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2)
    assert collected(probe)[0].valid
    assert probe.health().breaks == {"gap": 1}


def test_an_overflow(bench: Bench, probe: SdrProbe) -> None:
    bench.run(0.2)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.05)
    assert bench.ring is not None
    bench.ring.restart("overflow", bench.time_s)
    bench.run(0.3)
    assert collected(probe)[0].reason == "overflow"


def test_the_worker_does_not_poll_fast_while_the_stream_settles(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The samples of the window have arrived but are not ready yet."""
    bench.run(0.2)
    assert bench.ring is not None
    bench.ring.restart("overflow", bench.time_s)
    window, calls = bench.ring.window, itertools.count()

    def counted(start_s: float, end_s: float) -> Window:
        next(calls)
        return window(start_s, end_s)

    monkeypatch.setattr(bench.ring, "window", counted)
    probe.request(1, bench.time_s, bench.time_s + 0.05)
    bench.run(0.1)
    time.sleep(0.3)
    assert probe.collect(0.0) == []
    assert 0 < next(calls) < 50
    bench.run(0.3)
    assert collected(probe)[0].reason == "settling"


def test_samples_that_do_not_arrive_are_stale(bench: Bench, probe: SdrProbe) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.time_s += 1.5
    time.sleep(0.15)
    assert probe.collect(0.0) == []
    bench.time_s += 0.2
    assert collected(probe)[0].reason == "stale"


def run_when_floor_is_requested(
    bench: Bench, probe: SdrProbe, seconds: float, power: float = FLOOR
) -> threading.Thread:
    """Let time pass once the noise floor is requested."""
    before = probe._floor_interval_s

    def run() -> None:
        wait_until(lambda: probe._floor_interval_s != before)
        bench.run(seconds, power)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.fault("samples-constant")
@pytest.mark.parametrize("value", [0.0, 0.0039])
def test_constant_samples_give_no_reward_and_no_noise_floor(
    bench: Bench, probe: SdrProbe, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A radio that is stuck is neither a bad link nor a link without noise."""
    stuck = np.full((BLOCK, 2), value, np.float32)
    monkeypatch.setattr(bench, "samples", lambda *_: stuck)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2)
    (measurement,) = collected(probe)
    assert (measurement.valid, measurement.reason) == (False, "constant")
    feeder = run_when_floor_is_requested(bench, probe, 1.0)
    with pytest.raises(ProbeError, match="noise floor not measured: constant"):
        probe.measure_noise_floor()
    feeder.join()


@pytest.mark.fault("samples-not-a-number")
@pytest.mark.parametrize("mode", ["wideband", "tone"])
@pytest.mark.parametrize("sample", [np.nan, np.inf, 1e30])
def test_samples_that_are_not_numbers_give_no_reward_and_no_noise_floor(
    bench: Bench, mode: str, sample: float
) -> None:
    """A single one is enough. A reward of 0 would be invented."""
    probe = probe_on(bench, mode=mode, noise_floor=-40.0)
    before, clean = probe.noise_floor, bench.samples

    def with_bad_sample(power: float, count: int = BLOCK) -> npt.NDArray[np.float32]:
        block = clean(power, count)
        block[0, 0] = sample
        return block

    bench.samples = with_bad_sample  # type: ignore[method-assign]
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2)
    (measurement,) = collected(probe)
    assert (measurement.valid, measurement.reason) == (False, "not-a-number")
    feeder = threading.Timer(0.05, bench.run, (1.0,))
    feeder.start()
    with pytest.raises(ProbeError, match="noise floor not measured: not-a-number"):
        probe.measure_noise_floor()
    feeder.join()
    assert probe.noise_floor is before
    probe.close()


@pytest.mark.fault("slot-too-few-samples")
def test_too_few_samples(bench: Bench, probe: SdrProbe) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.0149)
    probe.request(2, bench.time_s, bench.time_s - 1.0)
    assert [m.reason for m in collected(probe, 2)] == ["too-few-samples"] * 2


def test_the_last_second_of_a_long_interval_is_measured(bench: Bench, probe: SdrProbe) -> None:
    probe.request(1, bench.time_s, bench.time_s + 3.0)
    bench.run(1.9, power=0.1)
    bench.run(1.2, power=FLOOR)
    assert reward(collected(probe)[0]) < 0.1


def test_settling(bench: Bench) -> None:
    probe = probe_on(bench, noise_floor=-40.0)
    probe.request(1, 1000.1, 1000.2)
    assert collected(probe)[0].reason == "settling"
    probe.close()


def test_without_a_noise_floor_there_is_no_reward(bench: Bench) -> None:
    probe = probe_on(bench)
    assert probe.noise_floor is None
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2)
    assert collected(probe)[0].reason == "no-noise-floor"
    probe.close()


def test_the_noise_floor_is_measured_again_on_request(bench: Bench) -> None:
    probe = probe_on(bench, noise_floor_s=0.5)
    for power in (16 * FLOOR, 4 * FLOOR):
        requested_s = bench.time_s
        feeder = run_when_floor_is_requested(bench, probe, 0.6, power)
        floor = probe.measure_noise_floor()
        feeder.join()
        assert probe.noise_floor is floor
        assert floor.power == pytest.approx(power, rel=0.05)
        assert 0.01 < floor.sigma_db < 0.1
        assert requested_s <= floor.measured_at_s <= bench.time_s - 0.5
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2, power=16 * FLOOR)
    assert reward(collected(probe)[0]) == pytest.approx(SHARE * 2, abs=0.1)
    probe.close()


@pytest.mark.fault("floor-with-transmitter-on")
def test_a_floor_measured_with_the_transmitter_on_is_refused(
    bench: Bench,
) -> None:
    probe = probe_on(bench, noise_floor_s=0.5)
    feeder = run_when_floor_is_requested(bench, probe, 0.6, FLOOR)
    floor = probe.measure_noise_floor()
    feeder.join()
    feeder = run_when_floor_is_requested(bench, probe, 0.6, 4 * FLOOR)
    with pytest.raises(ProbeError, match=r"6\.\d dB above the noise floor in use"):
        probe.measure_noise_floor()
    feeder.join()
    assert probe.noise_floor is floor
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2, power=4 * FLOOR)
    assert reward(collected(probe)[0]) == pytest.approx(SHARE * 2, abs=0.1)
    probe.close()


def test_a_slot_at_the_noise_floor_is_valid_and_has_a_reason(bench: Bench, probe: SdrProbe) -> None:
    for slot, power in enumerate((FLOOR, 2 * FLOOR), start=1):
        probe.request(slot, bench.time_s, bench.time_s + 0.1)
        bench.run(0.2, power=power)
    at_floor, above = collected(probe, 2)
    assert (at_floor.valid, at_floor.reason) == (True, "no-signal")
    assert at_floor.above_floor < 1
    assert (above.valid, above.reason) == (True, "")
    assert above.above_floor > 1


@pytest.mark.fault("slot-during-noise-floor")
def test_slots_are_invalid_while_the_noise_floor_is_measured(bench: Bench) -> None:
    probe = probe_on(bench, noise_floor=-40.0, noise_floor_s=0.3)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    feeder = run_when_floor_is_requested(bench, probe, 0.4)
    probe.measure_noise_floor()
    feeder.join()
    assert collected(probe)[0].reason == "noise-floor"
    probe.close()


@pytest.mark.fault("noise-floor-fails")
def test_the_previous_floor_stays_in_use_if_none_can_be_measured(bench: Bench) -> None:
    probe = probe_on(bench, noise_floor=-40.0, noise_floor_s=0.1, stale_s=0.1)
    before = probe.noise_floor
    with pytest.raises(ProbeError, match="noise floor not measured"):
        probe.measure_noise_floor()  # no samples arrive
    assert probe.noise_floor is before
    probe.close()


def test_a_tone_is_measured_in_its_band(bench: Bench) -> None:
    probe = probe_on(bench, mode="tone", tone_bandwidth_hz=5e3, noise_floor=-40.0)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2, power=FLOOR * RATE / 5e3)  # the part in the band is at the floor
    assert reward(collected(probe)[0]) < 0.3
    probe.close()


@pytest.mark.fault("radio-drops-client")
def test_a_lost_stream_is_reported_and_reopened(bench: Bench, probe: SdrProbe) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.05)
    bench.refuse = "busy"
    bench.primed.clear()
    bench.break_with = ProbeError("the server disconnected")
    wait_until(lambda: bool(probe.health().fault))
    with pytest.raises(ProbeError, match=r"^bench: "):
        probe.request(2, bench.time_s, bench.time_s + 0.1)
    assert [(m.slot, m.reason) for m in collected(probe)] == [(1, "gap")]
    with pytest.raises(ProbeError, match=r"^bench: "):
        probe.collect(bench.time_s + 10.0)
    bench.refuse = ""
    wait_until(lambda: not probe.health().fault)
    assert bench.primed.wait(10.0)
    assert probe.health().reopened == 1
    probe.request(3, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2)
    assert [m.slot for m in collected(probe)] == [3]


@pytest.mark.fault("probe-driver-unknown-failure")
def test_the_reader_continues_after_any_failure(bench: Bench, probe: SdrProbe) -> None:
    bench.break_with = ValueError("never seen before")
    wait_until(lambda: "ValueError: never seen before" in probe.health().fault)
    wait_until(lambda: not probe.health().fault)
    assert bench.opened == 2


def test_a_radio_that_cannot_be_opened_is_an_immediate_error(bench: Bench) -> None:
    bench.refuse = "nothing there"
    with pytest.raises(ProbeError, match="nothing there"):
        probe_on(bench)


def test_a_radio_that_sends_nothing_is_an_error(bench: Bench) -> None:
    bench.primed_s = 0.0
    ticks = itertools.count(1000.0, 0.5)
    bench.now = lambda: next(ticks)  # type: ignore[method-assign]
    with pytest.raises(ProbeError, match="no samples arrive"):
        probe_on(bench)


@pytest.mark.fault("radio-returns-busy-or-wrong")
def test_the_pause_between_attempts_to_reopen_doubles(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def refuse(stop: threading.Event) -> None:
        bench.time_s += 8.0
        raise ProbeError("busy")

    def pause(stopped: threading.Event, seconds: float) -> bool:
        if seconds >= 0.5:
            pauses.append(seconds)
        return wait(stopped, min(seconds, 0.001))

    wait = threading.Event.wait
    monkeypatch.setattr(bench, "open", refuse)
    stop = probe._reader.stop
    monkeypatch.setattr(stop, "wait", lambda seconds: pause(stop, seconds))
    bench.break_with = ProbeError("the server disconnected")
    wait_until(lambda: len(pauses) >= 6)
    assert pauses[:6] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def open_in_thread(probe: SdrProbe) -> tuple[threading.Thread, list[str]]:
    """Open the probe in a thread; return the thread and its errors."""
    errors: list[str] = []

    def work() -> None:
        try:
            probe.open()
        except ProbeError as error:
            errors.append(error.detail)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, errors


@pytest.mark.fault("stop-while-radio-opens")
def test_opening_ends_when_the_probe_is_closed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not poll fast while the reader thread is still running."""
    polls, reading, done = itertools.count(), threading.Event(), threading.Event()

    def now() -> float:
        next(polls)
        return bench.time_s

    def read(ring: IQRing, stop: threading.Event) -> None:
        reading.set()
        assert done.wait(10.0)

    monkeypatch.setattr(bench, "now", now)
    monkeypatch.setattr(bench, "read", read)
    probe = SdrProbe(settings_of(), bench, bench)
    opener, errors = open_in_thread(probe)
    assert reading.wait(10.0)
    closer = threading.Thread(target=probe.close)
    closer.start()
    assert probe._reader.stop.wait(10.0)
    before = next(polls)
    time.sleep(0.3)
    polled = next(polls) - before
    done.set()
    opener.join(10.0)
    closer.join(10.0)
    assert (opener.is_alive(), errors) == (False, ["bench: the probe is closed"])
    assert polled < 50


@pytest.mark.fault("stop-while-radio-opens")
def test_a_radio_is_not_closed_while_another_thread_opens_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library of a radio may not support that: the thread that opens the radio closes it."""
    monkeypatch.setattr(sdr_reader, "_OPENING_ENDS_S", 0.05)
    tuning, tuned, closed = threading.Event(), threading.Event(), threading.Event()

    def slow(stop: threading.Event) -> None:
        tuning.set()
        assert tuned.wait(10.0)

    monkeypatch.setattr(bench, "open", slow)
    monkeypatch.setattr(bench, "close", closed.set)
    probe = SdrProbe(settings_of(), bench, bench)
    opener, errors = open_in_thread(probe)
    assert tuning.wait(10.0)
    probe.close()
    assert not closed.is_set()
    tuned.set()
    opener.join(10.0)
    assert (opener.is_alive(), errors) == (False, ["bench: the probe is closed"])
    assert closed.is_set()


def test_a_wrong_sample_rate_is_the_reason_of_invalid_slots(bench: Bench, probe: SdrProbe) -> None:
    assert bench.ring is not None
    for _ in range(70):
        bench.time_s += 0.1
        with contextlib.suppress(ProbeError):
            bench.ring.append(bench.samples(FLOOR, 8_000), bench.time_s)
    probe.request(1, bench.time_s - 1.0, bench.time_s - 0.5)
    bench.time_s += 2.0
    assert collected(probe)[0].reason == "sample-rate"
    assert probe.health().measured_rate_hz == pytest.approx(0.8 * RATE, rel=0.05)


@pytest.mark.fault("samples-lost")
def test_samples_lost_once_are_a_gap_and_not_a_wrong_rate(bench: Bench, probe: SdrProbe) -> None:
    """Even if they are more than the tolerance of the rate."""
    bench.run(4.5)
    bench.lose(0.2)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(1.4)
    assert abs(probe.health().measured_rate_hz / RATE - 1) > 0.02
    assert collected(probe)[0].reason == "gap"


def test_late_samples_are_stale_and_not_a_wrong_rate(bench: Bench, probe: SdrProbe) -> None:
    bench.run(5.0)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.time_s += 2.0
    assert bench.ring is not None
    bench.ring.append(bench.samples(FLOOR), bench.time_s)  # the first of those in the queue
    assert abs(probe.health().measured_rate_hz / RATE - 1) > 0.02
    assert collected(probe)[0].reason == "stale"


def test_the_health_has_level_and_counts(bench: Bench) -> None:
    probe = probe_on(bench, noise_floor=-40.0)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    probe.request(2, bench.time_s, bench.time_s)
    bench.run(0.2, power=0.01)
    collected(probe, 2)
    health = probe.health()
    assert health.level_dbfs == pytest.approx(-20.0, abs=0.3)
    assert (health.valid, health.invalid) == (1, {"too-few-samples": 1})
    probe.close()
    assert probe.health().fault


def test_no_thread_remains_after_closing(bench: Bench) -> None:
    before = threading.active_count()
    probe = probe_on(bench)
    assert threading.active_count() == before + 2
    probe.close()
    probe.close()
    assert threading.active_count() == before
