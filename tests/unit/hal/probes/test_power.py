"""Power and its uncertainty against signals whose power is known, and the reward from it."""

from __future__ import annotations

from math import inf, isnan, log2, nan, sqrt

import numpy as np
import numpy.typing as npt
import pytest

from macontrol.config.model.units import to_db
from macontrol.config.probe_settings import LEAST_BAND_TIMES_WINDOW
from macontrol.hal.probes.sdr.power import clipped_share, rate_reward, snr, tone, wideband

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
def test_bytes_and_floats_read_the_same_power(dbfs: float) -> None:
    z = carrier(50_000, 10 ** (dbfs / 10), 250e3)
    assert wideband(rows(z)).dbfs == pytest.approx(dbfs, abs=0.01)
    assert wideband(as_bytes(z)).dbfs == pytest.approx(dbfs, abs=0.2)


def test_a_constant_part_is_no_power() -> None:
    z = noise(50_000, 1e-3) + (0.2 - 0.1j)
    assert wideband(rows(z)).dbfs == pytest.approx(-30.0, abs=0.1)
    assert tone(rows(z), RATE, 250e3, 20e3).power < 1e-3
    assert tone(rows(z), RATE, 5e3, 20e3).power < 1e-3, "in a band that holds 0 Hz"


@pytest.mark.fault("measurement-uncertainty")
def test_the_stated_uncertainty_is_the_one_that_is_seen() -> None:
    count, readings = 2000, [wideband(rows(noise(2000, 1e-2, seed))) for seed in range(400)]
    seen = np.std([r.dbfs for r in readings])
    assert seen == pytest.approx(4.343 / sqrt(count), rel=0.1)
    stated = sqrt(float(np.mean([r.sigma_db**2 for r in readings])))
    assert seen <= stated < 1.5 * seen


def test_a_fading_signal_is_less_sure_than_its_number_of_samples_says() -> None:
    fading = carrier(20_000, 1e-2, 250e3) * np.repeat([1.0, 0.1], 10_000)
    assert wideband(rows(fading)).sigma_db > 10 * 4.343 / sqrt(20_000)


def test_the_uncertainty_of_a_tone_reading_is_the_one_that_is_seen() -> None:
    readings = [tone(rows(noise(40_000, 1e-2, s)), RATE, 250e3, 20e3) for s in range(200)]
    seen = np.std([r.dbfs for r in readings])
    stated = sqrt(float(np.mean([r.sigma_db**2 for r in readings])))
    assert 0.8 * seen < stated < 1.6 * seen


def test_also_in_a_window_too_short_to_see_how_its_power_varies() -> None:
    """Neighbouring bins are not independent, and only their number is left to go by."""
    readings = [tone(rows(noise(192, 1e-2, s)), 100e3, 10e3, 20e3) for s in range(1000)]
    powers = np.array([r.power for r in readings])
    seen = 4.343 * powers.std() / powers.mean()
    assert {r.sigma_db for r in readings} == {readings[0].sigma_db}
    assert 0.8 * seen < readings[0].sigma_db < 1.6 * seen


@pytest.mark.parametrize("off_hz", [0.0, 3_000.0, -6_000.0])
def test_a_tone_counts_in_full_wherever_in_its_band_it_is(off_hz: float) -> None:
    z = carrier(100_000, 1e-2, 250e3 + off_hz)
    assert tone(rows(z), RATE, 250e3, 20e3).dbfs == pytest.approx(-20.0, abs=0.05)


def test_what_is_outside_the_band_does_not_count() -> None:
    z = carrier(100_000, 1e-4, 250e3) + carrier(100_000, 0.5, -300e3)
    assert tone(rows(z), RATE, 250e3, 20e3).dbfs == pytest.approx(-40.0, abs=0.2)
    assert wideband(rows(z)).dbfs == pytest.approx(-3.0, abs=0.1)


def test_the_noise_in_a_band_is_its_share_of_the_whole() -> None:
    reading = tone(rows(noise(400_000, 1e-2)), RATE, 250e3, 64e3)
    assert reading.power == pytest.approx(1e-2 * 64e3 / RATE, rel=0.1)


@pytest.mark.fault("clipping")
def test_an_overdriven_signal_shows_in_its_clipped_share_and_hardly_in_its_power() -> None:
    fits, over = carrier(50_000, 1.0, 250e3), carrier(50_000, 4.0, 250e3)
    assert clipped_share(as_bytes(0.99 * fits)) == 0.0
    reading = wideband(as_bytes(over))
    assert reading.clipped_share > 0.5
    assert reading.dbfs < 3.0
    assert clipped_share(rows(np.clip(over.real, -1, 1) + 1j * np.clip(over.imag, -1, 1))) > 0.5


@pytest.mark.parametrize("level", [0, 255])
def test_both_rails_of_a_byte_are_rails(level: int) -> None:
    samples = np.full((1000, 2), 128, np.uint8)
    samples[:10, 0] = level
    samples[5:20, 1] = level
    samples[20:40] = [[1, 254]]
    assert clipped_share(samples) == pytest.approx(0.02)


@pytest.mark.parametrize("count", [0, 1, 7, 17])
def test_a_handful_of_samples_does_no_harm(count: int) -> None:
    samples = np.full((count, 2), 128, np.uint8)
    assert wideband(samples).samples == count
    assert tone(samples, RATE, 250e3, 20e3).samples == count


def test_no_power_is_minus_infinity() -> None:
    assert to_db(0.0) == -inf
    assert to_db(0.01) == pytest.approx(-20.0)


def test_the_snr_is_never_negative() -> None:
    assert snr(11.0, 1.0) == pytest.approx(10.0)
    assert snr(0.9, 1.0) == 0.0


@pytest.mark.fault("samples-not-a-number")
@pytest.mark.parametrize(("power", "noise"), [(nan, 1.0), (1.0, nan)])
def test_no_reward_is_made_of_what_is_no_number(power: float, noise: float) -> None:
    assert isnan(snr(power, noise))
    assert isnan(rate_reward(0.8, power, noise, 0.1, 0.1)[0])


def test_the_reward_is_the_rate_in_the_share_of_the_slot_that_transmits() -> None:
    reward, _ = rate_reward(0.8, 11e-4, 1e-4, 0.1, 0.0)
    assert reward == pytest.approx(0.8 * log2(1 + 10))
    assert rate_reward(0.8, 0.9e-4, 1e-4, 0.1, 0.0)[0] == 0.0


@pytest.mark.fault("measurement-uncertainty")
def test_the_uncertainty_is_carried_to_the_reward() -> None:
    rng = np.random.default_rng(2)
    sigma_p, sigma_n = 0.12, 0.05
    powers = 5e-3 * 10 ** (sigma_p * rng.standard_normal(20_000) / 10)
    noises = 1e-4 * 10 ** (sigma_n * rng.standard_normal(20_000) / 10)
    rewards = [rate_reward(0.7, p, n, 0, 0)[0] for p, n in zip(powers, noises, strict=True)]
    _, stated = rate_reward(0.7, 5e-3, 1e-4, sigma_p, sigma_n)
    assert np.std(rewards) == pytest.approx(stated, rel=0.03)


@pytest.mark.fault("tone-band-too-narrow")
def test_noise_in_the_narrowest_band_allowed_is_the_same_in_long_and_short_windows() -> None:
    """The noise floor is measured in other windows than slots are."""
    rate, short, long = 100e3, 5_000, 25_000
    samples = rows(noise(120 * long, 1e-3))

    def level(size: int, bandwidth_hz: float) -> float:
        parts = samples.reshape(-1, size, 2)
        powers = [tone(part, rate, 10_013.0, bandwidth_hz).power for part in parts]
        return to_db(float(np.mean(powers)))

    narrowest = LEAST_BAND_TIMES_WINDOW * rate / short
    assert level(short, narrowest) == pytest.approx(level(long, narrowest), abs=0.15)
    assert level(short, narrowest / 50) > level(long, narrowest / 50) + 3.0
