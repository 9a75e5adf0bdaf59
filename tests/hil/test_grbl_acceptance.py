"""The acceptance suite of the GRBL driver: what any board behind a port must let it do.

By default it runs against the virtual board, in both dialects. With MACONTROL_STAGE_PORT set it
runs against the board at that port instead. That board is homed and moved over its whole travel:
clear the rail first. MACONTROL_STAGE_AXIS names its axis (X by default), and
MACONTROL_STAGE_DEADLINE how many seconds any one step may take (60 by default).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from grbl_bench import stage_settings

from macontrol.config.stage_settings import StageSettings
from macontrol.controller.clock import WallClock
from macontrol.hal import Arrival, StageError, StageLostError
from macontrol.hal.grbl import GrblStage
from macontrol.hal.serial_line import LineError
from macontrol.sim.boards.grbl import VirtualGrbl

PORT = os.environ.get("MACONTROL_STAGE_PORT")
AXIS = os.environ.get("MACONTROL_STAGE_AXIS", "X")
DEADLINE_S = float(os.environ.get("MACONTROL_STAGE_DEADLINE", "60"))
CLOCK = WallClock()


@dataclass
class Bench:
    settings: StageSettings
    board: VirtualGrbl | None
    traffic: list[tuple[str, bytes]]

    def stage(self) -> GrblStage:
        return GrblStage(
            self.settings, CLOCK, log=lambda way, data: self.traffic.append((way, data))
        )


def soon(seconds: float = DEADLINE_S) -> float:
    return CLOCK.now() + seconds


@pytest.fixture(scope="module", params=["port"] if PORT else ["grbl", "grblhal"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if PORT:
        yield Bench(stage_settings(PORT, axis=AXIS, homing_time_s=2 * DEADLINE_S), None, [])
        return
    with VirtualGrbl(CLOCK, dialect=request.param, distance_mm=20.0) as board:
        yield Bench(stage_settings(board.port), board, [])


@pytest.fixture(scope="module")
def homed(bench: Bench) -> Iterator[GrblStage]:
    """A stage that is connected and homed once for all tests."""
    stage = bench.stage()
    try:
        stage.connect(soon())
        stage.home(soon(2 * DEADLINE_S))
        yield stage
    finally:
        stage.close()


@pytest.fixture
def stage(homed: GrblStage) -> GrblStage:
    """The stage, brought back if the test before has left it lost."""
    homed.recover(soon(2 * DEADLINE_S))
    wait_for_rest(homed)
    return homed


def wait_for_rest(stage: GrblStage) -> Arrival:
    deadline = soon()
    while not (arrival := stage.where(soon())).arrived:
        assert CLOCK.now() < deadline, "it never came to rest"
        CLOCK.sleep_until(CLOCK.now() + 0.05)
    return arrival


def check_true_position(bench: Bench, stage: GrblStage, position_mm: float) -> None:
    """On the virtual board the carriage itself can be looked at."""
    if bench.board is not None:
        true = bench.board.position_at(CLOCK.now())
        assert true == pytest.approx(position_mm, abs=2 * stage.description.step_mm)


def test_it_is_identified_and_its_settings_are_read(stage: GrblStage) -> None:
    identity, description = stage.identity, stage.description
    assert identity.dialect in ("Grbl", "GrblHAL", "grblHAL", "FluidNC")
    assert identity.version
    assert identity.settings[100 + "XYZABC".index(AXIS)] == pytest.approx(1 / description.step_mm)
    assert description.travel_mm > 0
    assert description.speed_mm_per_s > 0
    assert description.acceleration_mm_per_s2 > 0
    assert 0 < description.latency_s < DEADLINE_S


def test_the_port_is_taken(bench: Bench, stage: GrblStage) -> None:
    with pytest.raises(LineError, match="in use by another program"):
        bench.stage().connect(soon())
    assert stage.where(soon()).arrived


def test_it_goes_where_it_is_sent_and_says_so(bench: Bench, stage: GrblStage) -> None:
    travel, step = stage.description.travel_mm, stage.description.step_mm
    here = stage.where(soon()).position_mm
    for share in (0.1, 0.11, 0.105, 0.3, 0.0, 0.05):
        target = round(share * travel / step) * step
        begun = CLOCK.now()
        arrival = stage.move_to(target, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(target, abs=1e-6)
        # `ok` alone would come long before the motion is over.
        assert arrival.time_s - begun >= 0.9 * stage.description.motion_time_s(abs(target - here))
        check_true_position(bench, stage, target)
        here = target


def test_both_ends_of_the_rail_can_be_reached(bench: Bench, stage: GrblStage) -> None:
    for end in (stage.description.travel_mm, 0.0):
        arrival = stage.move_to(end, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(end, abs=1e-6)
        check_true_position(bench, stage, end)


def test_no_further(stage: GrblStage) -> None:
    for beyond in (-0.1, stage.description.travel_mm + 0.1, float("nan")):
        with pytest.raises(StageError, match="off the rail"):
            stage.move_to(beyond, soon())
    assert stage.where(soon()).arrived


def test_steps_of_one_are_taken(stage: GrblStage) -> None:
    step = stage.description.step_mm
    start = stage.move_to(round(10 / step) * step, soon()).position_mm
    for count in range(1, 6):
        arrival = stage.move_to(start + count * step, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(start + count * step, abs=1e-6)


def test_a_move_that_is_already_there_is_over_at_once(stage: GrblStage) -> None:
    here = stage.where(soon()).position_mm
    assert stage.move_to(here, soon()).arrived


def test_a_move_that_is_late_goes_on(stage: GrblStage) -> None:
    stage.move_to(0.0, soon())
    far = 0.9 * stage.description.travel_mm
    deadline = CLOCK.now() + 0.05
    arrival = stage.move_to(far, deadline)
    assert not arrival.arrived
    arrival = wait_for_rest(stage)
    assert arrival.position_mm == pytest.approx(far, abs=stage.description.step_mm)


def test_a_stop_keeps_the_position(bench: Bench, stage: GrblStage) -> None:
    stage.move_to(0.0, soon())
    far = 0.9 * stage.description.travel_mm
    assert not stage.move_to(far, CLOCK.now() + 0.3).arrived
    stage.stop()
    assert stage.is_homed
    arrival = wait_for_rest(stage)
    assert 0.0 <= arrival.position_mm < far
    check_true_position(bench, stage, arrival.position_mm)
    assert stage.move_to(5.0, soon()).position_mm == pytest.approx(5.0)
    check_true_position(bench, stage, 5.0)


def test_a_stop_at_rest_changes_nothing(stage: GrblStage) -> None:
    before = stage.where(soon()).position_mm
    stage.stop()
    assert stage.is_homed
    assert stage.where(soon()).position_mm == before


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


def test_a_refused_line_does_not_stand_in_the_way_for_good(stage: GrblStage) -> None:
    stage.move_to(2.0, soon())
    stage._send(b"Q1\n", answers=1)  # as if noise had spoilt a line on its way to the board
    while stage._owed:
        assert stage._next(soon()) is not None
    with contextlib.suppress(StageError):  # grblHAL refuses the next line as well
        stage.move_to(4.0, soon())
    assert stage.where(soon()).arrived
    assert stage.move_to(5.0, soon()).position_mm == pytest.approx(5.0)


def test_a_reset_by_another_hand_loses_the_stage_until_it_is_homed(stage: GrblStage) -> None:
    stage.move_to(3.0, soon())
    stage._send(b"\x18")
    with pytest.raises(StageLostError, match="reset in mid-run"):
        wait_for_alarm(stage)
    with pytest.raises(StageLostError):
        stage.move_to(5.0, soon())
    stage.recover(soon(2 * DEADLINE_S))
    assert stage.where(soon()).position_mm == pytest.approx(0.0)


def test_homing_again_ends_where_it_ended_before(bench: Bench, stage: GrblStage) -> None:
    stage.move_to(7.0, soon())
    stage.home(soon(2 * DEADLINE_S))
    assert stage.where(soon()).position_mm == 0.0
    check_true_position(bench, stage, 0.0)


def test_a_stage_that_was_closed_is_connected_again_and_is_not_homed(
    bench: Bench, stage: GrblStage
) -> None:
    stage.close()
    stage.connect(soon())
    assert not stage.is_homed
    with pytest.raises(StageError, match="not homed"):
        stage.move_to(1.0, soon())
    stage.home(soon(2 * DEADLINE_S))
    assert stage.move_to(1.0, soon()).arrived


def test_every_motion_that_was_sent_was_on_the_rail(bench: Bench, stage: GrblStage) -> None:
    """Comes last: looks back over everything this suite has sent through the driver."""
    low = min(stage._to_machine(0.0), stage._to_machine(stage.description.travel_mm))
    high = max(stage._to_machine(0.0), stage._to_machine(stage.description.travel_mm))
    moves = [
        float(data.split(AXIS.encode())[1].split(b"F")[0])
        for way, data in bench.traffic
        if way == ">" and data.endswith(b"G4P0\n")
    ]
    assert moves
    assert all(low - 1e-3 <= target <= high + 1e-3 for target in moves)
