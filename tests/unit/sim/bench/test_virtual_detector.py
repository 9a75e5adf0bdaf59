"""The emulated detector: its readings, its transmitter and its faults."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from macontrol.cli import main
from macontrol.config import load_config
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.probes.line.settings import LineSettings
from macontrol.sim.bench.detector import VirtualDetector
from macontrol.sim.bench.emulated_probe import Site
from macontrol.sim.bench.virtual import VirtualBench
from support.waiting import wait_until

CLOCK = WallClock()
NOISE = 1e-4
COUNTS = {"reading_a": 1000.0, "reading_b": 200.0, "highest_reading": 4095.0}


def made(
    snr: float = 0.0, link: Path | None = None, quiet_first_s: float = 0.0, **changes: Any
) -> VirtualDetector:
    site = Site(
        lambda _: snr * NOISE,
        noise_power=NOISE,
        clock=CLOCK,
        seed=1,
        quiet_first_s=quiet_first_s,
        link=link,
    )
    return VirtualDetector(LineSettings.model_validate(changes), site)


def level_dbm(detector: VirtualDetector, settings: LineSettings) -> float:
    return fmean(settings.dbm(detector.reading_at(CLOCK.now())) for _ in range(400))


@contextmanager
def client(detector: VirtualDetector) -> Iterator[int]:
    port = os.open(detector.address, os.O_RDWR | os.O_NOCTTY)
    try:
        yield port
    finally:
        os.close(port)


@pytest.mark.parametrize("changes", [{}, COUNTS])
def test_a_reading_is_the_calibration_backwards(changes: dict[str, Any]) -> None:
    settings = LineSettings.model_validate(changes)
    assert settings.dbm(settings.reading(-33.0)) == pytest.approx(-33.0)
    detector = made(99.0, **changes)
    try:
        assert level_dbm(detector, settings) == pytest.approx(-30.0, abs=0.1)
        detector.transmitting = False
        assert level_dbm(detector, settings) == pytest.approx(-50.0, abs=0.1)
    finally:
        detector.close()


def test_the_floor_of_the_config_is_that_of_the_detector() -> None:
    detector = made(noise_floor=-60.0)
    try:
        assert level_dbm(detector, LineSettings()) == pytest.approx(-60.0, abs=0.1)
    finally:
        detector.close()


def test_a_client_gets_numbers_and_the_transmitter_is_off_at_first() -> None:
    with made(99.0, quiet_first_s=10.0) as detector, client(detector) as port:
        assert select.select([port], [], [], 5.0)[0]
        first = os.read(port, 4096).split(b"\r\n")[0]
        assert LineSettings().dbm(float(first)) == pytest.approx(-50.0, abs=2.0)
        detector._quiet_until_s = 0.0
        assert level_dbm(detector, LineSettings()) == pytest.approx(-30.0, abs=0.1)


def test_it_stalls_and_clips() -> None:
    with made() as detector, client(detector) as port:
        assert select.select([port], [], [], 5.0)[0]
        detector.stall(30.0)
        wait_until(lambda: not select.select([port], [], [], 0.1)[0] or not os.read(port, 65536))
        detector.clip(30.0)
        assert detector.reading_at(CLOCK.now()) == 0.0  # an AD8318 falls with the power


def test_a_dropped_detector_keeps_its_link(tmp_path: Path) -> None:
    link = tmp_path / "detector"
    with made(link=link) as detector:
        with client(detector) as port:
            assert select.select([port], [], [], 5.0)[0]
            before = os.readlink(link)
            detector.drop()
            wait_until(lambda: os.path.lexists(link) and os.readlink(link) != before)
        with client(detector) as port:
            assert select.select([port], [], [], 5.0)[0]
    assert not os.path.lexists(link)


def test_the_detector_is_on_the_bench_of_its_config() -> None:
    config = load_config(None, ["probe.driver=line"], preset="lab-2g4-grbl")
    with VirtualBench(config, CLOCK, seed=3) as bench:
        assert isinstance(bench.probe, VirtualDetector)
        powered = level_dbm(bench.probe, LineSettings())
        bench.do("mute")
        assert level_dbm(bench.probe, LineSettings()) == pytest.approx(-50.0, abs=0.1)
        bench.do("unmute")
        assert powered > -49.0
        with pytest.raises(ValueError, match="this probe has no such fault"):
            bench.do("detune 1")


def test_the_command_prints_how_to_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "detector"
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        words = ["virtual-bench", "--probe", "line", "--probe-link", str(link)]
        assert main([*words, "--duration", "0.1"]) == 0
    output = capsys.readouterr().out
    assert f"detector on {link}; try" in output
    assert f"--probe line://{link}\n" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--probe", "line", "--radio", "127.0.0.1:0"], "not a server"),
        (["--probe-link", "x"], "has no port"),
        (["--probe", "soapy"], "has no emulator"),
    ],
)
def test_options_of_another_probe_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["virtual-bench", *words]) == 64
    assert message in capsys.readouterr().err
