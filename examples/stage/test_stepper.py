"""The stage keeps the contract, and handles spoilt answers, restarts and wrong boards.

With STEPPER_PORT in the environment the contract tests a real board: clear its rail first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from stepper_stage.diagnostics import StepperDiagnostics
from stepper_stage.driver import StepperStage
from stepper_stage.emulator import VirtualStepper
from stepper_stage.protocol import signed
from stepper_stage.settings import StepperSettings

from macontrol.config.model.errors import ConfigError, StageError, StageLostError
from macontrol.testing import SerialStageContract, StageBench, StageDesk, emulated_bench

REAL_PORT = os.environ.get("STEPPER_PORT")
CLOCK = SerialStageContract.clock
INFO = "stepper-1 rail-1 12500 8000 8000 160000 4000"
"""A rail of 100 mm."""


class TestContract(SerialStageContract):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def patient(cls) -> Iterator[None]:
        """On a busy computer the emulated board may not answer for a second."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("stepper_stage.session._ANSWER_S", 3.0)
            patch.setattr("stepper_stage.driver.SILENCE_S", 10.0)
            patch.setattr("macontrol.hal.serial.position.SILENCE_S", 10.0)
            yield

    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls) -> Iterator[StageBench]:
        """The board that the rules share; the emulated one has a short rail."""
        if REAL_PORT:
            bench = StageBench(StepperSettings(port=REAL_PORT, homing="allow"))
            yield bench
            bench.close()
            return
        with VirtualStepper(CLOCK, travel=3200, homing_speed=16_000) as board:
            bench = StageBench(StepperSettings(port=board.port, homing="allow"), board)
            yield bench
            bench.close()


def test_the_preset_fits_the_emulated_board() -> None:
    with emulated_bench("stepper") as bench:
        stage = bench.new_stage()
        assert stage.description.travel_mm == pytest.approx(295.0)
        assert stage.move_to(2.5, bench.soon()).arrived
        assert bench.carriage_mm() == pytest.approx(2.5)
        stage.close()


# -- Dialogues ------------------------------------------------------------------------------------


class Desk(StageDesk[StepperStage]):
    """A scripted board and the stage on it. Message numbers count up."""

    def __init__(self, info: str = INFO, **settings: Any) -> None:
        self.number = 0
        super().__init__(StepperStage, StepperSettings(**settings), opens=3)
        self.expect("", "ok unhomed 0")
        self.expect("stop", "ok unhomed 0")
        self.expect("info", f"ok unhomed 0 {info}")

    def expect(self, command: str, *answers: str | bytes) -> None:
        """Continue the script: the next command, and its answers."""
        self.number = self.number % 99 + 1 if command else 0
        replies = [
            each if isinstance(each, bytes) else signed(f"{self.number} {each}")[:-1]
            for each in answers
        ]
        if command:
            self.line.append((signed(f"{self.number} {command}"), replies))
        else:
            self.line.extend((b"", replies))

    def connect(self) -> None:
        for _ in range(8):
            self.expect("status", "ok unhomed 0")
        self.stage.connect(self.soon())

    def home(self) -> None:
        self.connect()
        self.expect("home", "ok homing 0")
        self.expect("status", "ok homing -250")
        self.expect("status", "ok idle 0")
        self.stage.home(self.soon())


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(homing="allow")
    desk.home()
    yield desk
    desk.line.assert_consumed()


def test_a_move_is_followed_until_the_board_is_idle(desk: Desk) -> None:
    desk.expect("status", "ok idle 0")
    desk.expect("move 200 8000", "ok moving 0")
    for position in (30, 140, 199):
        desk.expect("status", f"ok moving {position}")
    desk.expect("status", "ok idle 200")
    arrival = desk.stage.move_to(2.5, desk.soon())
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(2.5)


@pytest.mark.parametrize("answer", [(), (b"2 ok mov*1234",), (b"\xff\x00", b"99 ok idle 0")])
def test_a_move_whose_answer_is_spoilt_is_followed_too(
    desk: Desk, answer: tuple[bytes, ...]
) -> None:
    desk.expect("status", "ok idle 0")
    desk.expect("move 200 8000", *answer)
    desk.expect("status", "ok idle 200")
    assert desk.stage.move_to(2.5, desk.soon()).position_mm == pytest.approx(2.5)


def test_a_move_that_did_not_reach_the_board_is_an_error(desk: Desk) -> None:
    desk.expect("status", "ok idle 0")
    desk.expect("move 200 8000")
    desk.expect("status", "ok idle 0")
    with pytest.raises(StageError):
        desk.stage.move_to(2.5, desk.soon())
    desk.expect("status", "ok idle 0")
    assert desk.stage.where(desk.soon()).position_mm == 0.0


@pytest.mark.parametrize("state", ["unhomed 0", "fault 30", "homing 30"])
def test_a_board_without_a_known_position_is_lost(desk: Desk, state: str) -> None:
    desk.expect("status", f"ok {state}")
    with pytest.raises(StageLostError):
        desk.stage.move_to(2.5, desk.soon())
    with pytest.raises(StageLostError):  # and nothing is sent
        desk.stage.move_to(2.5, desk.soon())


def test_a_restart_that_is_announced_loses_the_stage(desk: Desk) -> None:
    desk.expect("status", b"0 ok unhomed 0" + signed("0 ok unhomed 0")[-6:-1])
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())


def test_a_board_that_was_moved_meanwhile_does_not_move(desk: Desk) -> None:
    desk.expect("status", "ok idle 400")
    with pytest.raises(StageError):
        desk.stage.move_to(2.5, desk.soon())


def test_the_speed_of_the_config_is_sent() -> None:
    desk = Desk(homing="allow", speed_mm_per_s=50.0)
    desk.home()
    desk.expect("status", "ok idle 0")
    desk.expect("move 200 4000", "ok moving 0")
    desk.expect("status", "ok idle 200")
    assert desk.stage.move_to(2.5, desk.soon()).arrived
    assert desk.stage.description.speed_mm_per_s == 50.0


@pytest.mark.parametrize("end", ["fault -24400", "unhomed -100", "idle 7"])
def test_a_homing_without_a_result_fails(end: str) -> None:
    desk = Desk(homing="allow")
    desk.connect()
    desk.expect("home", "ok homing 0")
    desk.expect("status", f"ok {end}")
    desk.expect("stop", f"ok {end}")
    with pytest.raises(StageError):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed


@pytest.mark.parametrize(
    ("info", "settings", "error"),
    [
        (INFO, {"board": "rail-2"}, ConfigError),
        (INFO, {"travel_mm": 120.0}, ConfigError),
        (INFO, {"speed_mm_per_s": 120.0}, ConfigError),
        (INFO.replace("stepper-1", "stepper-2"), {}, StageError),
        ("grbl", {}, StageError),
    ],
)
def test_a_board_that_does_not_fit_is_refused(
    info: str, settings: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Desk(info, **settings).stage.connect(Desk().soon())


def test_a_homing_direction_that_the_board_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError):
        Desk(homing_direction="positive").stage.connect(Desk().soon())


def test_the_checkup_names_the_board_and_its_fault() -> None:
    checkup = StepperDiagnostics(StepperSettings())
    assert (checkup.board, checkup.problem()) == ("", None)
    checkup.log(">", signed("1 info"))
    checkup.log("<", signed(f"1 ok idle 0 {INFO}"))
    assert checkup.board == "stepper board rail-1 stepper-1"
    assert checkup.problem() is None
    checkup.log("<", signed("2 ok fault 3"))
    assert checkup.problem() is not None
