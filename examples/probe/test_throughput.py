"""The probe reads rates from a command, and reports what is wrong with one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from throughput_probe.probe import ThroughputProbe, rate_of
from throughput_probe.settings import ThroughputSettings, parse_option

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import Rate
from macontrol.testing import ProbeContract

FAKE = shlex.join([sys.executable, str(Path(__file__).parent / "fake_iperf3.py")])
CLOCK = ProbeContract.clock


def make(command: str, **settings: float) -> ThroughputProbe:
    return ThroughputProbe(ThroughputSettings(command=command, **settings), CLOCK)


class TestContract(ProbeContract):
    def make(self) -> ThroughputProbe:
        return make(f"{FAKE} 0.02", interval_s=0.02)


@pytest.fixture
def probe() -> Iterator[ThroughputProbe]:
    probe = make(f"{FAKE} 0.02", interval_s=0.02)
    yield probe
    probe.close()


def test_the_rate_of_a_slot_is_the_mean_of_its_lines(probe: ThroughputProbe) -> None:
    probe.open()
    now = CLOCK.now()
    probe.request(1, now, now + 1.0)
    (found,) = probe.collect(now + 5.0)
    assert isinstance(found.value, Rate)
    assert found.value.rate == pytest.approx(100e6, rel=0.05)
    assert 0 < found.value.sigma < 5e6
    assert found.value.reward(0.5)[0] == pytest.approx(0.5 * found.value.rate / 20e6)


def test_a_line_that_is_only_partly_in_the_slot_does_not_count(probe: ThroughputProbe) -> None:
    probe.open()
    now = CLOCK.now()
    probe.request(1, now, now + 0.025)
    (found,) = probe.collect(now + 5.0)
    assert (found.value, found.reason) == (None, "no-rate")
    assert "interval_s" in found.hint


@pytest.mark.parametrize(
    ("line", "rate"),
    [
        (b"[  5]   0.00-0.10   sec  1.25 MBytes   105 Mbits/sec    0    320 KBytes", 105e6),
        (b"[  5]   0.10-0.20   sec   128 KBytes  10.5 Kbits/sec", 10.5e3),
        (b"[  5]   0.20-0.30   sec  0.00 Bytes  0.00 bits/sec", 0.0),
        (b"1.5e3", None),
        (b"86000000", 86e6),
        (b"rate: 12.5 Gbits/s", 12.5e9),
        (b"Connecting to host 127.0.0.1, port 5201", None),
        (b"[ ID] Interval           Transfer     Bitrate", None),
        (b"iperf3: error - unable to connect", None),
        (b"", None),
    ],
)
def test_the_rate_of_a_line(line: bytes, rate: float | None) -> None:
    assert rate_of(line) == rate


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("no-such-command", "cannot be started"),
        (f"{FAKE} 0.01 0", "closed unexpectedly"),
        ("sleep 30", "no rate for 1 s"),
    ],
)
def test_a_command_that_does_not_work_is_reported(command: str, part: str) -> None:
    probe = make(command, connect_timeout_s=3.0, silence_s=1.0)
    try:
        with pytest.raises(ProbeError) as error:
            probe.open()
    finally:
        probe.close()
    assert part in error.value.detail


def test_a_command_that_ends_is_started_again() -> None:
    probe = make(f"{FAKE} 0.02 3", interval_s=0.02)
    probe.open()
    try:
        for wanted in (False, True, False):  # it ends, runs again, and ends again
            until = CLOCK.now() + 30
            while wanted != accepts(probe):
                assert CLOCK.now() < until
    finally:
        probe.close()


def accepts(probe: ThroughputProbe) -> bool:
    try:
        probe.request(1, CLOCK.now(), CLOCK.now())
    except ProbeError:
        return False
    return True


def test_the_option_names_a_server() -> None:
    found = parse_option("iperf3://lab:5202")
    assert found is not None
    assert "--client lab --port 5202 " in found["command"]
    assert parse_option("rtl_tcp://lab:1234") is None
    with pytest.raises(ValueError, match="host and a port"):
        parse_option("iperf3://lab:x")
