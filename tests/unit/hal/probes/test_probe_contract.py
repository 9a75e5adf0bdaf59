"""The contract of every probe: requests, deadlines, rewards, and its capabilities."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from math import isfinite, log2

import pytest

from macontrol.config import load_config
from macontrol.config.model.errors import ProbeError
from macontrol.config.model.units import to_db
from macontrol.controller.runtime.observation import Rewarding
from macontrol.hal import Measurement, Probe
from macontrol.hal.capabilities import HasHealth, HasNoiseFloor, Openable
from macontrol.hal.noise_floor import known_floor
from macontrol.hal.probe import PROBE_REASONS
from macontrol.testing import ProbeContract
from support.probe_stands import METERS, NOISE, RADIOS, SHARE, Stand

CONFIG = load_config()
SLOT_S = 0.12
LIMIT_S = 60.0


@contextmanager
def opened(make: Callable[[], AbstractContextManager[Stand]]) -> Iterator[Stand]:
    with make() as stand:
        if isinstance(stand.probe, Openable):
            stand.probe.open()
        yield stand
        stand.probe.close()


@pytest.fixture(params=RADIOS | METERS)
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with opened((RADIOS | METERS)[request.param]) as stand:
        yield stand


@pytest.fixture(params=RADIOS)
def radio(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with opened(RADIOS[request.param]) as stand:
        yield stand


class TestProbeContract(ProbeContract):
    """Every probe keeps the rules that `macontrol.testing` states."""

    @pytest.fixture(params=RADIOS | METERS)
    def probe(self, request: pytest.FixtureRequest) -> Iterator[Probe]:
        with (RADIOS | METERS)[request.param]() as stand:
            stand.signal.power = 10 * NOISE
            yield stand.probe
            # Open, its thread would look for its port, and disturb the tests that get the port's
            # name next.
            with suppress(ProbeError):
                stand.probe.close()


def measure(stand: Stand, slots: range, earlier: int = 0) -> list[Measurement]:
    """Request consecutive slots; collect until they and earlier requests are answered."""
    found: list[Measurement] = []
    for slot in slots:
        start_s = stand.clock.now()
        stand.probe.request(slot, start_s, start_s + SLOT_S)
        stand.clock.sleep_until(start_s + SLOT_S)
        found += stand.probe.collect(start_s + SLOT_S)
    limit_s = time.monotonic() + LIMIT_S
    while len(found) < len(slots) + earlier:
        assert time.monotonic() < limit_s, found
        found += stand.probe.collect(stand.clock.now() + SLOT_S)
    return found


def valid_reward(stand: Stand) -> float:
    """Return the reward of a slot; a busy machine can lose samples of some slots."""
    limit_s, slot = time.monotonic() + LIMIT_S, 1000
    while time.monotonic() < limit_s:
        with suppress(ProbeError):
            (measurement,) = measure(stand, range(slot, slot + 1))
            if measurement.value is not None:
                return measurement.value.reward(SHARE)[0]
        slot += 1
    raise AssertionError("no measurement is valid")


def test_a_measurement_has_a_reward_or_a_reason(stand: Stand) -> None:
    stand.signal.power = 10 * NOISE
    start_s = stand.clock.now()
    stand.probe.request(100, start_s, start_s)  # empty
    found = measure(stand, range(3), earlier=1)
    assert {measurement.slot for measurement in found} == {0, 1, 2, 100}
    for measurement in found:
        assert measurement.valid == (measurement.value is not None)
        if measurement.value is not None:
            reward, sigma = measurement.value.reward(SHARE)
            assert isfinite(reward)
            assert reward >= 0
            assert sigma > 0
        else:
            assert measurement.reason
    assert not next(m for m in found if m.slot == 100).valid


@pytest.mark.parametrize("snr", [3.0, 30.0])
def test_the_reward_is_the_rate_of_the_received_power(stand: Stand, snr: float) -> None:
    stand.signal.power = snr * NOISE
    stand.clock.sleep_until(stand.clock.now() + 0.2)  # samples in transit have the old power
    assert valid_reward(stand) == pytest.approx(SHARE * log2(1 + snr), abs=0.15)


def test_a_measurement_says_what_it_knows_of_the_signal(radio: Stand) -> None:
    unit = {"line": "dBm", "scpi": "dBm"}.get(type(radio.probe).__module__.split(".")[-2], "dBFS")
    assert isinstance(radio.probe, HasNoiseFloor)
    assert radio.probe.noise_floor is not None
    radio.signal.power = 30 * NOISE
    radio.clock.sleep_until(radio.clock.now() + 0.2)  # samples in transit have the old power
    limit_s = time.monotonic() + LIMIT_S
    (measurement,) = measure(radio, range(1))
    while not measurement.valid:
        assert time.monotonic() < limit_s
        (measurement,) = measure(radio, range(1))
    level, found_unit, floor, _, clipped, samples = measurement.signal
    assert found_unit == unit
    assert level == pytest.approx(to_db(31 * NOISE), abs=0.7)
    assert floor == pytest.approx(radio.probe.noise_floor.dbfs)
    assert clipped in (0.0, None)
    assert samples is not None
    assert samples >= 1
    seen = Rewarding(CONFIG).observe(measurement)
    assert seen.signal.snr_db == pytest.approx(to_db(30.0), abs=0.7)


@pytest.mark.parametrize("name", METERS)
def test_a_probe_needs_no_capability(name: str) -> None:
    with METERS[name]() as stand:
        assert not isinstance(stand.probe, Openable | HasHealth | HasNoiseFloor)


def test_the_reasons_of_a_radio_are_documented(radio: Stand) -> None:
    now_s = radio.clock.now()
    radio.probe.request(100, now_s, now_s)
    radio.probe.request(101, now_s - 100.0, now_s - 99.0)
    found = measure(radio, range(1), earlier=2)
    reasons = {measurement.reason for measurement in found if not measurement.valid}
    assert len(reasons) >= 2
    assert reasons <= PROBE_REASONS.keys()


def test_the_health_counts_all_requests(radio: Stand) -> None:
    assert isinstance(radio.probe, HasHealth)
    assert radio.probe.health().fault == ""
    measure(radio, range(3))
    health = radio.probe.health()
    assert health.valid + sum(health.invalid.values()) == 3
    radio.probe.close()
    assert radio.probe.health().fault


def test_the_noise_floor_in_use_is_the_measured_one(radio: Stand) -> None:
    assert isinstance(radio.probe, HasNoiseFloor)
    known = known_floor(-20.0)
    radio.probe.use_noise_floor(known)
    assert radio.probe.noise_floor is known
    floor = None
    while floor is None:  # again while a busy machine loses samples; pytest has a timeout
        with suppress(ProbeError):
            floor = radio.probe.measure_noise_floor()
    assert radio.probe.noise_floor == floor
    assert floor.power == pytest.approx(NOISE, rel=0.1)


def test_the_transmitter_is_not_part_of_the_noise_floor(radio: Stand) -> None:
    assert isinstance(radio.probe, HasNoiseFloor)
    before = radio.probe.noise_floor
    radio.signal.power = 10 * NOISE
    radio.clock.sleep_until(radio.clock.now() + 0.2)
    with pytest.raises(ProbeError):
        radio.probe.measure_noise_floor()
    assert radio.probe.noise_floor is before
