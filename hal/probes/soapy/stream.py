"""A radio through SoapySDR: RTL-SDR, HackRF, LimeSDR, USRP … or a sound card.

SoapySDR's Python module is not on PyPI; Debian has it as python3-soapysdr, for the system's Python.
It is imported when a radio is opened, and a message says what to do where it is missing.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from macontrol.config.model.errors import ConfigError, ProbeError
from macontrol.hal.clock import Clock
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.hal.probes.sdr.ring import IQRing
from macontrol.hal.probes.sdr.tuner_range import refuse_beyond
from macontrol.hal.probes.soapy.settings import SoapySettings

_CHANNEL = 0
_READ_TIMEOUT_US = 100_000
_RATE_TOLERANCE = 0.005
_DVB_MODULES = ("dvb_usb_rtl28xxu", "rtl2832_sdr", "rtl2832")


def load_soapy() -> Any:
    """Import SoapySDR, or say how to get it."""
    try:
        return importlib.import_module("SoapySDR")
    except ImportError as error:
        raise ProbeError(
            f"SoapySDR's Python module cannot be imported ({error}); install python3-soapysdr "
            "(Debian) and run macontrol with the system's Python: a virtual environment made "
            "with --system-site-packages sees it. Or use rtl_tcp, which needs nothing"
        ) from None


def parse_arguments(text: str) -> dict[str, str]:
    """Read `key=value,key=value`."""
    pairs = [item.partition("=") for item in text.split(",") if item.strip()]
    return {key.strip(): value.strip() for key, _, value in pairs}


def installed_modules(soapy: Any) -> list[str]:
    """The kinds of radio for which SoapySDR has a module, by the names of the modules' files."""
    names = (Path(path).name for path in soapy.listModules())
    return sorted(re.sub(r"^lib|(Support)?\.\w+$", "", name) for name in names)


def find_radios(soapy: Any) -> dict[str, str]:
    """The radios that SoapySDR finds: what to give to --probe, and what they call themselves.

    Some modules open a radio for a moment to ask it.
    """
    found = {}
    for item in map(dict, soapy.Device.enumerate()):
        which = next((key for key in ("serial", "uri", "device_id") if item.get(key)), None)
        keys = [key for key in ("driver", which) if key is not None and key in item]
        option = "soapy:" + ",".join(f"{key}={item[key]}" for key in keys)
        found[option] = item.get("label", "")
    return found


def who_holds_the_dongle(proc: Path = Path("/proc")) -> str:
    """Name what may keep a USB radio busy: the kernel's DVB driver, or other processes."""
    holders = []
    with contextlib.suppress(OSError):
        loaded = {line.split()[0] for line in (proc / "modules").read_text().splitlines()}
        holders += [
            f"the kernel module {name} (rmmod it)" for name in _DVB_MODULES if name in loaded
        ]
    for process in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            links = [str(descriptor.readlink()) for descriptor in (process / "fd").iterdir()]
            if any(link.startswith("/dev/bus/usb/") for link in links):
                name = (process / "comm").read_text().strip()
                holders.append(f"{name} (process {process.name})")
    return f" (it may be held by {', '.join(holders)})" if holders else ""


def _what_there_is(soapy: Any) -> str:
    found = find_radios(soapy)
    if found:
        named = ", ".join(f"{option} ({label})" for option, label in found.items())
        return f"SoapySDR finds {named}: name one of them with --probe"
    modules = ", ".join(installed_modules(soapy)) or "none"
    return (
        "SoapySDR finds no radio: is it plugged in and switched on, and is its module installed "
        f"(there are: {modules}, and in Debian more as soapysdr-module-...)?"
    )


def _words(error: Exception) -> str:
    """An error of a library's in one line."""
    return " ".join(str(error).split())


def _ranges(ask: Callable[[int, int], Any], direction: int) -> list[tuple[float, float]]:
    """The ranges that a device says it has; none if it does not say."""
    try:
        found = [
            (float(each.minimum()), float(each.maximum())) for each in ask(direction, _CHANNEL)
        ]
    except (RuntimeError, TypeError):
        return []
    return [(low, high) for low, high in found if high > 0]


class SoapyStream:
    """The IQ stream of the first channel of a SoapySDR device."""

    def __init__(self, settings: SoapySettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._device: Any = None
        self._stream: Any = None

    @property
    def name(self) -> str:
        return f"soapy:{self._settings.arguments}".rstrip(":")

    @property
    def dtype(self) -> npt.DTypeLike:
        return np.float32

    def open(self, stop: threading.Event) -> None:
        """Open the device, tune it, start its stream."""
        self.close()
        soapy = load_soapy()
        try:
            self._device = soapy.Device(parse_arguments(self._settings.arguments))
        except RuntimeError as error:
            held = who_holds_the_dongle()
            raise ProbeError(
                f"cannot be opened: {_words(error)}{held}; {_what_there_is(soapy)}"
            ) from None
        try:
            if stop.is_set():
                raise ProbeError("it was closed")
            self._tune(soapy, self._device)
        except (RuntimeError, ValueError) as error:
            advice = self._advice(soapy)
            self.close()
            raise ProbeError(f"cannot be set up: {_words(error)}; {advice}") from None
        except (ConfigError, ProbeError):
            self.close()
            raise

    def _advice(self, soapy: Any) -> str:
        """What may be wrong with a device that does not take its settings."""
        wanted = self._settings.sample_rate_hz
        ranges = _ranges(self._device.getSampleRateRange, soapy.SOAPY_SDR_RX)
        if not ranges or any(low <= wanted <= high for low, high in ranges):
            return (
                "see probe.soapy.arguments, probe.soapy.stream_arguments and probe.sample_rate_hz"
            )
        rates = ", ".join(
            f"{low:.12g}" if low == high else f"{low:.12g} to {high:.12g}" for low, high in ranges
        )
        nearest = (min(max(wanted, low), high) for low, high in ranges)
        near = min(nearest, key=lambda rate: abs(rate - wanted))
        return f"of the rates that it has ({rates}) set probe.sample_rate_hz to {near:.12g}"

    def _tune(self, soapy: Any, device: Any) -> None:
        settings, rx = self._settings, soapy.SOAPY_SDR_RX
        device.setSampleRate(rx, _CHANNEL, settings.sample_rate_hz)
        rate = device.getSampleRate(rx, _CHANNEL)
        if abs(rate / settings.sample_rate_hz - 1) > _RATE_TOLERANCE:
            taken, wanted = f"{rate:.12g}", f"{settings.sample_rate_hz:.12g}"
            raise ProbeError(
                f"the radio takes {taken} samples per second, not {wanted}; {self._advice(soapy)}"
            )
        frequencies = _ranges(device.getFrequencyRange, rx)
        refuse_beyond(settings.tuner_frequency_hz, frequencies, "tuner")
        if settings.ppm and device.hasFrequencyCorrection(rx, _CHANNEL):
            device.setFrequencyCorrection(rx, _CHANNEL, float(settings.ppm))
        device.setFrequency(rx, _CHANNEL, settings.tuner_frequency_hz)
        if device.hasGainMode(rx, _CHANNEL):
            device.setGainMode(rx, _CHANNEL, False)
        if len(device.listGains(rx, _CHANNEL)):
            device.setGain(rx, _CHANNEL, settings.gain_db)
        arguments = parse_arguments(settings.stream_arguments)
        self._stream = device.setupStream(rx, "CF32", [_CHANNEL], arguments)
        failed = device.activateStream(self._stream)
        if failed:
            raise ProbeError(
                f"the stream does not start: {soapy.errToStr(failed)}; {self._advice(soapy)}"
            )

    def read(self, ring: IQRing, stop: threading.Event) -> None:
        """Read samples into the ring until `stop` is set."""
        if self._stream is None:
            raise ProbeError("it is not open")
        soapy, device, stream, now = load_soapy(), self._device, self._stream, self._clock.now
        silence_s = self._settings.silence_s
        buffer = np.zeros(max(1024, int(device.getStreamMTU(stream))), np.complex64)
        rows = buffer.view(np.float32).reshape(-1, 2)
        heard = now()
        while not stop.is_set():
            result = device.readStream(stream, [buffer], len(buffer), 0, _READ_TIMEOUT_US)
            moment = now()
            if result.ret > 0:
                heard = moment
                if not ring.append(rows[: result.ret], moment):
                    raise ProbeError(ring.complaint)
                if result.flags & soapy.SOAPY_SDR_END_ABRUPT:
                    ring.restart("overflow", moment)
            elif result.ret == soapy.SOAPY_SDR_OVERFLOW and moment - heard <= silence_s:
                ring.restart("overflow", moment)
            elif result.ret not in (0, soapy.SOAPY_SDR_TIMEOUT, soapy.SOAPY_SDR_OVERFLOW):
                raise ProbeError(f"reading failed: {soapy.errToStr(result.ret)}")
            elif moment - heard > silence_s:
                raise ProbeError(f"no samples for {silence_s:g} s")

    def close(self) -> None:
        """Stop the stream and close the device."""
        device, stream = self._device, self._stream
        self._device = self._stream = None
        if device is None:
            return
        # What fails while letting go is of no use to anybody.
        with contextlib.suppress(Exception):
            if stream is not None:
                device.deactivateStream(stream)
                device.closeStream(stream)
        with contextlib.suppress(Exception):
            device.close()


def make_probe(settings: SoapySettings, clock: Clock, transmission_share: float) -> SdrProbe:
    """A probe that measures with a SoapySDR radio."""
    stream = SoapyStream(settings, clock)
    return SdrProbe(settings, stream, clock, transmission_share=transmission_share)
