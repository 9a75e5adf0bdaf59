"""Faults that any serial stage can have, over the wire: recover, or report the reason."""

from __future__ import annotations

import os
import subprocess
import tty
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

import pytest

from macontrol.config.model.errors import (
    LineError,
    LineLostError,
    NotHomedError,
    StageError,
    StageLostError,
    StopRequestedError,
)
from macontrol.config.sections.stage import StageSettings
from macontrol.controller.runtime.guard import Guard
from macontrol.hal.registry import STAGES
from macontrol.hal.serial.line import SerialLine
from macontrol.hal.serial.stage import SerialStage
from support.emulated_stages import CLOCK, AnyRig, grbl_rig, occupy, rest_mm, soon, zaber_rig
from support.scripted_stage import fill, stage_settings
from support.scripted_zaber import zaber_settings

pytestmark = pytest.mark.any_user


@pytest.fixture(params=[grbl_rig, zaber_rig], ids=["grbl", "zaber"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyRig]:
    with request.param(tmp_path / "tty") as rig:
        yield rig


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """The far end of a port behind which there is no board, and the port's name."""
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, os.ttyname(slave)
    os.close(master)
    os.close(slave)


@pytest.fixture(params=[stage_settings, zaber_settings], ids=["grbl", "zaber"])
def settings(request: pytest.FixtureRequest, terminal: tuple[int, str]) -> StageSettings:
    made: StageSettings = request.param(terminal[1])
    return made


def make(settings: StageSettings) -> SerialStage:
    return STAGES[settings.driver].make(settings, CLOCK, confirm_homing=lambda: True)


def test_answers_can_be_timed_again_before_homing(rig: AnyRig) -> None:
    rig.stage.connect(soon())
    before = rig.stage.answer_times
    rig.stage.time_again(soon())
    assert rig.stage.answer_times.samples != before.samples
    with pytest.raises(NotHomedError):
        rig.stage.move_to(20.0, soon())
    rig.stage.home(soon())
    rig.assert_works()


@pytest.mark.fault("stage-unplugged")
def test_a_stage_unplugged_in_motion_is_lost_and_homed_after_it_returns(rig: AnyRig) -> None:
    rig.during_next_motion(rig.board.unplug)
    with pytest.raises(LineLostError):
        rig.stage.move_to(50.0, soon())
    rig.assert_refuses_to_move()
    rig.after(0.5, rig.board.plug_in)
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("stage-renamed-port")
def test_a_stage_is_found_by_its_link_under_another_port_name(rig: AnyRig) -> None:
    before = os.path.realpath(rig.board.port)
    rig.board.unplug()
    with pytest.raises(StageLostError):
        rig.stage.move_to(50.0, soon())
    with ExitStack() as closing:
        occupy(before, closing)
        rig.board.plug_in()
        assert os.path.realpath(rig.board.port) != before
        rig.stage.recover(soon())
        rig.assert_works()


@pytest.mark.fault("stage-unplugged")
def test_a_stage_unplugged_during_homing_is_lost_and_homed_after_it_returns(rig: AnyRig) -> None:
    rig.stage.move_to(30.0, soon())
    rig.during_next_homing(rig.board.unplug)
    with pytest.raises(LineLostError):
        rig.stage.home(soon())
    rig.assert_refuses_to_move()
    rig.after(0.1, rig.board.plug_in)
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("stop-while-recovering")
@pytest.mark.parametrize("make_rig", [grbl_rig, zaber_rig])
def test_a_stop_request_during_a_recovery_stops_the_motor(
    tmp_path: Path, make_rig: Callable[..., AbstractContextManager[AnyRig]]
) -> None:
    with make_rig(tmp_path / "tty", homing_mm_per_s=5.0) as rig:  # it would take 8 s
        rig.stage.move_to(40.0, soon())
        rig.board.reset()
        CLOCK.sleep_until(CLOCK.now() + 0.1)
        with pytest.raises(StageLostError):
            rig.stage.move_to(30.0, soon())
        with pytest.raises(StopRequestedError):
            rig.stage.recover(soon(), lambda: rig.true_mm() == pytest.approx(40.0, abs=0.01))
        assert rest_mm(rig.board) > 5.0
        rig.assert_refuses_to_move()


@pytest.mark.fault("stage-gone")
def test_a_recovery_without_its_port_ends_in_time_and_names_it(rig: AnyRig) -> None:
    rig.board.unplug()
    with pytest.raises(StageLostError):
        rig.stage.move_to(50.0, soon())
    start = CLOCK.now()
    with pytest.raises(LineError):
        rig.stage.recover(soon(1.0))
    assert CLOCK.now() - start < 5.0
    rig.stage.stop()  # nothing to stop
    rig.board.plug_in()


@pytest.mark.fault("board-reset")
def test_a_reset_in_motion_is_noticed_and_homed(rig: AnyRig) -> None:
    for _ in range(5):
        rig.during_next_motion(rig.board.reset)
        with pytest.raises(StageLostError, match=rig.reset_reason):
            rig.stage.move_to(50.0, soon())
        if rig.true_mm() < 50.0:
            break
        rig.stage.recover(soon())  # on a busy machine the reset may come after the arrival
    assert 0.0 < rig.true_mm() < 50.0  # and the board reports 0 there
    rig.assert_refuses_to_move()
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("board-reset")
def test_a_reset_between_moves_is_noticed_before_the_next(rig: AnyRig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.board.reset()
    CLOCK.sleep_until(CLOCK.now() + 0.1)
    rig.assert_refuses_to_move()
    assert rig.true_mm() == pytest.approx(5.0, abs=rig.tolerance_mm)
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("moved-by-hand")
def test_a_carriage_moved_by_another_program_never_moves_more_than_a_stroke(
    rig: AnyRig,
) -> None:
    guard = Guard(rig.stage, region_mm=50.0, stroke_mm=2.0)
    guard.locate(soon())
    for place in (1.0, 2.0):
        guard.move(place, soon())
    rig.move_by_hand(40.0)
    with pytest.raises(StageError, match=r"40\.0+ mm"):
        guard.move(3.0, soon())
    CLOCK.sleep_until(CLOCK.now() + 0.2)
    assert rig.true_mm() == pytest.approx(40.0, abs=rig.tolerance_mm)
    rig.stage.recover(soon())  # this homes a lost stage
    here = guard.locate(soon()).position_mm
    assert here == pytest.approx(rig.true_mm(), abs=rig.tolerance_mm)
    assert guard.move(here + 1.0, soon()).arrived


@pytest.mark.fault("garbage-on-wire")
def test_garbage_on_the_wire_changes_nothing(rig: AnyRig) -> None:
    for garbage in rig.garbage:
        rig.after(0.1, lambda data=garbage: rig.board.send(data))  # type: ignore[misc]
        target = 10.0 if rig.true_mm() > 20.0 else 25.0
        arrival = rig.stage.move_to(target, soon(1.0))
        if not arrival.arrived:  # its answer was garbled
            arrival = rig.follow()
        assert arrival.position_mm == pytest.approx(target)
        assert rig.true_mm() == pytest.approx(target, abs=rig.tolerance_mm)
        assert rig.stage.is_homed


@pytest.mark.fault("board-hangs")
def test_a_deadline_is_kept_whatever_the_board_does(rig: AnyRig) -> None:
    rig.board.hang()
    for call in (rig.stage.where, lambda deadline: rig.stage.move_to(1.0, deadline)):
        start = CLOCK.now()
        with suppress(StageError):
            call(start + 0.2)
        assert CLOCK.now() - start < 3.0
    rig.board.reset()


@pytest.mark.fault("steps-lost")
def test_lost_steps_are_invisible_and_corrected_by_homing(rig: AnyRig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.board.lose_steps(0.5)
    assert rig.stage.where(soon()).position_mm == pytest.approx(5.0)
    assert rig.true_mm() == pytest.approx(5.5, abs=rig.tolerance_mm)
    arrival = rig.stage.move_to(10.0, soon())
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(10.0)
    assert rig.true_mm() == pytest.approx(10.5, abs=rig.tolerance_mm)
    rig.stage.home(soon())
    rig.assert_works()


@pytest.mark.fault("process-ends")
def test_closing_in_motion_stops_the_carriage(rig: AnyRig) -> None:
    assert not rig.stage.move_to(50.0, soon(0.2)).arrived
    rig.stage.close()
    here = rig.true_mm()
    assert here < 50.0
    CLOCK.sleep_until(CLOCK.now() + 0.3)
    assert rig.true_mm() == here


@pytest.mark.fault("port-blocked-at-start")
def test_a_port_that_accepts_no_data_is_an_error(settings: StageSettings) -> None:
    with open(settings.port, "wb", 0) as port:
        os.set_blocking(port.fileno(), False)
        fill(port.fileno())
    stage = make(settings)
    start = CLOCK.now()
    with pytest.raises(LineLostError):
        stage.connect(soon(10.0))
    assert CLOCK.now() - start < 5.0
    stage.close()


@pytest.mark.fault("port-blocked")
def test_a_port_that_accepts_no_data_does_not_pass_the_deadline(
    rig: AnyRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = rig.stage._connection._line
    assert isinstance(line, SerialLine)
    monkeypatch.setattr(line, "_write_timeout_s", 20.0)  # so that only the deadline ends it
    with rig.not_reading():
        fill(line._serial.fileno())
        start = CLOCK.now()
        with pytest.raises(LineLostError):
            rig.stage.move_to(20.0, start + 0.1)
        assert CLOCK.now() - start < 10.0
    rig.assert_refuses_to_move()
    rig.board.plug_in()  # reconnecting the cable drops the data that was stuck
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("port-never-quiet")
@pytest.mark.parametrize("words", [["yes", ""], ["cat", "/dev/zero"]], ids=["lines", "bytes"])
def test_a_port_with_endless_data_is_an_error_in_time(
    settings: StageSettings, terminal: tuple[int, str], words: list[str]
) -> None:
    stage = make(settings)
    start = CLOCK.now()
    with subprocess.Popen(words, stdout=terminal[0]) as source:
        try:
            with pytest.raises(StageError, match="answers"):
                stage.connect(soon(1.5))
        finally:
            source.kill()
    stage.close()
    assert CLOCK.now() - start < 5.0
