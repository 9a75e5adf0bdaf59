"""Power, uncertainty and reward of signals with a known power."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import numpy.typing as npt
import pytest

from macontrol.config.model.units import to_db
from macontrol.config.sections.sdr import LEAST_BAND_TIMES_WINDOW
from macontrol.hal.probes.sdr.power import clipped_share, tone, wideband

RATE = 2.048e6


def rows(z: npt.NDArray[np.complex128]) -> npt.NDArray[np.float32]:
    return np.column_stack([z.real, z.imag]).astype(np.float32)


def as_bytes(z: npt.NDArray[np.complex128]) -> npt.NDArray[np.uint8]:
    levels = np.rint(127.5 + 127.5 * np.column_stack([z.real, z.imag]))
    return np.clip(levels, 0, 255).astype(np.uint8)


def noise(count: int, power: float, seed: int = 0) -> npt.NDArray[np.complex128]:
    rng = np.random.default_rng(seed)
    parts = rng.standard_normal((count, 2)) * sqrt(power / 2)
    return parts[:, 0] + 1j * parts[:, 1]


def carrier(count: int, power: float, offset_hz: float) -> npt.NDArray[np.complex128]:
    phases = 2 * np.pi * offset_hz / RATE * np.arange(count)
    return np.asarray(sqrt(power) * np.exp(1j * phases), np.complex128)


def test_full_scale_is_a_mean_square_of_one() -> None:
    assert wideband(rows(carrier(10_000, 1.0, 250e3))).dbfs == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("dbfs", [-3.0, -20.0, -30.0])
def test_bytes_and_floats_have_the_same_power(dbfs: float) -> None:
    z = carrier(50_000, 10 ** (dbfs / 10), 250e3)
    assert wideband(rows(z)).dbfs == pytest.approx(dbfs, abs=0.01)
    assert wideband(as_bytes(z)).dbfs == pytest.approx(dbfs, abs=0.2)


def test_a_dc_part_is_not_counted() -> None:
    z = noise(50_000, 1e-3) + (0.2 - 0.1j)
    assert wideband(rows(z)).dbfs == pytest.approx(-30.0, abs=0.1)
    assert tone(rows(z), RATE, 250e3, 20e3).power < 1e-3
    assert tone(rows(z), RATE, 5e3, 20e3).power < 1e-3, "in a band that contains 0 Hz"


@pytest.mark.fault("measurement-uncertainty")
def test_the_stated_uncertainty_equals_the_observed_one() -> None:
    count, readings = 2000, [wideband(rows(noise(2000, 1e-2, seed))) for seed in range(400)]
    seen = np.std([r.dbfs for r in readings])
    assert seen == pytest.approx(4.343 / sqrt(count), rel=0.1)
    stated = sqrt(float(np.mean([r.sigma_db**2 for r in readings])))
    assert seen <= stated < 1.5 * seen


def test_a_fading_signal_has_a_larger_uncertainty_than_noise() -> None:
    fading = carrier(20_000, 1e-2, 250e3) * np.repeat([1.0, 0.1], 10_000)
    assert wideband(rows(fading)).sigma_db > 10 * 4.343 / sqrt(20_000)


def test_the_stated_uncertainty_of_a_tone_equals_the_observed_one() -> None:
    readings = [tone(rows(noise(40_000, 1e-2, s)), RATE, 250e3, 20e3) for s in range(200)]
    seen = np.std([r.dbfs for r in readings])
    stated = sqrt(float(np.mean([r.sigma_db**2 for r in readings])))
    assert 0.8 * seen < stated < 1.6 * seen


def test_the_uncertainty_holds_in_a_window_too_short_to_compare_parts() -> None:
    """Adjacent bins are correlated, and only their number is known."""
    readings = [tone(rows(noise(192, 1e-2, s)), 100e3, 10e3, 20e3) for s in range(1000)]
    powers = np.array([r.power for r in readings])
    seen = 4.343 * powers.std() / powers.mean()
    assert {r.sigma_db for r in readings} == {readings[0].sigma_db}
    assert 0.8 * seen < readings[0].sigma_db < 1.6 * seen


@pytest.mark.parametrize("off_hz", [0.0, 3_000.0, -6_000.0])
def test_a_tone_has_the_same_power_anywhere_in_its_band(off_hz: float) -> None:
    z = carrier(100_000, 1e-2, 250e3 + off_hz)
    assert tone(rows(z), RATE, 250e3, 20e3).dbfs == pytest.approx(-20.0, abs=0.05)


def test_power_outside_the_band_is_not_counted() -> None:
    z = carrier(100_000, 1e-4, 250e3) + carrier(100_000, 0.5, -300e3)
    assert tone(rows(z), RATE, 250e3, 20e3).dbfs == pytest.approx(-40.0, abs=0.2)
    assert wideband(rows(z)).dbfs == pytest.approx(-3.0, abs=0.1)


def test_noise_in_a_band_is_proportional_to_its_width() -> None:
    reading = tone(rows(noise(400_000, 1e-2)), RATE, 250e3, 64e3)
    assert reading.power == pytest.approx(1e-2 * 64e3 / RATE, rel=0.1)


@pytest.mark.fault("clipping")
def test_an_overdriven_signal_changes_the_clipped_share_more_than_the_power() -> None:
    fits, over = carrier(50_000, 1.0, 250e3), carrier(50_000, 4.0, 250e3)
    assert clipped_share(as_bytes(0.99 * fits)) == 0.0
    reading = wideband(as_bytes(over))
    assert reading.clipped_share > 0.5
    assert reading.dbfs < 3.0
    assert clipped_share(rows(np.clip(over.real, -1, 1) + 1j * np.clip(over.imag, -1, 1))) > 0.5


@pytest.mark.parametrize("level", [0, 255])
def test_both_rails_of_a_byte_count_as_clipped(level: int) -> None:
    samples = np.full((1000, 2), 128, np.uint8)
    samples[:10, 0] = level
    samples[5:20, 1] = level
    samples[20:40] = [[1, 254]]
    assert clipped_share(samples) == pytest.approx(0.02)


@pytest.mark.parametrize("count", [0, 1, 7, 17])
def test_a_few_samples_cause_no_error(count: int) -> None:
    samples = np.full((count, 2), 128, np.uint8)
    assert wideband(samples).samples == count
    assert tone(samples, RATE, 250e3, 20e3).samples == count


def test_zero_power_is_minus_infinity() -> None:
    assert to_db(0.0) == -inf
    assert to_db(0.01) == pytest.approx(-20.0)


@pytest.mark.fault("tone-band-too-narrow")
def test_noise_in_the_narrowest_allowed_band_is_equal_in_long_and_short_windows() -> None:
    """The windows of the noise floor and of slots have different lengths."""
    rate, short, long = 100e3, 5_000, 25_000
    samples = rows(noise(120 * long, 1e-3))

    def level(size: int, bandwidth_hz: float) -> float:
        parts = samples.reshape(-1, size, 2)
        powers = [tone(part, rate, 10_013.0, bandwidth_hz).power for part in parts]
        return to_db(float(np.mean(powers)))

    narrowest = LEAST_BAND_TIMES_WINDOW * rate / short
    assert level(short, narrowest) == pytest.approx(level(long, narrowest), abs=0.15)
    assert level(short, narrowest / 50) > level(long, narrowest / 50) + 3.0
