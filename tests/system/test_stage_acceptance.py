"""The acceptance suite of the serial stages: what any board behind a port must let its driver do.

By default it runs against the emulated boards: GRBL in both dialects, Zaber with and without
alerts. Against a board of your own, which is homed and moved over its whole travel (clear the rail
first):

MACONTROL_STAGE_PORT is the port of a GRBL board, MACONTROL_STAGE_AXIS its axis (X by default);
MACONTROL_ZABER_PORT that of a Zaber device, MACONTROL_ZABER_MICROSTEP_MM its microstep;
MACONTROL_STAGE_DEADLINE how many seconds any one step may take (60 by default).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from macontrol.config.model.errors import LineError, StageError, StageLostError
from macontrol.config.sections.stage import StageSettings
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Arrival
from macontrol.hal.registry import STAGES
from macontrol.hal.serial.stage import SerialStage
from macontrol.hal.slot_plan import plan_slot
from macontrol.hal.stages.grbl.driver import GrblStage
from macontrol.hal.stages.zaber.driver import ZaberStage
from macontrol.sim.bench.boards.device import VirtualDevice
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.boards.zaber import MICROSTEP_MM, VirtualZaber
from support.scripted_stage import stage_settings
from support.scripted_zaber import zaber_settings

pytestmark = pytest.mark.any_user

GRBL_PORT = os.environ.get("MACONTROL_STAGE_PORT")
AXIS = os.environ.get("MACONTROL_STAGE_AXIS", "X")
ZABER_PORT = os.environ.get("MACONTROL_ZABER_PORT")
ZABER_MICROSTEP_MM = float(os.environ.get("MACONTROL_ZABER_MICROSTEP_MM", "nan"))
DEADLINE_S = float(os.environ.get("MACONTROL_STAGE_DEADLINE", "60"))
CLOCK = WallClock()

if GRBL_PORT or ZABER_PORT:
    GRBL = ["grbl-port"] if GRBL_PORT else []
    ZABER = ["zaber-port"] if ZABER_PORT else []
else:
    GRBL = ["grbl", "grblhal"]
    ZABER = ["zaber", "zaber-alerting"]

only_grbl = pytest.mark.parametrize("bench", GRBL, indirect=True, scope="module")
only_zaber = pytest.mark.parametrize("bench", ZABER, indirect=True, scope="module")


@dataclass
class Bench:
    settings: StageSettings
    board: VirtualDevice | None = None
    traffic: list[tuple[str, bytes]] = field(default_factory=list)

    def stage(self) -> SerialStage:
        return STAGES[self.settings.driver].make(
            self.settings,
            CLOCK,
            confirm_homing=lambda: True,
            log=lambda way, data: self.traffic.append((way, data)),
        )


def soon(seconds: float = DEADLINE_S) -> float:
    return CLOCK.now() + seconds


@pytest.fixture(scope="module", params=GRBL + ZABER)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "grbl-port":
        assert GRBL_PORT
        yield Bench(stage_settings(GRBL_PORT, axis=AXIS, homing_time_s=2 * DEADLINE_S))
    elif request.param == "zaber-port":
        assert ZABER_PORT
        yield Bench(zaber_settings(ZABER_PORT, microstep_mm=ZABER_MICROSTEP_MM))
    elif request.param in ("grbl", "grblhal"):
        with VirtualGrbl(CLOCK, dialect=request.param, distance_mm=20.0) as board:
            yield Bench(stage_settings(board.port), board)
    else:
        alert = float(request.param == "zaber-alerting")
        settings = {"comm.alert": alert, "limit.max": 120_000.0}
        with VirtualZaber(CLOCK, settings=settings, distance_mm=20.0) as device:
            yield Bench(zaber_settings(device.port, microstep_mm=MICROSTEP_MM), device)


@pytest.fixture(scope="module")
def homed(bench: Bench) -> Iterator[SerialStage]:
    """A stage that is connected and homed once for all tests."""
    stage = bench.stage()
    try:
        stage.connect(soon())
        stage.home(soon(2 * DEADLINE_S))
        yield stage
    finally:
        stage.close()


@pytest.fixture
def stage(homed: SerialStage) -> SerialStage:
    """The stage, brought back if the test before has left it lost."""
    homed.recover(soon(2 * DEADLINE_S))
    wait_for_rest(homed)
    return homed


def wait_for_rest(stage: SerialStage) -> Arrival:
    deadline = soon()
    while not (arrival := stage.where(soon())).arrived:
        assert CLOCK.now() < deadline, "it never came to rest"
        CLOCK.sleep_until(CLOCK.now() + 0.02)
    return arrival


def whole_steps(stage: SerialStage, position_mm: float) -> float:
    step = stage.description.step_mm
    return round(position_mm / step) * step


def check_true_position(bench: Bench, stage: SerialStage, position_mm: float) -> None:
    """On an emulated board the carriage itself can be looked at."""
    if bench.board is not None:
        true = bench.board.position_at(CLOCK.now())
        assert true == pytest.approx(position_mm, abs=2 * stage.description.step_mm)


# -- Any stage --------------------------------------------------------------------------------


def test_it_is_described(stage: SerialStage) -> None:
    description = stage.description
    assert description.travel_mm > 0
    assert description.speed_mm_per_s > 0
    assert description.acceleration_mm_per_s2 > 0
    assert 0 < description.latency_s < DEADLINE_S


@pytest.mark.fault("port-in-use")
def test_the_port_is_taken(bench: Bench, stage: SerialStage) -> None:
    with pytest.raises(LineError, match="in use by another program"):
        bench.stage().connect(soon())
    assert stage.where(soon()).arrived


def test_it_goes_where_it_is_sent_and_says_so(bench: Bench, stage: SerialStage) -> None:
    here = stage.where(soon()).position_mm
    for share in (0.1, 0.11, 0.105, 0.3, 0.0, 0.05):
        target = whole_steps(stage, share * stage.description.travel_mm)
        begun = CLOCK.now()
        arrival = stage.move_to(target, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(target, abs=1e-6)
        # The answer to the command alone would come long before the motion is over.
        assert arrival.time_s - begun >= 0.9 * stage.description.motion_time_s(abs(target - here))
        check_true_position(bench, stage, target)
        here = target


def test_both_ends_of_the_rail_can_be_reached(bench: Bench, stage: SerialStage) -> None:
    for end in (stage.description.travel_mm, 0.0):
        arrival = stage.move_to(end, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(end, abs=1e-6)
        check_true_position(bench, stage, end)


@pytest.mark.fault("guard")
def test_no_further(stage: SerialStage) -> None:
    for beyond in (-0.1, stage.description.travel_mm + 0.1, float("nan")):
        with pytest.raises(StageError, match="off the rail"):
            stage.move_to(beyond, soon())
    assert stage.where(soon()).arrived


def test_steps_of_one_are_taken(stage: SerialStage) -> None:
    step = stage.description.step_mm
    start = stage.move_to(whole_steps(stage, 10.0), soon()).position_mm
    for count in range(1, 6):
        arrival = stage.move_to(start + count * step, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(start + count * step, abs=1e-6)


def test_a_move_that_is_already_there_is_over_at_once(stage: SerialStage) -> None:
    here = stage.where(soon()).position_mm
    assert stage.move_to(here, soon()).arrived


@pytest.mark.fault("one-motion-in-flight")
def test_a_move_that_is_late_goes_on(stage: SerialStage) -> None:
    stage.move_to(0.0, soon())
    far = whole_steps(stage, 0.9 * stage.description.travel_mm)
    assert not stage.move_to(far, soon(0.05)).arrived
    assert wait_for_rest(stage).position_mm == pytest.approx(far, abs=1e-6)


@pytest.mark.fault("stop-keeps-position")
def test_a_stop_keeps_the_position(bench: Bench, stage: SerialStage) -> None:
    stage.move_to(0.0, soon())
    far = whole_steps(stage, 0.9 * stage.description.travel_mm)
    assert not stage.move_to(far, soon(0.3)).arrived
    stage.stop()
    assert stage.is_homed
    arrival = wait_for_rest(stage)
    assert 0.0 <= arrival.position_mm < far
    check_true_position(bench, stage, arrival.position_mm)
    target = whole_steps(stage, 5.0)
    assert stage.move_to(target, soon()).position_mm == pytest.approx(target)
    check_true_position(bench, stage, target)


def test_a_stop_at_rest_changes_nothing(stage: SerialStage) -> None:
    before = stage.where(soon()).position_mm
    stage.stop()
    assert stage.is_homed
    assert stage.where(soon()).position_mm == before


def test_homing_again_ends_where_it_ended_before(bench: Bench, stage: SerialStage) -> None:
    stage.move_to(7.0, soon())
    stage.home(soon(2 * DEADLINE_S))
    assert stage.where(soon()).position_mm == 0.0
    check_true_position(bench, stage, 0.0)


@pytest.mark.fault("claims-homed")
def test_a_stage_that_was_closed_is_connected_again_and_is_not_homed(stage: SerialStage) -> None:
    stage.close()
    stage.connect(soon())
    assert not stage.is_homed
    with pytest.raises(StageError, match="not homed"):
        stage.move_to(1.0, soon())
    stage.home(soon(2 * DEADLINE_S))
    assert stage.move_to(1.0, soon()).arrived


# -- GRBL -------------------------------------------------------------------------------------


@only_grbl
def test_a_grbl_board_is_identified_and_its_settings_are_read(stage: GrblStage) -> None:
    identity = stage.identity
    assert identity.dialect in ("Grbl", "GrblHAL", "grblHAL", "FluidNC")
    assert identity.version
    steps_per_mm = identity.settings[100 + "XYZABC".index(AXIS)]
    assert steps_per_mm == pytest.approx(1 / stage.description.step_mm)


@pytest.mark.fault("soft-limit-alarm")
@only_grbl
def test_a_soft_limit_alarm_is_cleared_by_the_right_handshake(stage: GrblStage) -> None:
    if not stage.identity.settings.get(20):
        pytest.skip("the board's soft limits are off ($20=0)")
    stage.move_to(0.0, soon())
    # Past the driver: the board itself must refuse this, and lock.
    stage._send(f"G21G90G53G1{AXIS}{-10 * stage.axis.travel_mm:.1f}F60\n".encode(), answers=1)
    with pytest.raises(StageLostError, match=r"soft limits|locked"):
        wait_for_alarm(stage)
    assert not stage.is_homed
    with pytest.raises(StageLostError):
        stage.move_to(1.0, soon())
    stage.recover(soon(2 * DEADLINE_S))
    assert stage.is_homed
    assert stage.move_to(1.0, soon()).arrived


def wait_for_alarm(stage: GrblStage) -> None:
    deadline = soon()
    while CLOCK.now() < deadline:
        stage._next(deadline)


@pytest.mark.fault("command-rejected")
@only_grbl
def test_a_refused_line_does_not_stand_in_the_way_for_good(stage: GrblStage) -> None:
    stage.move_to(2.0, soon())
    stage._send(b"Q1\n", answers=1)  # as if noise had spoilt a line on its way to the board
    while stage._owed:
        assert stage._next(soon()) is not None
    with contextlib.suppress(StageError):  # grblHAL refuses the next line as well
        stage.move_to(4.0, soon())
    assert stage.where(soon()).arrived
    assert stage.move_to(5.0, soon()).position_mm == pytest.approx(5.0)


@pytest.mark.fault("soft-limit-alarm")
@only_grbl
def test_a_reset_by_another_hand_loses_the_stage_until_it_is_homed(stage: GrblStage) -> None:
    stage.move_to(3.0, soon())
    stage._send(b"\x18")
    with pytest.raises(StageLostError, match="reset in mid-run"):
        wait_for_alarm(stage)
    with pytest.raises(StageLostError):
        stage.move_to(5.0, soon())
    stage.recover(soon(2 * DEADLINE_S))
    assert stage.where(soon()).position_mm == pytest.approx(0.0)


@pytest.mark.fault("guard")
@only_grbl
def test_every_motion_that_a_grbl_board_was_sent_was_on_the_rail(
    bench: Bench, stage: GrblStage
) -> None:
    """Comes last: looks back over everything this suite has sent through the driver."""
    stage.move_to(2.0, soon())
    low = min(stage._to_machine(0.0), stage._to_machine(stage.description.travel_mm))
    high = max(stage._to_machine(0.0), stage._to_machine(stage.description.travel_mm))
    moves = [
        float(data.split(AXIS.encode())[1].split(b"F")[0])
        for way, data in bench.traffic
        if way == ">" and data.endswith(b"G4P0\n")
    ]
    assert moves
    assert all(low - 1e-3 <= target <= high + 1e-3 for target in moves)


# -- Zaber ------------------------------------------------------------------------------------


@only_zaber
def test_a_zaber_device_is_identified(stage: ZaberStage) -> None:
    assert int(stage.identity.firmware.split(".")[0]) >= 6
    assert stage.identity.serial > 0


@only_zaber
def test_its_answers_carry_checksums(bench: Bench, stage: ZaberStage) -> None:
    before = len(bench.traffic)
    stage.where(soon())
    heard = b"".join(data for way, data in bench.traffic[before:] if way == "<")
    assert heard[-5:-4] == b":"


@only_zaber
def test_a_move_is_refused_while_another_is_under_way(stage: ZaberStage) -> None:
    stage.move_to(0.0, soon())
    assert not stage.move_to(whole_steps(stage, 20.0), soon(0.05)).arrived
    with pytest.raises(StageError, match="still busy"):
        stage.move_to(0.0, soon())


@only_zaber
def test_moves_of_a_planned_stroke_are_over_within_the_planned_time(stage: ZaberStage) -> None:
    """Most of them, once the computer is as busy as it was when the latency was measured."""
    counts: list[str] = []
    while len(counts) < 8:
        stage.close()
        stage.connect(soon())
        stage.recover(soon(2 * DEADLINE_S))
        stroke = whole_steps(stage, 2.0)
        plan = plan_slot(stage.description, actuation_time_s=10.0, stroke_mm=stroke)
        stage.move_to(11.0 * stroke, soon())
        arrived = 0
        for slot in range(10):
            target = 11.0 * stroke if slot % 2 else 10.0 * stroke
            arrived += stage.move_to(target, soon(plan.smallest_actuation_s)).arrived
            wait_for_rest(stage)
        if arrived > 5:
            return
        counts.append(f"{arrived} of 10 within {plan.smallest_actuation_s:.4f} s")
    pytest.fail("; ".join(counts))


@pytest.mark.fault("guard")
@only_zaber
def test_every_motion_that_a_zaber_device_was_sent_was_within_its_limits(
    bench: Bench, stage: ZaberStage
) -> None:
    """Comes last: looks back over everything this suite has sent."""
    stage.move_to(2.0, soon())
    sent = [data for way, data in bench.traffic if way == ">" and b"move" in data]
    targets = [int(data.split(b"move abs ")[1].split(b":")[0].split()[0]) for data in sent]
    assert targets
    assert all(stage.axis.low <= target <= stage.axis.high for target in targets)
