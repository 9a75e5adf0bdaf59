"""The SoapySDR stream on a stand-in module: tuning, errors, overflow, closing."""

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
    users_of_usb,
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


class Steps(Range):
    """The gains of a device, in steps that are too small to try each."""

    def step(self) -> float:
        return 0.1


@dataclass
class Device:
    """A radio that records its calls and returns scripted reads."""

    results: list[Result] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    rate: float = 0.0
    gains: tuple[str, ...] = ("TUNER",)
    refuse_stream: int = 0
    ranges: list[Range] = field(default_factory=list)
    frequencies: list[Range] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def record(*arguments: Any) -> None:
            self.calls.append((name, *arguments))

        return record

    def getSampleRate(self, *_: Any) -> float:  # noqa: N802 (a name of SoapySDR)
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


@pytest.mark.fault("soapy-not-installed")
def test_without_the_module_the_fix_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "SoapySDR", None)
    with pytest.raises(ProbeError) as refused:
        stream_of().open(threading.Event())
    assert "python3-soapysdr" in refused.value.fix
    assert "--system-site-packages" in refused.value.fix


@pytest.mark.fault("gain-fixed")
def test_the_radio_is_tuned_with_a_fixed_gain(soapy: Soapy, device: Device) -> None:
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


def test_no_gain_is_set_on_a_device_without_gains(soapy: Soapy, device: Device) -> None:
    device.gains = ()
    stream_of().open(threading.Event())
    assert "setGain" not in {call[0] for call in device.calls}


@pytest.mark.fault("soapy-no-such-radio")
def test_a_missing_device_is_reported_with_the_available_ones(soapy: Soapy) -> None:
    soapy.missing = True
    with pytest.raises(ProbeError, match="no match") as refused:
        stream_of().open(threading.Event())
    assert "soapy:driver=audio,device_id=3 (Sound card)" in refused.value.fix


def test_a_rate_the_radio_does_not_have_is_refused(soapy: Soapy, device: Device) -> None:
    device.rate = 2.4e6
    with pytest.raises(ProbeError, match="2400000 samples per second, not 2048000"):
        stream_of().open(threading.Event())
    assert device.calls[-1] == ("close",)


@pytest.mark.fault("sample-rate-unsupported")
def test_the_fix_has_a_rate_that_the_radio_supports(soapy: Soapy, device: Device) -> None:
    device.rate, device.ranges = 96e3, [Range(8e3, 8e3), Range(48e3, 96e3)]
    with pytest.raises(ProbeError) as refused:
        stream_of().open(threading.Event())
    assert suggestions(refused.value.fix) == [["probe.sample_rate_hz=96000"]]
    assert "8000, 48000 to 96000" in refused.value.fix
    device.calls.clear()
    stream_of(sample_rate_hz=96e3, tone_offset_hz=10e3).open(threading.Event())
    assert ("setSampleRate", 1, 0, 96e3) in device.calls
    device.setSampleRate = fail  # type: ignore[attr-defined]
    with pytest.raises(ProbeError, match="no such rate") as refused:
        stream_of().open(threading.Event())
    assert suggestions(refused.value.fix) == [["probe.sample_rate_hz=96000"]]
    device.ranges = [Range(1e6, 3e6)]
    with pytest.raises(ProbeError, match="no such rate") as refused:
        stream_of().open(threading.Event())
    assert "probe.soapy_arguments" in refused.value.fix


@pytest.mark.fault("tuner-out-of-range")
@pytest.mark.parametrize(
    ("tuner_hz", "ranges", "refused"),
    [
        (1.9e9, [Range(24e6, 1766e6)], True),
        (1.7e9, [Range(24e6, 1766e6)], False),
        (2.4e9, [Range(70e6, 6e9)], False),
        (1e9, [Range(70e6, 900e6), Range(1.1e9, 6e9)], True),
        (1.9e9, [], False),
        (1.9e9, [Range(0.0, 0.0)], False),  # a sound card
    ],
)
def test_a_frequency_outside_the_range_of_the_radio_is_refused(
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


def test_without_a_radio_the_installed_modules_are_listed(soapy: Soapy) -> None:
    soapy.missing, soapy.found = True, []
    with pytest.raises(ProbeError) as refused:
        stream_of().open(threading.Event())
    assert "installed: audio, rtlsdr" in refused.value.fix


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
def test_a_found_radio_is_written_as_a_value_for_the_probe_option(
    soapy: Soapy, item: dict[str, str], option: str
) -> None:
    soapy.found = [item]
    assert find_radios(soapy) == {f"soapy:{option}": ""}


def test_a_stream_that_does_not_start_is_reported(soapy: Soapy, device: Device) -> None:
    device.refuse_stream = -2
    with pytest.raises(ProbeError, match="error -2"):
        stream_of().open(threading.Event())


def read(stream: SoapyStream) -> IQRing:
    ring = IQRing(2.048e6, capacity_s=0.1, tolerance_s=0.005, dtype=stream.dtype)
    stream.open(threading.Event())
    with pytest.raises(ProbeError, match=r"no samples for 0\.1 s"):
        stream.read(ring, threading.Event())
    return ring


def test_samples_are_appended_to_the_ring(soapy: Soapy, device: Device) -> None:
    device.results = [Result(2000), Result(-1), Result(48)]
    ring = read(stream_of())
    assert ring._store.count == 2048
    assert np.array_equal(
        ring._store.copy(1999, 2048), np.tile(np.array([0.5, -0.25], np.float32), (49, 1))
    )


@pytest.mark.fault("overflow")
@pytest.mark.parametrize("overflow", [Result(-4), Result(100, flags=8)])
def test_an_overflow_restarts_the_ring(soapy: Soapy, device: Device, overflow: Result) -> None:
    device.results = [Result(2000), overflow, Result(30)]
    ring = read(stream_of())
    assert ring.restarts == {"overflow": 1}
    assert ring._store.count == 30


@pytest.mark.fault("stream-breaks-repeatedly")
def test_overflows_without_samples_count_as_silence(
    soapy: Soapy, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soapy, "SOAPY_SDR_OVERFLOW", -1)  # the result when the script is empty
    ring = read(stream_of())
    assert ring.restarts["overflow"] > 10


def test_any_other_error_ends_the_reading(soapy: Soapy, device: Device) -> None:
    device.results = [Result(-3)]
    stream = stream_of()
    stream.open(threading.Event())
    ring = IQRing(2.048e6, capacity_s=0.1, tolerance_s=0.005, dtype=np.float32)
    with pytest.raises(ProbeError, match="error -3"):
        stream.read(ring, threading.Event())


def test_a_stream_that_is_not_open_cannot_be_read() -> None:
    ring = IQRing(1e6, capacity_s=0.01, tolerance_s=0.005)
    with pytest.raises(ProbeError, match="not open"):
        stream_of().read(ring, threading.Event())


def test_the_name_without_arguments_is_soapy(soapy: Soapy) -> None:
    assert stream_of(soapy_arguments="").name == "soapy"
    assert stream_of().name == "soapy:driver=rtlsdr"


def test_arguments() -> None:
    assert parse_arguments("") == {}
    assert parse_arguments(" driver = rtlsdr, serial=1,") == {"driver": "rtlsdr", "serial": "1"}


@pytest.mark.fault("soapy-no-such-radio")
def test_the_users_of_usb_radios_are_listed(tmp_path: Path) -> None:
    (tmp_path / "modules").write_text("dvb_usb_rtl28xxu 32768 0 - Live\nusbcore 1 0 - Live\n")
    process = tmp_path / "4711"
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "3").symlink_to("/dev/bus/usb/001/004")
    (process / "comm").write_text("rtl_433\n")
    module, user = users_of_usb(tmp_path)
    assert "dvb_usb_rtl28xxu" in module
    assert user == "rtl_433 (process 4711)"
    assert users_of_usb(tmp_path / "nothing") == []


def test_a_radio_is_not_tuned_after_a_stop_request(soapy: Soapy, device: Device) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(ProbeError, match="the probe is closed"):
        stream_of().open(stop)
    assert [name for name, *_ in device.calls] == ["close"]


def test_the_gain_can_be_changed_while_samples_are_read(soapy: Soapy, device: Device) -> None:
    stream = stream_of()
    assert not stream.gains_db, "it is not open"
    stream.open(threading.Event())
    assert not stream.gains_db, "this device does not say which gains it has"
    vars(device)["getGainRange"] = lambda *_: Steps(0.0, 3.0)
    assert list(stream.gains_db) == [0.0, 1.0, 2.0, 3.0]
    stream.set_gain(3.0)
    ring = IQRing(2.048e6, capacity_s=0.1, tolerance_s=0.005, dtype=stream.dtype)
    device.results = [Result(-4)]
    with pytest.raises(ProbeError):  # the scripted device fails
        stream.read(ring, threading.Event())
    assert device.calls[-1] == ("setGain", 1, 0, 3.0)
    stream.close()
    stream.open(threading.Event())
    assert ("setGain", 1, 0, 3.0) in device.calls[-2:], "a radio that is reopened keeps it"
