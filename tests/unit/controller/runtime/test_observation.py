"""What becomes of a measurement: a reward, or a reason, and what is known of the signal."""

from __future__ import annotations

from math import inf, log10, nan

import pytest

from macontrol.config import load_config
from macontrol.config.model.reward import Power, Rate, Reward, Snr, Value, reward_of
from macontrol.controller.runtime.observation import Rewarding
from macontrol.hal import Measurement
from macontrol.hal.probe import CLIPPING, UNKNOWN_SIGNAL, Signal

CONFIG = load_config()
SHARE = CONFIG.physical.transmission_share


@pytest.mark.parametrize(
    ("value", "snr"),
    [
        (Power(11e-7, 1e-7), 10.0),
        (Snr(3.0), 3.0),
        (Reward(reward_of(SHARE, 5.0)), 5.0),
        (Power(0.9, 1.0), None),
        (Reward(-0.01), None),
        (Rate(2.0), None),
    ],
)
def test_the_snr_is_that_of_the_value(value: Value, snr: float | None) -> None:
    seen = Rewarding(CONFIG).observe(Measurement(1, value))
    expected = None if snr is None else pytest.approx(10 * log10(snr))
    assert (seen.valid, seen.signal.snr_db) == (True, expected)


def test_a_probe_can_state_the_snr_itself() -> None:
    seen = Rewarding(CONFIG).observe(Measurement(1, Rate(2.0), signal=Signal(snr_db=12.5)))
    assert seen.signal.snr_db == 12.5


@pytest.mark.parametrize("value", [None, Snr(1e300)])
def test_an_invalid_measurement_keeps_what_is_known_of_its_signal(value: Value | None) -> None:
    signal = Signal(-1.5, "dBFS", -60.0, None, 0.25, 4096)
    seen = Rewarding(CONFIG).observe(Measurement(1, value, CLIPPING, signal=signal))
    assert not seen.valid
    assert seen.signal._replace(snr_db=None) == signal


@pytest.mark.parametrize("broken", [nan, inf, -inf])
def test_a_number_that_no_file_has_is_unknown(broken: float) -> None:
    signal = Signal(broken, None, broken, broken, broken)
    measurement = Measurement(1, Reward(1.0), signal=signal)
    assert Rewarding(CONFIG).observe(measurement).signal == UNKNOWN_SIGNAL
