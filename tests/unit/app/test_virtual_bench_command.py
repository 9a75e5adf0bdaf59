"""`macontrol virtual-bench`: its config, commands, links and refusals."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from macontrol.cli import main
from macontrol.commands import virtual_bench
from macontrol.config import Config, load_config
from macontrol.controller.host.instance import InstanceLock
from macontrol.controller.runtime.clock import WallClock
from macontrol.sim.bench.boards.device import VirtualDevice
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.boards.zaber import VirtualZaber
from macontrol.sim.bench.virtual import VirtualBench
from support.waiting import wait_until

ANY_PORT = ("--rtl-tcp", "127.0.0.1:0")


@pytest.mark.parametrize(
    "schedule", ["soon unplug", "20 dance", "20 lose much", "20 lose inf", "20 stall -1"]
)
def test_a_wrong_schedule_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], schedule: str
) -> None:
    path = tmp_path / "faults.txt"
    path.write_text(f"# a comment\n{schedule}\n")
    assert main(["virtual-bench", *ANY_PORT, "--faults", str(path)]) == 64
    assert f"{path}:2: {schedule!r}" in capsys.readouterr().err


class TestConfig:
    """The config comes from the options, the file, or the stage's lab preset."""

    def output(self, capfd: pytest.CaptureFixture[str], *words: str) -> str:
        assert main(["virtual-bench", *ANY_PORT, "--duration", "0.1", *words]) == 0
        return capfd.readouterr().out

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "bench.toml"
        path.write_text('preset = "lab-5g8-zaber"\n')
        return path

    @pytest.fixture
    def built(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
        drivers: list[str] = []

        class Recorded(VirtualBench):
            def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
                drivers.append(config.stage.driver)
                super().__init__(config, *args, **kwargs)

        monkeypatch.setattr(virtual_bench, "VirtualBench", Recorded)
        with open(os.devnull) as nothing:
            monkeypatch.setattr(sys, "stdin", nothing)
            yield drivers

    def test_the_stage_chooses_its_preset(
        self, capfd: pytest.CaptureFixture[str], built: list[str]
    ) -> None:
        assert "--preset lab-2g4-grbl " in self.output(capfd)
        assert "--preset lab-5g8-zaber " in self.output(capfd, "--stage", "zaber")
        assert built == ["grbl", "zaber"]

    def test_a_file_chooses_its_preset(
        self, capfd: pytest.CaptureFixture[str], built: list[str], file: Path
    ) -> None:
        output = self.output(capfd, "--config", str(file), "--set", "algorithm.beta=2")
        assert f"--config {file} --set algorithm.beta=2 --yes" in output
        assert "--preset" not in output
        assert built == ["zaber"]

    def test_a_contradiction_is_refused(
        self, capfd: pytest.CaptureFixture[str], built: list[str]
    ) -> None:
        words = ["--stage", "zaber", "--preset", "lab-2g4-grbl"]
        assert main(["virtual-bench", *ANY_PORT, *words]) == 64
        assert "or start from --preset lab-5g8-zaber" in capfd.readouterr().err
        assert built == []


def test_several_lines_are_executed_at_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"mute\n\ndance\nunmute\nquit")
    os.close(writing)
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main(["virtual-bench", *ANY_PORT]) == 0
    output = [line.split("s  ")[-1] for line in capfd.readouterr().out.splitlines()[2:]]
    assert output[0] == "mute"
    assert output[1].startswith("dance: ")
    assert "lose MM, slow S" in output[1]
    assert output[2] == "unmute"


def test_the_link_of_another_virtual_bench_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "stage"
    with InstanceLock(f"virtual bench {link}"):
        assert main(["virtual-bench", *ANY_PORT, "--link", str(link)]) == 74
    output = capsys.readouterr().err
    assert f"--link {link}: " in output
    assert str(os.getpid()) in output
    assert not link.exists()


def test_a_link_needs_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["virtual-bench", *ANY_PORT, "--link", str(tmp_path / "none" / "stage")]) == 74
    assert f"there is no folder {tmp_path / 'none'}" in capsys.readouterr().err


def test_a_file_is_not_replaced_by_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    assert main(["virtual-bench", *ANY_PORT, "--link", str(path)]) == 74
    assert str(path) in capsys.readouterr().err
    assert path.read_text() == "precious"


def test_a_second_one_at_the_same_address_keeps_the_link_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "stage"
    config = load_config(None, [], preset="lab-2g4-grbl")
    with VirtualBench(config, WallClock(), seed=1, link=link) as first:
        to = os.readlink(link)
        wanted = ["virtual-bench", "--rtl-tcp", first.radio.address, "--link", str(link)]
        assert main(wanted) == 74
        assert "127.0.0.1:0" in capsys.readouterr().err
        assert os.readlink(link) == to


def test_closing_keeps_a_link_that_belongs_to_another_one_now(tmp_path: Path) -> None:
    link = tmp_path / "stage"
    first = VirtualGrbl(WallClock(), link=link)
    with VirtualGrbl(WallClock(), link=link):
        to = os.readlink(link)
        first.close()
        assert os.readlink(link) == to
    assert not os.path.lexists(link)


@pytest.mark.parametrize(
    ("board", "home"), [(VirtualGrbl, b"$H\n"), (VirtualZaber, b"/1 1 01 home\n")]
)
def test_a_stage_records_whether_it_was_homed_since_it_was_opened(
    tmp_path: Path, board: type[VirtualGrbl | VirtualZaber], home: bytes
) -> None:
    with board(WallClock(), link=tmp_path / "tty") as device:
        assert not device.is_newly_opened
        for _ in range(2):
            _open_and_home(device, home)
            assert not device.is_yet_to_home
            wait_until(lambda: not device._wire.is_open)
        port = os.open(device.port, os.O_RDWR | os.O_NOCTTY)
        wait_until(lambda: device.is_yet_to_home)
        os.close(port)
        wait_until(lambda: not device.is_yet_to_home)
        assert device.is_newly_opened


def _open_and_home(device: VirtualDevice, home: bytes) -> None:
    port = os.open(device.port, os.O_RDWR | os.O_NOCTTY)
    try:
        wait_until(lambda: device.is_newly_opened)
        assert device.is_yet_to_home
        wait_until(lambda: os.write(port, home) > 0 and not device.is_newly_opened)
    finally:
        os.close(port)


def test_a_second_signal_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def twice(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(virtual_bench, "_execute", twice)
    assert main(["virtual-bench", *ANY_PORT]) == 128 + signal.SIGTERM
    assert "Traceback" not in capsys.readouterr().err
