"""Conversions of units, compared with known values."""

from __future__ import annotations

from math import inf

import pytest

from macontrol.config import Config
from macontrol.config.model.units import (
    amplitude_from_db,
    from_db,
    to_db,
    wavelength_mm,
)
from macontrol.config.sections.physical import Physical


@pytest.mark.parametrize(
    ("frequency_hz", "expected_mm"),
    [(299_792_458.0, 1000.0), (30e9, 9.99308193333), (2.4e9, 124.913524167)],
)
def test_the_wavelength_of_a_carrier(frequency_hz: float, expected_mm: float) -> None:
    assert wavelength_mm(frequency_hz) == pytest.approx(expected_mm, rel=1e-11)
    physical = Physical(carrier_frequency_hz=frequency_hz)
    assert physical.to_mm(2.5) == pytest.approx(2.5 * expected_mm, rel=1e-11)
    assert physical.to_wavelengths(expected_mm / 4) == pytest.approx(0.25, rel=1e-11)


@pytest.mark.parametrize(("ratio", "decibels"), [(1.0, 0.0), (10.0, 10.0), (2.0, 3.0102999566)])
def test_decibels_of_powers_and_amplitudes(ratio: float, decibels: float) -> None:
    assert to_db(ratio) == pytest.approx(decibels)
    assert from_db(decibels) == pytest.approx(ratio)
    assert amplitude_from_db(decibels) ** 2 == pytest.approx(ratio)
    assert from_db(-decibels) == pytest.approx(1 / ratio)


def test_no_power_is_minus_infinity_decibels() -> None:
    assert to_db(0.0) == -inf


def test_the_stroke_of_a_config_in_millimetres(paper: Config) -> None:
    assert paper.physical.stroke_mm == pytest.approx(0.06 * 9.99308193333, rel=1e-11)
