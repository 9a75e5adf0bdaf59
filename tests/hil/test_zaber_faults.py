"""Every fault a Zaber stage can have, through the wire: recover, or say what is wrong."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from zaber_bench import summed, zaber_settings

from macontrol.controller.clock import WallClock
from macontrol.hal import Arrival, StageError, StageLostError
from macontrol.hal.zaber import ZaberStage
from macontrol.sim.boards.zaber import VirtualZaber

CLOCK = WallClock()
# A short rail of 60 mm at 1 µm, slow enough for faults to strike in motion.
QUICK = {"limit.max": 60_000.0, "maxspeed": 163_840.0, "accel": 82.0, "comm.alert": 1.0}


def soon(seconds: float = 30.0) -> float:
    return CLOCK.now() + seconds


class Rig:
    """A virtual device, a stage on it, and a watch on where the carriage really goes."""

    def __init__(self, link: Path) -> None:
        self.device = VirtualZaber(
            CLOCK, settings=QUICK, microstep_mm=0.001, link=link, distance_mm=3.0
        )
        self.stage = ZaberStage(zaber_settings(str(link)), CLOCK)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        timer.start()

    def true_mm(self) -> float:
        return self.device.position_at(CLOCK.now())

    def motions(self) -> int:
        return sum(line.startswith(("move", "home")) for line in self.device.lines)

    def assert_works(self) -> None:
        assert self.stage.is_homed
        arrival = self.stage.move_to(12.0, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(12.0)
        assert self.true_mm() == pytest.approx(12.0, abs=0.002)

    def refuse_to_move(self) -> None:
        before = self.motions()
        with pytest.raises(StageLostError):
            self.stage.move_to(20.0, soon())
        assert self.motions() == before


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "tty")
    with rig.device:
        try:
            rig.stage.connect(soon())
            rig.stage.home(soon())
            assert rig.true_mm() == pytest.approx(0.0, abs=0.002)
            yield rig
        finally:
            rig.stage.close()


def follow(stage: ZaberStage) -> Arrival:
    """Ask until it stands or fails."""
    deadline = soon()
    while CLOCK.now() < deadline:
        arrival = stage.where(soon(5.0))
        if arrival.arrived:
            return arrival
        CLOCK.sleep_until(CLOCK.now() + 0.02)
    raise AssertionError("neither arrived nor failed")


def test_unplugged_in_motion_it_is_stopped_and_homed_once_it_is_back(rig: Rig) -> None:
    rig.after(0.1, rig.device.unplug)
    with pytest.raises(StageLostError, match="gone"):
        rig.stage.move_to(50.0, soon())
    rig.refuse_to_move()
    rig.after(0.1, rig.device.plug_in)
    rig.stage.recover(soon())
    assert "stop" in rig.device.lines  # its motor has gone on meanwhile
    rig.assert_works()


def test_unplugged_for_good_the_recovery_ends_in_time_and_says_which_port(rig: Rig) -> None:
    rig.device.unplug()
    with pytest.raises(StageLostError):
        rig.stage.move_to(50.0, soon())
    begun = CLOCK.now()
    with pytest.raises(StageError, match="tty does not exist"):
        rig.stage.recover(soon(1.0))
    assert CLOCK.now() - begun < 5.0
    rig.stage.stop()  # there is nobody to be told
    rig.device.plug_in()


def test_a_device_that_lost_its_supply_in_motion_is_noticed_and_homed(rig: Rig) -> None:
    rig.after(0.1, rig.device.reset)
    with pytest.raises(StageLostError, match="no reference position"):
        rig.stage.move_to(50.0, soon())
    assert 0.0 < rig.true_mm() < 50.0  # and the device says 0 there
    rig.refuse_to_move()
    rig.stage.recover(soon())
    rig.assert_works()


def test_a_device_that_lost_its_supply_between_moves_is_noticed_before_the_next(rig: Rig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.device.reset()
    rig.refuse_to_move()
    assert rig.true_mm() == pytest.approx(5.0)
    rig.stage.recover(soon())
    rig.assert_works()


def test_a_stall_is_forgiven_once_and_told_the_second_time(rig: Rig) -> None:
    rig.after(0.1, rig.device.stall)
    with pytest.raises(StageLostError, match="stalled"):
        rig.stage.move_to(50.0, soon())
    rig.refuse_to_move()
    rig.device.release()
    rig.stage.recover(soon())
    rig.assert_works()
    rig.device.stall()
    with pytest.raises(StageLostError, match="stalled"):
        rig.stage.move_to(50.0, soon())
    with pytest.raises(StageError, match="second time: look at the rail"):
        rig.stage.recover(soon())


def test_a_blocked_carriage_makes_homing_fail_loudly(rig: Rig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.device.stall()
    with pytest.raises(StageError, match="homing failed: FS"):
        rig.stage.home(soon())
    rig.refuse_to_move()


def test_a_silent_device_is_lost_within_seconds_and_comes_back_with_its_supply(rig: Rig) -> None:
    rig.after(0.1, rig.device.hang)
    with pytest.raises(StageLostError, match="has not answered"):
        rig.stage.move_to(50.0, soon(5.0))
    rig.refuse_to_move()
    rig.device.reset()
    rig.stage.recover(soon())
    rig.assert_works()


def test_garbage_on_the_wire_changes_nothing(rig: Rig) -> None:
    for garbage in (
        b"\xff\x00\x80",
        b"\r\n\r\n",
        b"@01 1 ",
        b"@01 1 07 OK IDLE -- 5\r\n",  # without its checksum
        summed("@02 1 07 OK IDLE FS 5") + b"\r\n",  # another device's
        b"!01 1 IDLE FS:00\r\n",
    ):
        rig.after(0.05, lambda data=garbage: rig.device.say(data))  # type: ignore[misc]
        target = 10.0 if rig.true_mm() > 20.0 else 30.0
        arrival = rig.stage.move_to(target, soon(10.0))
        if not arrival.arrived:
            arrival = follow(rig.stage)
        assert arrival.position_mm == pytest.approx(target)
        assert rig.true_mm() == pytest.approx(target, abs=0.002)
        assert rig.stage.is_homed


def test_slow_answers_are_waited_for_and_deadlines_are_kept(rig: Rig) -> None:
    rig.device.slow_down(0.1)
    assert rig.stage.move_to(2.0, soon()).arrived
    deadline = soon(0.05)
    with pytest.raises(StageError, match="does not answer"):
        rig.stage.where(deadline)
    assert CLOCK.now() - deadline < 0.2
    rig.device.slow_down(0.0)
    assert follow(rig.stage).position_mm == pytest.approx(2.0)


def test_a_motion_broken_off_by_another_program_is_told(rig: Rig) -> None:
    rig.after(0.1, lambda: rig.device.interrupt(1000))
    with pytest.raises(StageError, match="interrupted by another command"):
        rig.stage.move_to(50.0, soon())
    rig.assert_works()


def test_lost_steps_do_not_show_until_it_is_homed(rig: Rig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.device.lose_steps(0.5)
    assert rig.stage.where(soon()).position_mm == pytest.approx(5.0)
    assert rig.true_mm() == pytest.approx(5.5)
    rig.stage.home(soon())
    rig.assert_works()


def test_a_hot_device_goes_on(rig: Rig) -> None:
    rig.device.raise_flag("WT")
    rig.assert_works()


def test_a_command_spoilt_on_its_way_is_as_if_never_sent(tmp_path: Path) -> None:
    with VirtualZaber(CLOCK, link=tmp_path / "tty") as device:
        port = os.open(device.port, os.O_RDWR | os.O_NOCTTY)
        try:
            os.write(port, b"/1 1 01 get pos:00\n/2 1 02 get pos\n/1 1 03 get limit.max\n")
            heard = b""
            while not heard.endswith(b"\n"):
                heard += os.read(port, 100)
                time.sleep(0.001)
        finally:
            os.close(port)
    assert heard == b"@01 1 03 OK IDLE WR 305381\r\n"
