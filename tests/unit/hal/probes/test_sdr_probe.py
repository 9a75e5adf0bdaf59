"""The probe over a stream that does as it is told, on a clock that stands until it is moved."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from math import isnan, log2, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from macontrol.config.model.errors import ProbeError
from macontrol.hal import Measurement, Probe
from macontrol.hal.probes.sdr import probe as sdr_probe
from macontrol.hal.probes.sdr.power import PowerReading, wideband
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.hal.probes.sdr.ring import IQRing, Samples, Window
from support.probe_settings import probe_settings, wait_until

RATE = 100_000.0
BLOCK = 1_000  # 10 ms
FLOOR = 1e-4
SHARE = 0.75


class Bench:
    """A clock, and a stream of noise whose power is given. Time passes only with samples."""

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
        raise AssertionError("a probe does not sleep by the clock")

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
        """Let so much time pass, with samples of such a power."""
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
    probe = SdrProbe(settings_of(**changes), bench, bench, transmission_share=SHARE)
    probe.open()
    assert bench.primed.wait(10.0)
    return probe


@pytest.fixture
def probe(bench: Bench) -> Iterator[SdrProbe]:
    probe = probe_on(bench, noise_floor=-40.0)
    yield probe
    probe.close()


def collected(probe: Probe, count: int = 1) -> list[Measurement]:
    """What comes of it, in real time: the worker needs a moment."""
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
    assert measurement.reward == pytest.approx(SHARE * log2(100), abs=0.1)
    assert 0.005 < measurement.uncertainty < 0.03


@pytest.mark.parametrize(("before", "after"), [(0.1, FLOOR * 4), (FLOOR * 4, 0.1)])
def test_the_guards_keep_the_neighbouring_time_out(
    bench: Bench, probe: SdrProbe, before: float, after: float
) -> None:
    """The tolerance is fixed: the stated uncertainty would grow with what the guards let in."""
    bench.run(0.05, power=before)
    probe.request(1, bench.time_s - 0.004, bench.time_s + 0.104)
    bench.run(0.1, power=FLOOR * 4)
    bench.run(0.05, power=after)
    (measurement,) = collected(probe)
    assert measurement.reward == pytest.approx(SHARE * 2, abs=0.1)


def test_with_a_lead_a_quick_radio_answers_before_the_interval_ends(bench: Bench) -> None:
    probe = probe_on(bench, noise_floor=-40.0, lead_s=0.03)
    begin = bench.time_s
    probe.request(1, begin, begin + 0.1)
    bench.run(0.07)
    assert collected(probe)[0].valid
    assert bench.time_s < begin + 0.1
    probe.close()


def test_older_samples_never_stand_in(bench: Bench, probe: SdrProbe) -> None:
    bench.run(0.5, power=0.1)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.09)
    time.sleep(0.15)
    assert probe.collect(bench.time_s) == []
    bench.run(0.02)
    assert collected(probe)[0].reward < 0.2


def test_late_measurements_are_those_of_their_own_slots(bench: Bench, probe: SdrProbe) -> None:
    begin = bench.time_s
    for slot in range(4):
        probe.request(slot, begin + slot * 0.1, begin + slot * 0.1 + 0.1)
    assert probe.collect(bench.time_s) == []
    for slot in range(4):
        bench.run(0.1, power=FLOOR * 4**slot)
    found = collected(probe, 4)
    assert [m.slot for m in found] == [0, 1, 2, 3]
    assert [m.reward for m in found] == pytest.approx([SHARE * 2 * k for k in range(4)], abs=0.1)


def test_collect_waits_for_the_latest_request_until_its_deadline(
    bench: Bench, probe: SdrProbe
) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    started = time.monotonic()
    assert probe.collect(bench.time_s + 0.2) == []  # the clock stands, the deadline is 0.2 s off
    assert 0.19 < time.monotonic() - started < 2.0
    feeder = threading.Timer(0.05, bench.run, (0.1,))
    feeder.start()
    assert [m.slot for m in probe.collect(bench.time_s + 30.0)] == [1]
    feeder.join()


def no_wait(_: float) -> bool:
    raise AssertionError("there is nothing to wait for")


def test_collect_does_not_wait_when_the_stream_is_known_to_be_too_slow(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    for slot in range(3):
        probe.request(slot, bench.time_s, bench.time_s + 0.1)
        bench.run(0.09)
        bench.time_s += 0.07  # the block that completes it comes 70 ms later ...
        bench.ring and bench.ring.append(bench.samples(FLOOR, 7_000 + BLOCK), bench.time_s + 0.01)
        bench.time_s += 0.01
        assert collected(probe)[0].valid
    probe.request(3, bench.time_s, bench.time_s + 0.1)
    monkeypatch.setattr(probe._answered, "wait", no_wait)
    assert probe.collect(bench.time_s + 0.1) == []


def test_answers_out_of_order_are_not_waited_for_again(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.request(5, bench.time_s, bench.time_s + 0.1)
    probe.request(6, bench.time_s, bench.time_s)  # too short, which needs no samples to tell
    wait_until(lambda: len(probe._ready) == 1)
    bench.run(0.1)
    wait_until(lambda: len(probe._ready) == 2)
    monkeypatch.setattr(probe._answered, "wait", no_wait)
    assert [m.slot for m in probe.collect(bench.time_s + 30.0)] == [6, 5]


def test_a_stream_lost_at_the_moment_of_waiting_is_not_waited_for(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    clear = probe._answered.clear

    def lost_and_clear() -> None:
        probe._fault = "the server hung up"
        clear()

    monkeypatch.setattr(probe._answered, "clear", lost_and_clear)
    monkeypatch.setattr(probe._answered, "wait", no_wait)
    with pytest.raises(ProbeError, match="the server hung up"):
        probe.collect(bench.time_s + 30.0)


def test_request_and_collect_neither_compute_nor_wait_past_the_deadline(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed_by: Counter[str] = Counter()

    def measure(samples: Samples) -> PowerReading:
        computed_by[threading.current_thread().name] += 1
        return wideband(samples)

    monkeypatch.setattr(sdr_probe, "wideband", measure)
    monkeypatch.setattr(probe._answered, "wait", no_wait)
    for slot in range(20):
        probe.request(slot, bench.time_s, bench.time_s + 0.03)
        bench.run(0.03)
        probe.collect(bench.time_s)
    wait_until(lambda: computed_by.total() == 20)
    assert computed_by == {"probe_work": 20}


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
    assert isnan(measurement.reward) == (share > 0)


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


def test_while_the_stream_settles_after_an_overflow_the_worker_rests(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The samples of the window are in, but cannot be had yet: it is not asked for all the time."""
    bench.run(0.2)
    assert bench.ring is not None
    bench.ring.restart("overflow", bench.time_s)
    window, asked = bench.ring.window, itertools.count()

    def counted(start_s: float, end_s: float) -> Window:
        next(asked)
        return window(start_s, end_s)

    monkeypatch.setattr(bench.ring, "window", counted)
    probe.request(1, bench.time_s, bench.time_s + 0.05)
    bench.run(0.1)
    time.sleep(0.3)
    assert probe.collect(0.0) == []
    assert 0 < next(asked) < 50
    bench.run(0.3)
    assert collected(probe)[0].reason == "settling"


def test_samples_that_do_not_come_are_stale(bench: Bench, probe: SdrProbe) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.time_s += 1.5
    time.sleep(0.15)
    assert probe.collect(0.0) == []
    bench.time_s += 0.2
    assert collected(probe)[0].reason == "stale"


def feed_when_asked(
    bench: Bench, probe: SdrProbe, seconds: float, power: float = FLOOR
) -> threading.Thread:
    """Let time pass as soon as the noise floor is asked for, and then stand still."""
    before = probe._quiet_s

    def run() -> None:
        wait_until(lambda: probe._quiet_s != before)
        bench.run(seconds, power)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("value", [0.0, 0.0039])
def test_samples_that_are_all_the_same_are_no_silence_and_no_noise_floor(
    bench: Bench, probe: SdrProbe, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A radio that is stuck must be taken neither for a bad link nor for one without noise."""
    stuck = np.full((BLOCK, 2), value, np.float32)
    monkeypatch.setattr(bench, "samples", lambda *_: stuck)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2)
    (measurement,) = collected(probe)
    assert (measurement.valid, measurement.reason) == (False, "constant")
    feeder = feed_when_asked(bench, probe, 1.0)
    with pytest.raises(ProbeError, match="noise floor not measured: constant"):
        probe.measure_noise_floor(0.5)
    feeder.join()


@pytest.mark.parametrize("mode", ["wideband", "tone"])
@pytest.mark.parametrize("sample", [np.nan, np.inf, 1e30])
def test_samples_that_are_no_numbers_are_no_reward_and_no_noise_floor(
    bench: Bench, mode: str, sample: float
) -> None:
    """One of them is enough; and a reward of 0 would be made up."""
    probe = probe_on(bench, mode=mode, noise_floor=-40.0)
    before, clean = probe.noise_floor, bench.samples

    def spoilt(power: float, count: int = BLOCK) -> npt.NDArray[np.float32]:
        block = clean(power, count)
        block[0, 0] = sample
        return block

    bench.samples = spoilt  # type: ignore[method-assign]
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2)
    (measurement,) = collected(probe)
    assert (measurement.valid, measurement.reason) == (False, "not-a-number")
    feeder = threading.Timer(0.05, bench.run, (1.0,))
    feeder.start()
    with pytest.raises(ProbeError, match="noise floor not measured: not-a-number"):
        probe.measure_noise_floor(0.5)
    feeder.join()
    assert probe.noise_floor is before
    probe.close()


def test_too_few_samples(bench: Bench, probe: SdrProbe) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.0149)
    probe.request(2, bench.time_s, bench.time_s - 1.0)
    assert [m.reason for m in collected(probe, 2)] == ["too-few-samples"] * 2


def test_of_a_long_interval_the_last_second_is_measured(bench: Bench, probe: SdrProbe) -> None:
    probe.request(1, bench.time_s, bench.time_s + 3.0)
    bench.run(1.9, power=0.1)
    bench.run(1.2, power=FLOOR)
    assert collected(probe)[0].reward < 0.1


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
        asked = bench.time_s
        feeder = feed_when_asked(bench, probe, 0.6, power)
        floor = probe.measure_noise_floor()
        feeder.join()
        assert probe.noise_floor is floor
        assert floor.power == pytest.approx(power, rel=0.05)
        assert 0.01 < floor.sigma_db < 0.1
        assert asked <= floor.measured_at_s <= bench.time_s - 0.5
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2, power=16 * FLOOR)
    assert collected(probe)[0].reward == pytest.approx(SHARE * 2, abs=0.1)
    probe.close()


def test_a_noise_floor_with_the_transmitter_on_leaves_the_previous_one_in_use(
    bench: Bench,
) -> None:
    probe = probe_on(bench, noise_floor_s=0.5)
    feeder = feed_when_asked(bench, probe, 0.6, FLOOR)
    floor = probe.measure_noise_floor()
    feeder.join()
    feeder = feed_when_asked(bench, probe, 0.6, 4 * FLOOR)
    with pytest.raises(ProbeError, match=r"6\.\d dB above the noise floor in use"):
        probe.measure_noise_floor()
    feeder.join()
    assert probe.noise_floor is floor
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2, power=4 * FLOOR)
    assert collected(probe)[0].reward == pytest.approx(SHARE * 2, abs=0.1)
    probe.close()


def test_a_slot_at_the_noise_floor_is_valid_and_says_what_it_may_be(
    bench: Bench, probe: SdrProbe
) -> None:
    for slot, power in enumerate((FLOOR, 2 * FLOOR), start=1):
        probe.request(slot, bench.time_s, bench.time_s + 0.1)
        bench.run(0.2, power=power)
    at_floor, above = collected(probe, 2)
    assert (at_floor.valid, at_floor.reason) == (True, "no-signal")
    assert at_floor.above_floor < 1
    assert (above.valid, above.reason) == (True, "")
    assert above.above_floor > 1


def test_slots_are_not_measured_while_the_noise_floor_is(bench: Bench) -> None:
    probe = probe_on(bench, noise_floor=-40.0)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    feeder = feed_when_asked(bench, probe, 0.4)
    probe.measure_noise_floor(0.3)
    feeder.join()
    assert collected(probe)[0].reason == "noise-floor"
    probe.close()


def test_a_noise_floor_that_cannot_be_measured_leaves_the_old_one(bench: Bench) -> None:
    probe = probe_on(bench, noise_floor=-40.0, stale_s=0.1)
    before = probe.noise_floor
    with pytest.raises(ProbeError, match="noise floor not measured"):
        probe.measure_noise_floor(0.1)  # no samples come
    assert probe.noise_floor is before
    probe.close()


def test_a_tone_is_measured_in_its_band(bench: Bench) -> None:
    probe = probe_on(bench, mode="tone", tone_bandwidth_hz=5e3, noise_floor=-40.0)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.2, power=FLOOR * RATE / 5e3)  # of which the band holds the floor
    assert collected(probe)[0].reward < 0.3
    probe.close()


def test_a_lost_stream_is_told_and_reopened(bench: Bench, probe: SdrProbe) -> None:
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(0.05)
    bench.refuse = "busy with another"
    bench.primed.clear()
    bench.break_with = ProbeError("the server hung up")
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


def test_any_failure_of_the_reader_is_survived(bench: Bench, probe: SdrProbe) -> None:
    bench.break_with = ValueError("never seen before")
    wait_until(lambda: "ValueError: never seen before" in probe.health().fault)
    wait_until(lambda: not probe.health().fault)
    assert bench.opened == 2


def test_a_radio_that_cannot_be_opened_is_an_error_at_once(bench: Bench) -> None:
    bench.refuse = "nothing there"
    with pytest.raises(ProbeError, match="nothing there"):
        probe_on(bench)


def test_a_radio_that_sends_nothing_is_an_error(bench: Bench) -> None:
    bench.primed_s = 0.0
    ticks = itertools.count(1000.0, 0.5)
    bench.now = lambda: next(ticks)  # type: ignore[method-assign]
    with pytest.raises(ProbeError, match="no samples come"):
        probe_on(bench)


def test_a_radio_that_takes_long_to_refuse_is_asked_less_and_less_often(
    bench: Bench, probe: SdrProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def refuse(stop: threading.Event) -> None:
        bench.time_s += 8.0
        raise ProbeError("busy with another")

    def pause(stopped: threading.Event, seconds: float) -> bool:
        if seconds >= 0.5:
            pauses.append(seconds)
        return wait(stopped, min(seconds, 0.001))

    wait = threading.Event.wait
    monkeypatch.setattr(bench, "open", refuse)
    monkeypatch.setattr(probe._stop, "wait", lambda seconds: pause(probe._stop, seconds))
    bench.break_with = ProbeError("the server hung up")
    wait_until(lambda: len(pauses) >= 6)
    assert pauses[:6] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def opened_by_another(probe: SdrProbe) -> tuple[threading.Thread, list[str]]:
    """A thread that opens the probe, and what it is told if that fails."""
    told: list[str] = []

    def work() -> None:
        try:
            probe.open()
        except ProbeError as error:
            told.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    return thread, told


def test_opening_ends_when_the_probe_is_closed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does not look at the clock without a pause until the reader has ended too."""
    looks, reading, done = itertools.count(), threading.Event(), threading.Event()

    def now() -> float:
        next(looks)
        return bench.time_s

    def read(ring: IQRing, stop: threading.Event) -> None:
        reading.set()
        assert done.wait(10.0)

    monkeypatch.setattr(bench, "now", now)
    monkeypatch.setattr(bench, "read", read)
    probe = SdrProbe(settings_of(), bench, bench, transmission_share=SHARE)
    opener, told = opened_by_another(probe)
    assert reading.wait(10.0)
    closer = threading.Thread(target=probe.close)
    closer.start()
    assert probe._stop.wait(10.0)
    before = next(looks)
    time.sleep(0.3)
    looked = next(looks) - before
    done.set()
    opener.join(10.0)
    closer.join(10.0)
    assert (opener.is_alive(), told) == (False, ["bench: it was closed"])
    assert looked < 50


def test_a_radio_is_not_closed_while_another_thread_opens_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library of a radio's need not bear that: the one who opens it lets go of it."""
    monkeypatch.setattr(sdr_probe, "_OPENING_ENDS_S", 0.05)
    tuning, tuned, closed = threading.Event(), threading.Event(), threading.Event()

    def slow(stop: threading.Event) -> None:
        tuning.set()
        assert tuned.wait(10.0)

    monkeypatch.setattr(bench, "open", slow)
    monkeypatch.setattr(bench, "close", closed.set)
    probe = SdrProbe(settings_of(), bench, bench, transmission_share=SHARE)
    opener, told = opened_by_another(probe)
    assert tuning.wait(10.0)
    probe.close()
    assert not closed.is_set()
    tuned.set()
    opener.join(10.0)
    assert (opener.is_alive(), told) == (False, ["bench: it was closed"])
    assert closed.is_set()


def test_a_wrong_sample_rate_is_named(bench: Bench, probe: SdrProbe) -> None:
    assert bench.ring is not None
    for _ in range(70):
        bench.time_s += 0.1
        bench.ring.append(bench.samples(FLOOR, 8_000), bench.time_s)
    probe.request(1, bench.time_s - 1.0, bench.time_s - 0.5)
    bench.time_s += 2.0
    assert collected(probe)[0].reason == "sample-rate"
    assert probe.health().measured_rate_hz == pytest.approx(0.8 * RATE, rel=0.05)


def test_samples_lost_once_are_a_gap_and_no_wrong_rate(bench: Bench, probe: SdrProbe) -> None:
    """Though they are more than the share by which a rate may be off."""
    bench.run(4.5)
    bench.lose(0.2)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.run(1.4)
    assert abs(probe.health().measured_rate_hz / RATE - 1) > 0.02
    assert collected(probe)[0].reason == "gap"


def test_samples_that_are_late_are_stale_and_no_wrong_rate(bench: Bench, probe: SdrProbe) -> None:
    bench.run(5.0)
    probe.request(1, bench.time_s, bench.time_s + 0.1)
    bench.time_s += 2.0
    assert bench.ring is not None
    bench.ring.append(bench.samples(FLOOR), bench.time_s)  # the first of those that queued up
    assert abs(probe.health().measured_rate_hz / RATE - 1) > 0.02
    assert collected(probe)[0].reason == "stale"


def test_the_health_tells_level_and_counts(bench: Bench) -> None:
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


def test_after_closing_no_thread_is_left(bench: Bench) -> None:
    before = threading.active_count()
    probe = probe_on(bench)
    assert threading.active_count() == before + 2
    probe.close()
    probe.close()
    assert threading.active_count() == before
