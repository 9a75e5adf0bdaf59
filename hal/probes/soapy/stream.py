"""A radio through SoapySDR: RTL-SDR, HackRF, LimeSDR, USRP … or a sound card.

The Python module of SoapySDR is not on PyPI. Debian has it as python3-soapysdr, for the system's
Python. It is imported when a radio is opened; if it is missing, the error says how to install it.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from macontrol.config.checks.rf_plan import refuse_beyond
from macontrol.config.model.errors import ConfigError, ProbeError
from macontrol.hal.clock import Clock
from macontrol.hal.probe import OVERFLOW
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.hal.probes.sdr.ring import IQRing
from macontrol.hal.probes.soapy.settings import SoapySettings
from macontrol.hal.registry import FoundProbes

_CHANNEL = 0
_READ_TIMEOUT_US = 100_000
_RATE_TOLERANCE = 0.005
_DVB_MODULES = ("dvb_usb_rtl28xxu", "rtl2832_sdr", "rtl2832")


def load_soapy() -> Any:
    """Import SoapySDR; raise ProbeError with instructions if it is missing."""
    try:
        return importlib.import_module("SoapySDR")
    except ImportError as error:
        raise ProbeError(
            f"the Python module of SoapySDR cannot be imported ({error})",
            "install python3-soapysdr (Debian) and run macontrol with the system's Python, for "
            "example in a virtual environment made with --system-site-packages. Or use rtl_tcp, "
            "which needs no module",
        ) from None


def parse_arguments(text: str) -> dict[str, str]:
    """Parse `key=value,key=value`."""
    pairs = [item.partition("=") for item in text.split(",") if item.strip()]
    return {key.strip(): value.strip() for key, _, value in pairs}


def installed_modules(soapy: Any) -> list[str]:
    """Return the radio types for which SoapySDR has a module, by the names of the module files."""
    names = (Path(path).name for path in soapy.listModules())
    return sorted(re.sub(r"^lib|(Support)?\.\w+$", "", name) for name in names)


def find_radios(soapy: Any) -> dict[str, str]:
    """Return the radios that SoapySDR finds: the value for --probe, and the label of the radio.

    Some modules open a radio briefly to query it.
    """
    found = {}
    for item in map(dict, soapy.Device.enumerate()):
        which = next((key for key in ("serial", "uri", "device_id") if item.get(key)), None)
        keys = [key for key in ("driver", which) if key is not None and key in item]
        option = "soapy:" + ",".join(f"{key}={item[key]}" for key in keys)
        found[option] = item.get("label", "")
    return found


def search() -> FoundProbes:
    """The radios that SoapySDR finds; some of its modules open a free one for that."""
    soapy = load_soapy()
    modules = ", ".join(installed_modules(soapy)) or "none"
    return FoundProbes(
        "radios that SoapySDR finds", find_radios(soapy), f"none; its modules: {modules}"
    )


def status() -> str:
    """Whether SoapySDR is installed, and for which radios."""
    try:
        modules = ", ".join(installed_modules(load_soapy())) or "no radio"
    except ProbeError:
        return "SoapySDR: not installed for this Python (Debian: python3-soapysdr)"
    return f"SoapySDR: installed, with modules for {modules}; --soapy searches for radios"


def users_of_usb(proc: Path = Path("/proc")) -> list[str]:
    """Name what may use a USB radio: the kernel's DVB driver, or other processes."""
    users = []
    with contextlib.suppress(OSError):
        loaded = {line.split()[0] for line in (proc / "modules").read_text().splitlines()}
        users += [
            f"the kernel module {name} (remove it with rmmod)"
            for name in _DVB_MODULES
            if name in loaded
        ]
    for process in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            links = [str(descriptor.readlink()) for descriptor in (process / "fd").iterdir()]
            if any(link.startswith("/dev/bus/usb/") for link in links):
                name = (process / "comm").read_text().strip()
                users.append(f"{name} (process {process.name})")
    return users


def _fix_of_missing_radio(soapy: Any) -> str:
    found = find_radios(soapy)
    if found:
        named = ", ".join(f"{option} ({label})" for option, label in found.items())
        return f"SoapySDR finds {named}: select one of them with --probe"
    modules = ", ".join(installed_modules(soapy)) or "none"
    return (
        "SoapySDR finds no radio: check that it is plugged in and switched on, and that its module "
        f"is installed (installed: {modules}. Debian has more as soapysdr-module-...)"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _ranges(query: Callable[[int, int], Any], direction: int) -> list[tuple[float, float]]:
    """Return the ranges that a device reports; an empty list if it reports none."""
    try:
        found = [
            (float(each.minimum()), float(each.maximum())) for each in query(direction, _CHANNEL)
        ]
    except (RuntimeError, TypeError):
        return []
    return [(low, high) for low, high in found if high > 0]


def _gains(device: Any, direction: int) -> tuple[float, ...]:
    """The gains that a device can be set to, in its own steps or steps of 1 dB."""
    try:
        found = device.getGainRange(direction, _CHANNEL)
        low, high, step = (float(each()) for each in (found.minimum, found.maximum, found.step))
    except (RuntimeError, TypeError, AttributeError):  # a module that does not say
        return ()
    step = max(step, 1.0)
    steps = int((high - low) / step + 1e-9) if low < high else 0
    return tuple(round(low + number * step, 3) for number in range(min(steps, 200) + 1))


class SoapyStream:
    """The IQ stream of the first channel of a SoapySDR device."""

    def __init__(self, settings: SoapySettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._device: Any = None
        self._stream: Any = None
        self._is_gain_changed = False

    @property
    def name(self) -> str:
        return f"soapy:{self._settings.arguments}".rstrip(":")

    @property
    def dtype(self) -> npt.DTypeLike:
        return np.float32

    @property
    def gains_db(self) -> Sequence[float]:
        device = self._device
        return () if device is None else _gains(device, load_soapy().SOAPY_SDR_RX)

    def set_gain(self, gain_db: float) -> None:
        """Note the gain; `read` sets it."""
        self._settings = self._settings.model_copy(update={"gain_db": gain_db})
        self._is_gain_changed = True

    def open(self, stop: threading.Event) -> None:
        """Open the device, tune it, start its stream."""
        self.close()
        soapy = load_soapy()
        try:
            self._device = soapy.Device(parse_arguments(self._settings.arguments))
        except RuntimeError as error:
            users = ", ".join(users_of_usb())
            used = f" (possibly in use by {users})" if users else ""
            raise ProbeError(
                f"cannot be opened: {_one_line(error)}{used}", _fix_of_missing_radio(soapy)
            ) from None
        try:
            if stop.is_set():
                raise ProbeError("the probe is closed")
            self._tune(soapy, self._device)
        except (RuntimeError, ValueError) as error:
            fix = self._fix(soapy)
            self.close()
            raise ProbeError(f"cannot be set up: {_one_line(error)}", fix) from None
        except (ConfigError, ProbeError):
            self.close()
            raise

    def _fix(self, soapy: Any) -> str:
        """Return what to change if the device does not accept its settings."""
        wanted = self._settings.sample_rate_hz
        ranges = _ranges(self._device.getSampleRateRange, soapy.SOAPY_SDR_RX)
        if not ranges or any(low <= wanted <= high for low, high in ranges):
            return "check probe.soapy_arguments, probe.soapy_stream and probe.sample_rate_hz"
        rates = ", ".join(
            f"{low:.12g}" if low == high else f"{low:.12g} to {high:.12g}" for low, high in ranges
        )
        nearest = (min(max(wanted, low), high) for low, high in ranges)
        near = min(nearest, key=lambda rate: abs(rate - wanted))
        return f"set probe.sample_rate_hz to {near:.12g} (its rates are {rates})"

    def _tune(self, soapy: Any, device: Any) -> None:
        settings, rx = self._settings, soapy.SOAPY_SDR_RX
        device.setSampleRate(rx, _CHANNEL, settings.sample_rate_hz)
        rate = device.getSampleRate(rx, _CHANNEL)
        if abs(rate / settings.sample_rate_hz - 1) > _RATE_TOLERANCE:
            raise ProbeError(
                f"the radio delivers {rate:.12g} samples per second, not "
                f"{settings.sample_rate_hz:.12g}",
                self._fix(soapy),
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
                f"the stream does not start: {soapy.errToStr(failed)}", self._fix(soapy)
            )

    def read(self, ring: IQRing, stop: threading.Event) -> None:
        """Append samples to the ring until `stop` is set."""
        if self._stream is None:
            raise ProbeError("the radio is not open")
        soapy, device, stream, now = load_soapy(), self._device, self._stream, self._clock.now
        silence_s = self._settings.silence_s
        buffer = np.zeros(max(1024, int(device.getStreamMTU(stream))), np.complex64)
        rows = buffer.view(np.float32).reshape(-1, 2)
        received_s = now()
        while not stop.is_set():
            if self._is_gain_changed:
                self._is_gain_changed = False
                device.setGain(soapy.SOAPY_SDR_RX, _CHANNEL, self._settings.gain_db)
            result = device.readStream(stream, [buffer], len(buffer), 0, _READ_TIMEOUT_US)
            now_s = now()
            if result.ret > 0:
                received_s = now_s
                ring.append(rows[: result.ret], now_s)
                if result.flags & soapy.SOAPY_SDR_END_ABRUPT:
                    ring.restart(OVERFLOW, now_s)
            elif result.ret == soapy.SOAPY_SDR_OVERFLOW and now_s - received_s <= silence_s:
                ring.restart(OVERFLOW, now_s)
            elif result.ret not in (0, soapy.SOAPY_SDR_TIMEOUT, soapy.SOAPY_SDR_OVERFLOW):
                raise ProbeError(f"reading failed: {soapy.errToStr(result.ret)}")
            elif now_s - received_s > silence_s:
                raise ProbeError(f"no samples for {silence_s:g} s")

    def close(self) -> None:
        """Stop the stream and close the device."""
        device, stream = self._device, self._stream
        self._device = self._stream = None
        if device is None:
            return
        # The radio is given up: an error here has no consequence.
        with contextlib.suppress(Exception):
            if stream is not None:
                device.deactivateStream(stream)
                device.closeStream(stream)
        with contextlib.suppress(Exception):
            device.close()


def make_probe(settings: SoapySettings, clock: Clock) -> SdrProbe:
    """A probe that measures with a SoapySDR radio."""
    return SdrProbe(settings, SoapyStream(settings, clock), clock)
