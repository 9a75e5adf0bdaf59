"""A radio through SoapySDR: RTL-SDR, HackRF, LimeSDR, USRP … or a sound card.

SoapySDR's Python module is not on PyPI; Debian has it as python3-soapysdr, for the system's Python.
It is imported when a radio is opened, and a message says what to do where it is missing.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from macontrol.config.probe_settings import ProbeSettings
from macontrol.hal.clock import Clock
from macontrol.hal.iq_ring import IQRing
from macontrol.hal.probe import ProbeError

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
    return f"; it may be held by {', '.join(holders)}" if holders else ""


class SoapyStream:
    """The IQ stream of the first channel of a SoapySDR device."""

    def __init__(self, settings: ProbeSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._device: Any = None
        self._stream: Any = None

    @property
    def name(self) -> str:
        return f"soapy:{self._settings.soapy_arguments}"

    @property
    def dtype(self) -> npt.DTypeLike:
        return np.float32

    def open(self, stop: threading.Event) -> None:
        """Open the device, tune it, start its stream."""
        self.close()
        soapy = load_soapy()
        try:
            self._device = soapy.Device(parse_arguments(self._settings.soapy_arguments))
        except RuntimeError as error:
            found: list[dict[str, str]] = [dict(item) for item in soapy.Device.enumerate()]
            labels = ", ".join(item.get("label") or item.get("driver", "?") for item in found)
            raise ProbeError(
                f"cannot be opened: {error}; SoapySDR finds {labels or 'no device'}"
                + who_holds_the_dongle()
            ) from None
        try:
            self._tune(soapy, self._device)
        except (RuntimeError, ValueError) as error:
            self.close()
            raise ProbeError(f"cannot be set up: {error}") from None
        except ProbeError:
            self.close()
            raise

    def _tune(self, soapy: Any, device: Any) -> None:
        settings, rx = self._settings, soapy.SOAPY_SDR_RX
        device.setSampleRate(rx, _CHANNEL, settings.sample_rate_hz)
        rate = device.getSampleRate(rx, _CHANNEL)
        if abs(rate / settings.sample_rate_hz - 1) > _RATE_TOLERANCE:
            raise ProbeError(
                f"the radio takes {rate:g} samples a second, not the {settings.sample_rate_hz:g} "
                "of probe.sample_rate_hz; set it to a rate that the radio has"
            )
        if settings.ppm and device.hasFrequencyCorrection(rx, _CHANNEL):
            device.setFrequencyCorrection(rx, _CHANNEL, float(settings.ppm))
        device.setFrequency(rx, _CHANNEL, settings.tuner_frequency_hz)
        if device.hasGainMode(rx, _CHANNEL):
            device.setGainMode(rx, _CHANNEL, False)
        if len(device.listGains(rx, _CHANNEL)):
            device.setGain(rx, _CHANNEL, settings.gain_db)
        arguments = parse_arguments(settings.soapy_stream)
        self._stream = device.setupStream(rx, "CF32", [_CHANNEL], arguments)
        failed = device.activateStream(self._stream)
        if failed:
            raise ProbeError(f"the stream does not start: {soapy.errToStr(failed)}")

    def read(self, ring: IQRing, stop: threading.Event) -> None:
        """Read samples into the ring until told to stop."""
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
                    raise ProbeError(
                        f"samples come more than {self._settings.stale_s:g} s late and do not "
                        "catch up"
                    )
                if result.flags & soapy.SOAPY_SDR_END_ABRUPT:
                    ring.restart("overflow", moment)
            elif result.ret == soapy.SOAPY_SDR_OVERFLOW:
                heard = moment
                ring.restart("overflow", moment)
            elif result.ret not in (0, soapy.SOAPY_SDR_TIMEOUT):
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
