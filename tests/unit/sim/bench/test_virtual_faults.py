"""Every fault of the virtual bench has the effect of its name, at its time."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from macontrol.cli import main
from macontrol.config import load_config
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.probes.sdr.power import tone, wideband
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.boards.zaber import VirtualZaber
from macontrol.sim.bench.virtual import FAULTS, VirtualBench
from support.waiting import wait_until

CLOCK = WallClock()


class Rig:
    """A bench with a client at its port and its radio."""

    def __init__(self, bench: VirtualBench, link: Path) -> None:
        self.bench = bench
        self.link = link
        bench.radio.tuning.frequency_hz = 433.67e6  # as the presets tune
        self._port = os.open(link, os.O_RDWR | os.O_NOCTTY)
        wait_until(lambda: bench.stage.is_newly_opened)

    def close(self) -> None:
        os.close(self._port)

    @property
    def stage(self) -> VirtualGrbl | VirtualZaber:
        stage = self.bench.stage
        assert isinstance(stage, VirtualGrbl | VirtualZaber)
        return stage

    def do(self, *commands: str) -> None:
        for command in commands:
            self.bench.do(command)

    def true_mm(self) -> float:
        return self.stage.position_at(CLOCK.now())

    def level_dbfs(self) -> float:
        """The power of the next samples."""
        return wideband(self.bench.radio.samples(CLOCK.now(), 10_000)).dbfs

    def received(self, within_s: float) -> bytes:
        """The bytes that arrive within a time."""
        is_there = select.select([self._port], [], [], within_s)[0]
        return os.read(self._port, 4096) if is_there else b""

    def await_bytes(self, expected: bytes) -> None:
        """Wait until these bytes have arrived, in one piece or in several."""
        arrived = bytearray()

        def are_here() -> bool:
            arrived.extend(self.received(1.0))
            return expected in arrived

        wait_until(are_here)

    def ask(self, within_s: float = 10.0) -> bytes:
        """The answer to a command that moves nothing."""
        while self.received(0.05):  # earlier output
            pass
        os.write(self._port, b"?" if isinstance(self.stage, VirtualGrbl) else b"/get pos\n")
        return self.received(within_s)

    def move_by_5_mm(self) -> float:
        """Command the carriage away from its switch; its true travel (mm)."""
        before = self.true_mm()
        if isinstance(self.stage, VirtualGrbl):
            os.write(self._port, b"$X\nG91\nG1X-5F6000\nG4P0\n")
            wait_until(lambda: "G4P0" in self.stage.lines and b"Idle" in self.ask())
        else:
            move = f"move rel {5.0 / self.stage._microstep_mm:.0f}"
            os.write(self._port, f"/1 1 {move}\n".encode())
            wait_until(lambda: move in self.stage.lines and b"IDLE" in self.ask())
        self.stage.lines.clear()
        return self.true_mm() - before


@pytest.fixture(params=["lab-2g4-grbl", "lab-5g8-zaber"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    link = tmp_path / "stage"
    config = load_config(preset=request.param, assignments=[])
    with VirtualBench(config, CLOCK, seed=3, link=link) as bench:
        rig = Rig(bench, link)
        try:
            yield rig
        finally:
            rig.close()


def unplug(rig: Rig) -> None:
    rig.do("unplug")
    assert not os.path.lexists(rig.link)
    with pytest.raises(OSError, match="Input/output error"):
        os.write(rig._port, b"?")


def plug(rig: Rig) -> None:
    rig.do("unplug", "plug")
    again = Rig(rig.bench, rig.link)
    assert again.ask()
    again.close()


def reset(rig: Rig) -> None:
    if isinstance(rig.stage, VirtualGrbl):
        rig.move_by_5_mm()
        assert b"MPos:-5.000" in rig.ask()
        rig.do("reset")
        wait_until(lambda: b"Alarm|MPos:0.000" in rig.ask())
    else:
        rig.stage.raise_flag("WT")
        rig.do("reset")
        assert rig.stage.flags == {"WR"}


def alarm(rig: Rig) -> None:
    if isinstance(rig.stage, VirtualGrbl):
        rig.move_by_5_mm()  # which unlocks the board first
        rig.do("alarm")
        rig.await_bytes(b"ALARM:1")
    else:
        with pytest.raises(ValueError, match="no such fault"):
            rig.do("alarm")


def hang(rig: Rig) -> None:
    assert rig.ask()
    rig.do("hang")
    assert not rig.ask(0.3)


def garbage(rig: Rig) -> None:
    rig.do("garbage")
    rig.await_bytes(b"\x80\x81")


def lose(rig: Rig) -> None:
    before = rig.true_mm()
    rig.do("lose 1.5")
    assert rig.true_mm() - before == pytest.approx(1.5)


def slow(rig: Rig) -> None:
    rig.do("slow 0.4")
    assert not rig.ask(0.3)
    assert rig.received(10.0)


def stick(rig: Rig) -> None:
    rig.do("stick")
    assert rig.move_by_5_mm() == pytest.approx(0.0, abs=0.001)


def release(rig: Rig) -> None:
    rig.do("stick", "release")
    assert rig.move_by_5_mm() == pytest.approx(5.0, abs=0.01)


def stall(rig: Rig) -> None:
    with _listener(rig) as client:
        rig.do("stall 1")
        begun = CLOCK.now()
        while select.select([client], [], [], 0.5)[0]:  # earlier samples
            assert client.recv(65536)
            assert CLOCK.now() - begun < 20.0
        assert client.recv(65536)


def drop(rig: Rig) -> None:
    with _listener(rig) as client:
        rig.do("drop")
        try:
            while client.recv(65536):
                pass
        except ConnectionResetError:
            pass


def _listener(rig: Rig) -> socket.socket:
    host, _, port = rig.bench.radio.address.partition(":")
    client = socket.create_connection((host, int(port)), 10.0)
    assert client.recv(12)
    return client


def clip(rig: Rig) -> None:
    rig.do("clip 30")
    assert wideband(rig.bench.radio.samples(CLOCK.now(), 10_000)).clipped_share > 0.5


def mute(rig: Rig) -> None:
    assert rig.level_dbfs() > -35.0
    rig.do("mute")
    assert rig.level_dbfs() == pytest.approx(-40.0, abs=0.3)


def detune(rig: Rig) -> None:
    """First out of the band of a tone, then out of the received band."""

    def in_band() -> float:
        samples = rig.bench.radio.samples(CLOCK.now(), 20_000)
        return tone(samples, 2.048e6, 250e3, 20e3).dbfs

    assert in_band() > -45.0
    rig.do("detune 50e3")
    assert in_band() < -55.0
    assert rig.level_dbfs() > -36.0
    rig.do("detune 1.05e6")
    assert rig.level_dbfs() == pytest.approx(-40.0, abs=0.3)
    rig.do("detune 0")
    assert in_band() > -45.0


def unmute(rig: Rig) -> None:
    rig.do("mute", "unmute")
    assert rig.level_dbfs() > -35.0


TABLE: dict[str, Callable[[Rig], None]] = {
    **{"unplug": unplug, "plug": plug, "reset": reset, "alarm": alarm, "hang": hang},
    **{"garbage": garbage, "lose": lose, "slow": slow, "stick": stick, "release": release},
    **{"stall": stall, "drop": drop, "clip": clip, "mute": mute, "unmute": unmute},
    "detune": detune,
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_effect_of_a_fault(rig: Rig, name: str) -> None:
    TABLE[name](rig)


def test_the_channel_drifts_on_command(rig: Rig) -> None:
    rig.do("drift")
    time.sleep(2 * rig.bench.world._config.physical.slot_duration_s)
    rig.bench.world.power_at(CLOCK.now())
    assert rig.bench.world.slot >= 2


def test_the_transmitter_is_silent_until_the_stage_is_homed(rig: Rig) -> None:
    with _listener(rig):
        wait_until(lambda: rig.bench.radio._quiet_until_s is not None)
        rig.bench.radio._quiet_until_s = 0.0
        assert rig.level_dbfs() == pytest.approx(-40.0, abs=0.3)
        os.write(rig._port, b"$H\n" if isinstance(rig.stage, VirtualGrbl) else b"/1 1 home\n")
        wait_until(lambda: not rig.stage.is_newly_opened)
        wait_until(lambda: rig.level_dbfs() > -35.0)


def test_scheduled_faults_happen_in_order_and_at_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, seen = tmp_path / "plan", []
    plan.write_text("0.9 lose 2.5  # millimetres\n\n0.3 mute\n")
    carry_out, begin = VirtualBench.do, VirtualBench.__enter__

    def watched(bench: VirtualBench, command: str) -> None:
        before = bench.stage.position_at(CLOCK.now())
        carry_out(bench, command)
        shift = bench.stage.position_at(CLOCK.now()) - before
        seen.append((command, CLOCK.now() - begun[0], shift, bench.radio.transmitting))

    def entered(bench: VirtualBench) -> VirtualBench:
        begun.append(CLOCK.now())
        return begin(bench)

    begun: list[float] = []
    monkeypatch.setattr(VirtualBench, "do", watched)
    monkeypatch.setattr(VirtualBench, "__enter__", entered)
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        words = ["virtual-bench", "--rtl-tcp", "127.0.0.1:0", "--link", str(tmp_path / "stage")]
        assert main([*words, "--faults", str(plan), "--duration", "1.2"]) == 0
    assert [(command, transmitting) for command, _, _, transmitting in seen] == [
        ("mute", False),
        ("lose 2.5", False),
    ]
    (_, muted_s, still, _), (_, lost_s, shift, _) = seen
    assert muted_s >= 0.3
    assert lost_s >= 0.9
    assert still == 0.0
    assert shift == pytest.approx(2.5)
    output = capsys.readouterr().out
    assert "s  mute\n" in output
    assert "s  lose 2.5\n" in output


def test_the_reference_receiver_hears_the_transmitter_as_the_probe_does() -> None:
    config = load_config(preset="lab-2g4-grbl")
    with VirtualBench(config, CLOCK, seed=1, reference_port=0) as bench:
        receiver = bench.reference
        assert receiver is not None
        assert receiver.address != bench.probe.address
        bench.do("mute")
        assert receiver._received(CLOCK.now()) == 0.0
        bench.do("unmute")
        shown = receiver._received(CLOCK.now())
        assert shown == pytest.approx(bench.world.reference_power_at(CLOCK.now()))
        assert shown > 0.0
