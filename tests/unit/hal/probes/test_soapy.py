"""The SoapySDR stream over a stand-in module: tuning, errors, overflow, letting go."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol.config.model.errors import ConfigError, ProbeError
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.probes.sdr.ring import IQRing
from macontrol.hal.probes.soapy.stream import (
    SoapyStream,
    find_radios,
    parse_arguments,
    who_holds_the_dongle,
)
from support.probe_settings import probe_settings
from support.suggestions import suggestions


@dataclass
class Result:
    ret: int
    flags: int = 0


@dataclass
class Range:
    low: float
    high: float

    def minimum(self) -> float:
        return self.low

    def maximum(self) -> float:
        return self.high


@dataclass
class Device:
    """A radio that notes what it is told, and reads as scripted."""

    results: list[Result] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    rate: float = 0.0
    gains: tuple[str, ...] = ("TUNER",)
    refuse_stream: int = 0
    ranges: list[Range] = field(default_factory=list)
    frequencies: list[Range] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def note(*arguments: Any) -> None:
            self.calls.append((name, *arguments))

        return note

    def getSampleRate(self, *_: Any) -> float:  # noqa: N802 (SoapySDR's own name)
        return self.rate

    def hasGainMode(self, *_: Any) -> bool:  # noqa: N802
        return True

    def hasFrequencyCorrection(self, *_: Any) -> bool:  # noqa: N802
        return True

    def getSampleRateRange(self, *_: Any) -> list[Range]:  # noqa: N802
        return self.ranges

    def getFrequencyRange(self, *_: Any) -> list[Range]:  # noqa: N802
        return self.frequencies

    def listGains(self, *_: Any) -> tuple[str, ...]:  # noqa: N802
        return self.gains

    def setupStream(self, *arguments: Any) -> str:  # noqa: N802
        self.calls.append(("setupStream", *arguments))
        return "stream"

    def activateStream(self, _: Any) -> int:  # noqa: N802
        return self.refuse_stream

    def getStreamMTU(self, _: Any) -> int:  # noqa: N802
        return 2048

    def readStream(self, _s: Any, buffers: Any, count: int, *_: Any) -> Result:  # noqa: N802
        assert len(buffers[0]) == count
        if not self.results:
            return Result(-1)
        result = self.results.pop(0)
        if result.ret > 0:
            buffers[0][: result.ret] = 0.5 - 0.25j
        return result


class Soapy:
    """The module."""

    SOAPY_SDR_RX = 1
    SOAPY_SDR_TIMEOUT = -1
    SOAPY_SDR_OVERFLOW = -4
    SOAPY_SDR_END_ABRUPT = 8

    def __init__(self, device: Device) -> None:
        self.opened_with: Any = None
        self.found = [{"driver": "audio", "label": "Sound card", "device_id": "3"}]
        self.missing = False

        def make(arguments: Any) -> Device:
            self.opened_with = arguments
            if self.missing:
                raise RuntimeError("no match")
            return device

        make.enumerate = lambda: self.found  # type: ignore[attr-defined]
        self.Device = make

    def listModules(self) -> tuple[str, ...]:  # noqa: N802
        return ("/lib/modules0.8/librtlsdrSupport.so", "/lib/modules0.8/libaudioSupport.so")

    def errToStr(self, code: int) -> str:  # noqa: N802
        return f"error {code}"


@pytest.fixture
def device() -> Device:
    return Device(rate=2.048e6)


@pytest.fixture
def soapy(device: Device, monkeypatch: pytest.MonkeyPatch) -> Soapy:
    module = Soapy(device)
    monkeypatch.setitem(sys.modules, "SoapySDR", module)
    return module


def stream_of(**changes: Any) -> SoapyStream:
    changes = {"driver": "soapy", "soapy_arguments": "driver=rtlsdr", "silence_s": 0.1} | changes
    return SoapyStream(probe_settings(**changes), WallClock())


def test_without_the_module_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "SoapySDR", None)
    with pytest.raises(ProbeError, match=r"python3-soapysdr .*--system-site-packages"):
        stream_of().open(threading.Event())


def test_the_radio_is_tuned_with_its_gain_fixed(soapy: Soapy, device: Device) -> None:
    stream = stream_of(ppm=2)
    stream.open(threading.Event())
    assert soapy.opened_with == {"driver": "rtlsdr"}
    assert device.calls == [
        ("setSampleRate", 1, 0, 2.048e6),
        ("setFrequencyCorrection", 1, 0, 2.0),
        ("setFrequency", 1, 0, 433.67e6),
        ("setGainMode", 1, 0, False),
        ("setGain", 1, 0, 20.0),
        ("setupStream", 1, "CF32", [0], {"bufflen": "16384"}),
    ]
    device.calls.clear()
    stream.close()
    stream.close()
    assert [call[0] for call in device.calls] == ["deactivateStream", "closeStream", "close"]


def test_a_device_without_gains_gets_none(soapy: Soapy, device: Device) -> None:
    device.gains = ()
    stream_of().open(threading.Event())
    assert "setGain" not in {call[0] for call in device.calls}


def test_a_missing_device_is_told_with_what_there_is(soapy: Soapy) -> None:
    soapy.missing = True
    with pytest.raises(
        ProbeError,
        match=r"no match; SoapySDR finds soapy:driver=audio,device_id=3 \(Sound card\): ",
    ):
        stream_of().open(threading.Event())


def test_a_rate_the_radio_does_not_have_is_refused(soapy: Soapy, device: Device) -> None:
    device.rate = 2.4e6
    with pytest.raises(ProbeError, match=r"2400000 samples per second, not 2048000; see probe"):
        stream_of().open(threading.Event())
    assert device.calls[-1] == ("close",)


def test_the_rates_a_radio_has_are_told(soapy: Soapy, device: Device) -> None:
    device.rate, device.ranges = 96e3, [Range(8e3, 8e3), Range(48e3, 96e3)]
    with pytest.raises(ProbeError, match=r"\(8000, 48000 to 96000\)") as refusal:
        stream_of().open(threading.Event())
    assert suggestions(str(refusal.value)) == [["probe.sample_rate_hz=96000"]]
    device.calls.clear()
    stream_of(sample_rate_hz=96e3, tone_offset_hz=10e3).open(threading.Event())
    assert ("setSampleRate", 1, 0, 96e3) in device.calls
    device.setSampleRate = fail  # type: ignore[attr-defined]
    with pytest.raises(ProbeError, match=r"set up: no such rate; of the rates that it has"):
        stream_of().open(threading.Event())
    device.ranges = [Range(1e6, 3e6)]
    with pytest.raises(ProbeError, match=r"set up: no such rate; see probe\.soapy\.arguments"):
        stream_of().open(threading.Event())


@pytest.mark.parametrize(
    ("tuner_hz", "ranges", "refused"),
    [
        (1.9e9, [Range(24e6, 1766e6)], True),
        (1.7e9, [Range(24e6, 1766e6)], False),
        (2.4e9, [Range(70e6, 6e9)], False),
        (1e9, [Range(70e6, 900e6), Range(1.1e9, 6e9)], True),
        (1.9e9, [], False),
        (1.9e9, [Range(0.0, 0.0)], False),  # of a sound card
    ],
)
def test_a_tuner_frequency_beyond_the_radio_is_refused(
    soapy: Soapy, device: Device, tuner_hz: float, ranges: list[Range], refused: bool
) -> None:
    device.rate, device.frequencies = 2.048e6, ranges
    stream = stream_of(tuner_frequency_hz=tuner_hz)
    if not refused:
        stream.open(threading.Event())
        return
    with pytest.raises(ConfigError, match=r"^probe\.tuner_frequency_hz: "):
        stream.open(threading.Event())
    assert device.calls[-1] == ("close",)
    assert not any(name == "setFrequency" for name, *_ in device.calls)


def fail(*_: Any) -> None:
    raise RuntimeError("no such\nrate\n")


def test_where_there_is_no_radio_the_modules_are_named(soapy: Soapy) -> None:
    soapy.missing, soapy.found = True, []
    with pytest.raises(ProbeError, match=r"finds no radio: .*\(there are: audio, rtlsdr, and"):
        stream_of().open(threading.Event())


@pytest.mark.parametrize(
    ("item", "option"),
    [
        (
            {"driver": "rtlsdr", "serial": "00000001", "device_id": "0"},
            "driver=rtlsdr,serial=00000001",
        ),
        ({"driver": "plutosdr", "uri": "usb:1.2"}, "driver=plutosdr,uri=usb:1.2"),
        ({"driver": "hackrf"}, "driver=hackrf"),
    ],
)
def test_what_is_found_is_told_as_the_probe_option_takes_it(
    soapy: Soapy, item: dict[str, str], option: str
) -> None:
    soapy.found = [item]
    assert find_radios(soapy) == {f"soapy:{option}": ""}


def test_a_stream_that_does_not_start_is_told(soapy: Soapy, device: Device) -> None:
    device.refuse_stream = -2
    with pytest.raises(ProbeError, match="error -2"):
        stream_of().open(threading.Event())


def read(stream: SoapyStream) -> IQRing:
    ring = IQRing(2.048e6, capacity_s=0.1, tolerance_s=0.005, dtype=stream.dtype)
    stream.open(threading.Event())
    with pytest.raises(ProbeError, match=r"no samples for 0\.1 s"):
        stream.read(ring, threading.Event())
    return ring


def test_samples_go_into_the_ring(soapy: Soapy, device: Device) -> None:
    device.results = [Result(2000), Result(-1), Result(48)]
    ring = read(stream_of())
    assert ring._count == 2048
    assert np.array_equal(
        ring._copy(1999, 2048), np.tile(np.array([0.5, -0.25], np.float32), (49, 1))
    )


@pytest.mark.parametrize("overflow", [Result(-4), Result(100, flags=8)])
def test_an_overflow_breaks_the_stream(soapy: Soapy, device: Device, overflow: Result) -> None:
    device.results = [Result(2000), overflow, Result(30)]
    ring = read(stream_of())
    assert ring.restarts == {"overflow": 1}
    assert ring._count == 30


def test_overflows_without_samples_are_silence(
    soapy: Soapy, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soapy, "SOAPY_SDR_OVERFLOW", -1)  # what it reads when there is no more
    ring = read(stream_of())
    assert ring.restarts["overflow"] > 10


def test_any_other_error_ends_the_reading(soapy: Soapy, device: Device) -> None:
    device.results = [Result(-3)]
    stream = stream_of()
    stream.open(threading.Event())
    ring = IQRing(2.048e6, capacity_s=0.1, tolerance_s=0.005, dtype=np.float32)
    with pytest.raises(ProbeError, match="error -3"):
        stream.read(ring, threading.Event())


def test_a_stream_that_is_not_open_is_not_read() -> None:
    ring = IQRing(1e6, capacity_s=0.01, tolerance_s=0.005)
    with pytest.raises(ProbeError, match="not open"):
        stream_of().read(ring, threading.Event())


def test_a_name_without_arguments_is_still_a_name(soapy: Soapy) -> None:
    assert stream_of(soapy_arguments="").name == "soapy"
    assert stream_of().name == "soapy:driver=rtlsdr"


def test_arguments() -> None:
    assert parse_arguments("") == {}
    assert parse_arguments(" driver = rtlsdr, serial=1,") == {"driver": "rtlsdr", "serial": "1"}


def test_what_holds_a_dongle_is_named(tmp_path: Path) -> None:
    (tmp_path / "modules").write_text("dvb_usb_rtl28xxu 32768 0 - Live\nusbcore 1 0 - Live\n")
    process = tmp_path / "4711"
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "3").symlink_to("/dev/bus/usb/001/004")
    (process / "comm").write_text("rtl_433\n")
    told = who_holds_the_dongle(tmp_path)
    assert "dvb_usb_rtl28xxu" in told
    assert "rtl_433 (process 4711)" in told
    assert who_holds_the_dongle(tmp_path / "nothing") == ""


def test_a_radio_that_nobody_waits_for_any_more_is_not_tuned(soapy: Soapy, device: Device) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(ProbeError, match="it was closed"):
        stream_of().open(stop)
    assert [name for name, *_ in device.calls] == ["close"]
