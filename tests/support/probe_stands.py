"""A test stand for every probe: the probe, its clock, and a signal whose power the test sets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest

from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Probe
from macontrol.hal.probes.line.probe import LineProbe
from macontrol.hal.probes.line.settings import LineSettings
from macontrol.hal.probes.rtl_tcp.stream import RtlTcpStream
from macontrol.hal.probes.scpi.probe import ScpiProbe
from macontrol.hal.probes.scpi.settings import ScpiSettings
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.hal.probes.soapy.stream import SoapyStream
from macontrol.sim.bench.detector import VirtualDetector
from macontrol.sim.bench.emulated_probe import Site
from macontrol.sim.bench.instrument import VirtualInstrument
from support.power_meter import PowerMeter
from support.probe_settings import probe_settings
from support.virtual_radio import virtual_radio

NOISE = 1e-3
SHARE = 0.75
_RATE_HZ = 256e3
_SETTINGS = {
    "sample_rate_hz": _RATE_HZ,
    "tone_offset_hz": 32e3,
    "guard_s": 0.02,
    "settling_s": 0.3,
    "noise_floor": 10 * np.log10(NOISE),
}


@dataclass
class Signal:
    """The power that a probe receives, in addition to `NOISE`."""

    power: float = 0.0


@dataclass(frozen=True)
class Stand:
    """A probe that is not open yet."""

    probe: Probe
    clock: WallClock
    signal: Signal


@contextmanager
def rtl_tcp() -> Iterator[Stand]:
    signal = Signal()
    with virtual_radio(lambda _: signal.power, noise_power=NOISE, block_bytes=8192) as radio:
        settings, clock = probe_settings(**_SETTINGS, address=radio.address), WallClock()
        stream = RtlTcpStream(settings, clock)
        yield Stand(SdrProbe(settings, stream, clock), clock, signal)


class PacedDevice:
    """A SoapySDR device that delivers noise at its sample rate."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._rng = np.random.default_rng(1)
        self._began_s = time.monotonic()
        self._sent = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Accept every other call; the device has no gains and no known ranges."""
        return lambda *_: ()

    def getSampleRate(self, *_: Any) -> float:  # noqa: N802 (a name of SoapySDR)
        return _RATE_HZ

    def getStreamMTU(self, _: Any) -> int:  # noqa: N802
        return 4096

    def readStream(self, _s: Any, buffers: Any, count: int, *_: Any) -> Any:  # noqa: N802
        time.sleep(0.005)
        due = int((time.monotonic() - self._began_s) * _RATE_HZ) - self._sent
        count = min(due, count)
        scale = ((self._signal.power + NOISE) / 2) ** 0.5
        parts = self._rng.standard_normal((count, 2)) * scale
        buffers[0][:count] = parts[:, 0] + 1j * parts[:, 1]
        self._sent += count
        return SimpleNamespace(ret=count, flags=0)


@contextmanager
def soapy() -> Iterator[Stand]:
    signal = Signal()
    module = SimpleNamespace(
        SOAPY_SDR_RX=1,
        SOAPY_SDR_TIMEOUT=-1,
        SOAPY_SDR_OVERFLOW=-4,
        SOAPY_SDR_END_ABRUPT=8,
        Device=lambda _: PacedDevice(signal),
    )
    settings, clock = probe_settings(**_SETTINGS, driver="soapy"), WallClock()
    stream = SoapyStream(settings, clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "SoapySDR", module)
        yield Stand(SdrProbe(settings, stream, clock), clock, signal)


def _site(signal: Signal, clock: WallClock) -> Site:
    return Site(
        lambda _: signal.power,
        noise_power=NOISE,
        clock=clock,
        seed=1,
    )


@contextmanager
def line() -> Iterator[Stand]:
    signal, clock = Signal(), WallClock()
    common = {key: _SETTINGS[key] for key in ("guard_s", "settling_s", "noise_floor")}
    settings = LineSettings.model_validate(common)
    with VirtualDetector(settings, _site(signal, clock)) as detector:
        settings = LineSettings.model_validate({**common, "port": detector.address})
        yield Stand(LineProbe(settings, clock), clock, signal)


@contextmanager
def scpi() -> Iterator[Stand]:
    signal, clock = Signal(), WallClock()
    common = {key: _SETTINGS[key] for key in ("guard_s", "settling_s", "noise_floor")}
    settings = ScpiSettings.model_validate({**common, "sweep_s": 0.01})
    with VirtualInstrument(settings, _site(signal, clock)) as instrument:
        settings = settings.model_copy(update={"address": instrument.address})
        yield Stand(ScpiProbe(settings, clock), clock, signal)


@contextmanager
def power_meter() -> Iterator[Stand]:
    signal, clock, rng = Signal(), WallClock(), np.random.default_rng(2)

    def read() -> float:
        return float((signal.power + NOISE) * (1 + 0.02 * rng.standard_normal()))

    yield Stand(PowerMeter(read, NOISE, clock), clock, signal)


Stands: TypeAlias = dict[str, Callable[[], AbstractContextManager[Stand]]]

RADIOS: Stands = {"line": line, "rtl_tcp": rtl_tcp, "scpi": scpi, "soapy": soapy}
"""Probes with all capabilities, by the name of their driver."""
METERS: Stands = {"power meter": power_meter}
"""Probes with no capability."""
