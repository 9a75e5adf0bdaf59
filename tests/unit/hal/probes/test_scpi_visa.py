"""The SCPI probe through PyVISA, with pyvisa-py as the library."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from math import log10

import pytest

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import Power
from macontrol.config.model.suggestion import pip_install
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Measurement
from macontrol.hal.probes.scpi import transport
from macontrol.hal.probes.scpi.probe import ScpiProbe
from macontrol.hal.probes.scpi.settings import ScpiSettings
from macontrol.hal.probes.scpi.transport import VisaTransport
from macontrol.sim.bench.emulated_probe import Site
from macontrol.sim.bench.instrument import IDENTIFICATION, VirtualInstrument
from support.waiting import wait_until

pytest.importorskip("pyvisa_py", reason="pyvisa-py is not installed")

CLOCK = WallClock()
NOISE = 1e-4


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYVISA_LIBRARY", "@py")


@pytest.fixture
def instrument() -> Iterator[VirtualInstrument]:
    site = Site(
        lambda _: 99.0 * NOISE,
        noise_power=NOISE,
        clock=CLOCK,
        seed=1,
    )
    with VirtualInstrument(ScpiSettings(noise_floor=-60.0), site) as instrument:
        yield instrument


def settings_of(instrument: VirtualInstrument, **changes: object) -> ScpiSettings:
    host, port = instrument.address.split(":")
    resource = f"TCPIP::{host}::{port}::SOCKET"
    given = {"resource": resource, "settling_s": 0.05, "noise_floor": -60.0, "sweep_s": 0.01}
    return ScpiSettings.model_validate({**given, **changes})


@pytest.fixture
def probe(instrument: VirtualInstrument) -> Iterator[ScpiProbe]:
    probe = ScpiProbe(settings_of(instrument), CLOCK)
    probe.open()
    yield probe
    probe.close()


def measure(probe: ScpiProbe, slot: int, seconds: float = 0.3) -> Measurement:
    now = time.monotonic()
    probe.request(slot, now, now + seconds)
    found = list[Measurement]()
    while not found and time.monotonic() < now + 10.0:
        found += probe.collect(time.monotonic() + 0.2)
    (measurement,) = found
    assert measurement.slot == slot
    return measurement


def test_it_measures_through_pyvisa(probe: ScpiProbe) -> None:
    assert probe.identification == IDENTIFICATION
    assert probe.name.startswith("visa://TCPIP::")
    value = measure(probe, 1).value
    assert isinstance(value, Power)
    assert 10 * log10(value.power) == pytest.approx(-40.0, abs=0.3)


@pytest.mark.fault("instrument-late")
def test_a_late_answer_is_stale_and_thrown_away(
    probe: ScpiProbe, instrument: VirtualInstrument
) -> None:
    instrument.stall(0.7)
    assert measure(probe, 1, 0.2).reason == "stale"
    wait_until(lambda: measure(probe, 2).valid)
    assert instrument.clients == 1
    assert probe.health().reopened == 0


@pytest.mark.fault("instrument-lost")
def test_a_dropped_connection_is_opened_again(
    probe: ScpiProbe, instrument: VirtualInstrument
) -> None:
    instrument.drop()
    wait_until(lambda: probe_failed(probe))
    wait_until(lambda: not probe.health().fault)
    time.sleep(0.1)
    probe.collect(time.monotonic())  # of a request that was accepted just before the fault
    wait_until(lambda: measure(probe, 3).valid)
    assert instrument.clients >= 2


def probe_failed(probe: ScpiProbe) -> bool:
    """Whether a measurement has noticed the loss: PyVISA reports none in between."""
    try:
        measure(probe, 1)
    except ProbeError:
        return True
    return bool(probe.health().fault or probe.health().reopened)


def test_a_resource_that_does_not_exist_is_an_error() -> None:
    for resource in ("TCPIP::127.0.0.1::1::SOCKET", "no resource"):
        probe = ScpiProbe(ScpiSettings(resource=resource, connect_timeout_s=1.0), CLOCK)
        with pytest.raises(ProbeError, match="the VISA resource") as refusal:
            probe.open()
        assert "devices --scpi" in refusal.value.fix
        probe.close()


def test_a_stop_ends_a_read(instrument: VirtualInstrument) -> None:
    stop = threading.Event()
    transport = VisaTransport(settings_of(instrument), CLOCK, stop)
    stop.set()
    with pytest.raises(ProbeError):
        transport.read(CLOCK.now() + 30.0)
    transport.close()


@pytest.mark.fault("pyvisa-not-installed")
def test_without_pyvisa_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, instrument: VirtualInstrument
) -> None:
    monkeypatch.setitem(sys.modules, "pyvisa", None)
    probe = ScpiProbe(settings_of(instrument), CLOCK)
    with pytest.raises(ProbeError, match="PyVISA") as refusal:
        probe.open()
    assert pip_install("pyvisa", "pyvisa-py") in refusal.value.fix
    with pytest.raises(ProbeError, match="PyVISA"):
        transport.search()
    probe.close()


def test_devices_searches_for_resources() -> None:
    assert "installed" in transport.status()
    assert all(option.startswith("visa://") for option in transport.search().found)
