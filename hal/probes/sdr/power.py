"""Power from IQ samples, and its uncertainty.

0 dBFS is mean |z|² = 1. A byte x has the value (x − 127.5)/127.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from macontrol.config.model.reward import DB_PER_NEPER
from macontrol.config.model.units import to_db
from macontrol.hal.probes.power_probe import Level
from macontrol.hal.probes.sdr.samples import Samples

FLOAT_RAIL = 0.99
"""A float sample counts as clipped if |I| or |Q| reaches this."""
SEGMENTS = 16
"""The number of parts of a window whose powers are compared."""
_HANN_BINS = 1.5
"""Equivalent noise bandwidth of the Hann window, in bins: adjacent bins are correlated."""


@dataclass(frozen=True, slots=True)
class PowerReading(Level):
    """The level in a window of samples: mean |z|² without the DC part."""

    clipped_share: float = 0.0
    """The share of samples with I or Q on the rails."""

    @property
    def dbfs(self) -> float:
        return to_db(self.power)


def to_complex(samples: Samples) -> npt.NDArray[np.complex64]:
    """Convert columns I and Q (bytes or floats) to complex numbers with full scale 1."""
    if samples.dtype == np.uint8:
        scaled = samples.astype(np.float32)
        scaled -= np.float32(127.5)
        scaled *= np.float32(1 / 127.5)
    else:
        scaled = np.ascontiguousarray(samples, np.float32)
    return scaled.view(np.complex64)[:, 0]


def clipped_share(samples: Samples) -> float:
    """Return the share of samples with I or Q on the rails."""
    if len(samples) == 0:
        return 0.0
    # For bytes 255 + 1 wraps to 0, so that both rails are at most 1.
    railed = (samples + 1 <= 1) if samples.dtype == np.uint8 else np.abs(samples) >= FLOAT_RAIL
    return float(np.count_nonzero(railed[:, 0] | railed[:, 1])) / len(samples)


def wideband(samples: Samples) -> PowerReading:
    """Measure the power in the whole band, without the DC part.

    σ = 4.343/√N dB as for noise, or the value from the spread between parts of the window if that
    is larger: a fading or narrow signal has fewer independent samples.
    """
    count = len(samples)
    parts = min(SEGMENTS, count)
    if parts == 0:
        return PowerReading(0.0, inf, samples=0)
    length = count // parts
    z = to_complex(samples)[: parts * length].reshape(parts, length)
    squares = np.square(z.view(np.float32)).sum(axis=1) / length
    powers = np.maximum(squares - np.square(np.abs(z.sum(axis=1) / length)), 0.0)
    return _reading(powers.astype(float), count, count, clipped_share(samples))


def tone(
    samples: Samples, sample_rate_hz: float, offset_hz: float, bandwidth_hz: float
) -> PowerReading:
    """Measure the power in a narrow band around an offset from the tuned frequency.

    The bins of short Hann-windowed transforms that are in the band are summed. A tone has the same
    power anywhere in the band, so that an error of the two oscillators does not change it.
    """
    count = len(samples)
    wanted = 1 << max(3, int(np.ceil(np.log2(8 * sample_rate_hz / bandwidth_hz))))
    length = min(wanted, count)
    if length < 8:
        return PowerReading(0.0, inf, samples=count, clipped_share=clipped_share(samples))
    parts = count // length
    hann = np.hanning(length + 1)[:-1].astype(np.float32)
    frequencies = np.fft.fftfreq(length, 1 / sample_rate_hz)
    band = np.abs(frequencies - offset_hz) <= bandwidth_hz / 2
    if not band.any():  # the window is too short for the bandwidth: use the nearest bin
        band[np.argmin(np.abs(frequencies - offset_hz))] = True
    z = to_complex(samples)
    z = (z - z.mean())[: parts * length].reshape(parts, length)
    spectra = np.square(np.abs(np.fft.fft(z * hann, axis=1)))
    scale = length * float(np.square(hann, dtype=float).sum())
    powers = spectra[:, band].sum(axis=1).astype(float) / scale
    independent = max(1.0, parts * np.count_nonzero(band) / _HANN_BINS)
    reading = _reading(powers, count, independent, clipped_share(samples))
    mean = spectra.mean(axis=0, dtype=float)
    strongest = _strongest_band(mean, int(np.count_nonzero(band))) / scale
    farthest = (sample_rate_hz - bandwidth_hz) / 2
    strongest_hz = float(np.clip(frequencies[mean.argmax()], -farthest, farthest))
    return replace(reading, strongest=strongest, strongest_hz=strongest_hz)


def _strongest_band(spectrum: npt.NDArray[np.float64], width: int) -> float:
    """Return the largest sum of `width` adjacent bins of a circular spectrum."""
    sums = np.cumsum(np.concatenate(([0.0], spectrum, spectrum[: width - 1])))
    return float((sums[width:] - sums[:-width]).max())


def _reading(
    powers: npt.NDArray[np.float64], count: int, independent: float, clipped: float
) -> PowerReading:
    power = float(powers.mean())
    relative = 1.0 / sqrt(independent)
    if len(powers) >= 4 and power > 0:
        seen = float(powers.std(ddof=1)) / power / sqrt(len(powers))
        relative = max(relative, seen)
    return PowerReading(
        power,
        DB_PER_NEPER * relative,
        noise_sigma_db=DB_PER_NEPER / sqrt(independent),
        samples=count,
        clipped_share=clipped,
    )
