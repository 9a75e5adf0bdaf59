"""Signals above and at the noise floor, and implausible floors."""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np
import numpy.typing as npt
import pytest

from macontrol.config import load_config
from macontrol.config.sections.sdr import SdrSettings
from macontrol.hal.noise_floor import NoiseFloor, implausible_rise
from macontrol.hal.probes.power_probe import Level, mean_floor, measurement_of
from macontrol.hal.probes.sdr.power import PowerReading, tone, wideband
from support.suggestions import suggestions

RATE, COUNT = 2.048e6, 71_680  # 35 ms
DRIFT_DB = 0.1
OFFSET_HZ, BAND_HZ = 250e3, 20e3


def noise(seed: int, count: int = COUNT) -> npt.NDArray[np.complex128]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, 2)).view(np.complex128)[:, 0] * sqrt(1e-4 / 2)


def rows(z: npt.NDArray[np.complex128]) -> npt.NDArray[np.float32]:
    return np.column_stack([z.real, z.imag]).astype(np.float32)


def carrier(power: float, offset_hz: float) -> npt.NDArray[np.complex128]:
    phases = 2j * np.pi * offset_hz / RATE * np.arange(COUNT)
    return np.asarray(sqrt(power) * np.exp(phases), np.complex128)


def tone_reading(z: npt.NDArray[np.complex128]) -> PowerReading:
    return tone(rows(z), RATE, OFFSET_HZ, BAND_HZ)


@pytest.fixture(scope="module")
def floor() -> NoiseFloor:
    return mean_floor([wideband(rows(noise(seed))) for seed in range(4)], 0.0)


@pytest.fixture(scope="module")
def tone_floor() -> NoiseFloor:
    return mean_floor([tone_reading(noise(seed)) for seed in range(4)], 0.0)


def test_noise_is_never_above_the_floor(floor: NoiseFloor, tone_floor: NoiseFloor) -> None:
    for seed in range(10, 40):
        z = noise(seed)
        assert measurement_of(1, wideband(rows(z)), floor, DRIFT_DB).above_floor < 1
        assert measurement_of(1, tone_reading(z), tone_floor, DRIFT_DB).above_floor < 1
        assert measurement_of(1, tone_reading(z), tone_floor, DRIFT_DB).reason == "no-signal"


@pytest.mark.parametrize(("drift_db", "above"), [(0.05, True), (0.2, False)])
def test_the_drift_of_the_gain_is_not_a_signal(
    floor: NoiseFloor, drift_db: float, above: bool
) -> None:
    """A power 0.5 dB above the floor is a signal only for a receiver that does not drift."""
    reading = wideband(rows(noise(50) * 10 ** (0.5 / 20)))
    assert (measurement_of(1, reading, floor, drift_db).above_floor > 1) == above


def test_a_varying_signal_is_not_noise(floor: NoiseFloor) -> None:
    """Its spread increases the uncertainty of a reading, but does not make it noise."""
    swelling = noise(60) + carrier(2e-4, OFFSET_HZ) * np.linspace(0, 2, COUNT)
    reading = wideband(rows(swelling))
    assert reading.sigma_db > 10 * reading.noise_sigma_db
    measurement = measurement_of(1, reading, floor, DRIFT_DB)
    assert measurement.above_floor > 10
    assert (measurement.reason, measurement.hint) == ("", "")


def test_the_hint_for_a_tone_outside_its_band_has_its_offset(
    tone_floor: NoiseFloor,
) -> None:
    here = measurement_of(
        1, tone_reading(noise(70) + carrier(1e-4, OFFSET_HZ)), tone_floor, DRIFT_DB
    )
    assert here.above_floor > 10
    drifted = tone_reading(noise(71) + carrier(1e-4, OFFSET_HZ + 60e3))
    there = measurement_of(2, drifted, tone_floor, DRIFT_DB)
    assert there.valid
    assert there.above_floor < 1
    assert there.reason == "tone-lost"
    assert drifted.strongest_hz == pytest.approx(OFFSET_HZ + 60e3, abs=BAND_HZ / 8)
    assert f"probe.tone_offset_hz to {drifted.strongest_hz:.0f}" in there.hint


@pytest.mark.parametrize("where_hz", [OFFSET_HZ + 60e3, -700e3, 1.0215e6, -1.0219e6])
def test_the_offset_in_the_hint_is_accepted(tone_floor: NoiseFloor, where_hz: float) -> None:
    """Also at the edge of the received band, and with the settings of a preset."""
    drifted = tone_reading(noise(72) + carrier(1e-4, where_hz))
    lost = measurement_of(1, drifted, tone_floor, DRIFT_DB)
    (fix,) = suggestions(f"; {lost.hint}")
    words = ["probe.mode=tone", *fix]
    probe = load_config(preset="lab-2g4-grbl", assignments=words).probe
    assert isinstance(probe, SdrSettings)
    assert abs(probe.tone_offset_hz - where_hz) <= BAND_HZ / 2


def test_a_line_in_the_noise_floor_is_not_the_tone() -> None:
    spur = carrier(1e-4, -400e3)
    floor = mean_floor([tone_reading(noise(seed) + spur) for seed in range(4)], 0.0)
    lost = measurement_of(1, tone_reading(noise(80) + spur), floor, DRIFT_DB)
    assert lost.reason == "no-signal"


def test_with_a_configured_floor_there_is_no_search_for_a_lost_tone() -> None:
    given = NoiseFloor(1e-4 * BAND_HZ / RATE * 1.1, 0.0, nan)
    drifted = tone_reading(noise(90) + carrier(1e-4, OFFSET_HZ + 60e3))
    assert measurement_of(1, drifted, given, DRIFT_DB).reason == "no-signal"


@pytest.mark.parametrize(
    ("rise_db", "plausible"), [(-20.0, True), (-1.0, True), (0.9, True), (1.2, False), (8.0, False)]
)
def test_a_floor_that_rises_during_a_run_contains_more_than_noise(
    rise_db: float, plausible: bool
) -> None:
    previous = NoiseFloor(1e-4, 0.01, 0.0)
    found = NoiseFloor(1e-4 * 10 ** (rise_db / 10), 0.01, 9.0)
    assert (implausible_rise(found, previous, DRIFT_DB) is None) == plausible


def test_the_defaults_of_a_reading_claim_no_signal() -> None:
    level, floor = Level(1.0, 0.0), NoiseFloor(1e-4, 0.1, 0.0)
    assert measurement_of(1, level, floor, 0.1).above_floor == 0.0
    assert level.noise_sigma_db == inf
