"""The acceptance suite of the Zaber driver: what any device behind a port must let it do.

By default it runs against the virtual device. With MACONTROL_ZABER_PORT and
MACONTROL_ZABER_MICROSTEP_MM set it runs against the device at that port instead. That device is
homed and moved over its whole travel: clear the rail first. MACONTROL_STAGE_DEADLINE says how
many seconds any one step may take (60 by default).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from zaber_bench import zaber_settings

from macontrol.config.stage_settings import StageSettings
from macontrol.controller.clock import WallClock
from macontrol.hal import Arrival, StageError
from macontrol.hal.serial_line import LineError
from macontrol.hal.slot_plan import plan_slot
from macontrol.hal.zaber import ZaberStage
from macontrol.sim.boards.zaber import MICROSTEP_MM, VirtualZaber

PORT = os.environ.get("MACONTROL_ZABER_PORT")
PORT_MICROSTEP_MM = float(os.environ.get("MACONTROL_ZABER_MICROSTEP_MM", "nan"))
DEADLINE_S = float(os.environ.get("MACONTROL_STAGE_DEADLINE", "60"))
CLOCK = WallClock()


@dataclass
class Bench:
    settings: StageSettings
    device: VirtualZaber | None
    traffic: list[tuple[str, bytes]]

    def stage(self) -> ZaberStage:
        return ZaberStage(
            self.settings, CLOCK, log=lambda way, data: self.traffic.append((way, data))
        )


def soon(seconds: float = DEADLINE_S) -> float:
    return CLOCK.now() + seconds


@pytest.fixture(scope="module", params=["port"] if PORT else ["quiet", "alerting"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if PORT:
        yield Bench(zaber_settings(PORT, microstep_mm=PORT_MICROSTEP_MM), None, [])
        return
    settings = {"comm.alert": float(request.param == "alerting"), "limit.max": 120_000.0}
    with VirtualZaber(CLOCK, settings=settings, distance_mm=20.0) as device:
        yield Bench(zaber_settings(device.port, microstep_mm=MICROSTEP_MM), device, [])


@pytest.fixture(scope="module")
def homed(bench: Bench) -> Iterator[ZaberStage]:
    """A stage that is connected and homed once for all tests."""
    stage = bench.stage()
    try:
        stage.connect(soon())
        stage.home(soon(2 * DEADLINE_S))
        yield stage
    finally:
        stage.close()


@pytest.fixture
def stage(homed: ZaberStage) -> ZaberStage:
    """The stage, brought back if the test before has left it lost."""
    homed.recover(soon(2 * DEADLINE_S))
    wait_for_rest(homed)
    return homed


def wait_for_rest(stage: ZaberStage) -> Arrival:
    deadline = soon()
    while not (arrival := stage.where(soon())).arrived:
        assert CLOCK.now() < deadline, "it never came to rest"
        CLOCK.sleep_until(CLOCK.now() + 0.02)
    return arrival


def whole_steps(stage: ZaberStage, position_mm: float) -> float:
    step = stage.description.step_mm
    return round(position_mm / step) * step


def check_true_position(bench: Bench, position_mm: float) -> None:
    """On the virtual device the carriage itself can be looked at."""
    if bench.device is not None:
        true = bench.device.position_at(CLOCK.now())
        assert true == pytest.approx(position_mm, abs=2 * MICROSTEP_MM)


def test_it_is_identified_and_its_settings_are_read(stage: ZaberStage) -> None:
    identity, description = stage.identity, stage.description
    assert int(identity.firmware.split(".")[0]) >= 6
    assert identity.serial > 0
    assert description.travel_mm > 0
    assert description.speed_mm_per_s > 0
    assert description.acceleration_mm_per_s2 > 0
    assert 0 < description.latency_s < 0.5


def test_its_answers_carry_checksums(bench: Bench, stage: ZaberStage) -> None:
    before = len(bench.traffic)
    stage.where(soon())
    heard = b"".join(data for way, data in bench.traffic[before:] if way == "<")
    assert heard[-5:-4] == b":"


def test_the_port_is_taken(bench: Bench, stage: ZaberStage) -> None:
    with pytest.raises(LineError, match="in use by another program"):
        bench.stage().connect(soon())
    assert stage.where(soon()).arrived


def test_it_goes_where_it_is_sent_and_says_so(bench: Bench, stage: ZaberStage) -> None:
    travel = stage.description.travel_mm
    here = stage.where(soon()).position_mm
    for share in (0.1, 0.11, 0.105, 0.3, 0.0, 0.05):
        target = whole_steps(stage, share * travel)
        begun = CLOCK.now()
        arrival = stage.move_to(target, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(target, abs=1e-6)
        # The reply alone would come long before the motion is over.
        assert arrival.time_s - begun >= 0.9 * stage.description.motion_time_s(abs(target - here))
        check_true_position(bench, target)
        here = target


def test_both_ends_of_the_rail_can_be_reached(bench: Bench, stage: ZaberStage) -> None:
    for end in (stage.description.travel_mm, 0.0):
        arrival = stage.move_to(end, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(end, abs=1e-6)
        check_true_position(bench, end)


def test_no_further(stage: ZaberStage) -> None:
    for beyond in (-0.1, stage.description.travel_mm + 0.1, float("nan")):
        with pytest.raises(StageError, match="off the rail"):
            stage.move_to(beyond, soon())
    assert stage.where(soon()).arrived


def test_single_microsteps_are_taken(stage: ZaberStage) -> None:
    step = stage.description.step_mm
    start = stage.move_to(whole_steps(stage, 10.0), soon()).position_mm
    for count in range(1, 6):
        arrival = stage.move_to(start + count * step, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(start + count * step, abs=1e-9)


def test_a_move_that_is_already_there_is_over_at_once(stage: ZaberStage) -> None:
    here = stage.where(soon()).position_mm
    assert stage.move_to(here, soon()).arrived


def test_a_move_that_is_late_goes_on(stage: ZaberStage) -> None:
    stage.move_to(0.0, soon())
    far = whole_steps(stage, 0.9 * stage.description.travel_mm)
    deadline = soon(0.05)
    assert not stage.move_to(far, deadline).arrived
    with pytest.raises(StageError, match="still busy"):
        stage.move_to(0.0, soon())
    assert wait_for_rest(stage).position_mm == pytest.approx(far, abs=1e-6)


def test_moves_of_a_planned_stroke_are_over_within_the_planned_time(stage: ZaberStage) -> None:
    """Most of them: a busy machine delays some."""
    stroke = whole_steps(stage, 2.0)
    plan = plan_slot(
        stage.description, actuation_time_s=10.0, slot_duration_s=20.0, stroke_mm=stroke
    )
    arrived = 0
    for slot in range(21):
        target = 10.0 * stroke if slot % 2 else 11.0 * stroke
        if slot == 0:
            stage.move_to(target, soon())
            continue
        arrived += stage.move_to(target, soon(plan.smallest_actuation_s)).arrived
        wait_for_rest(stage)
    assert arrived > 10, f"{arrived} of 20 within {plan.smallest_actuation_s:.4f} s"


def test_a_stop_keeps_the_position(bench: Bench, stage: ZaberStage) -> None:
    stage.move_to(0.0, soon())
    far = whole_steps(stage, 0.9 * stage.description.travel_mm)
    assert not stage.move_to(far, soon(0.5)).arrived
    stage.stop()
    assert stage.is_homed
    arrival = wait_for_rest(stage)
    assert 0.0 <= arrival.position_mm < far
    check_true_position(bench, arrival.position_mm)
    target = whole_steps(stage, 5.0)
    assert stage.move_to(target, soon()).position_mm == pytest.approx(target)
    check_true_position(bench, target)


def test_a_stop_at_rest_changes_nothing(stage: ZaberStage) -> None:
    before = stage.where(soon()).position_mm
    stage.stop()
    assert stage.is_homed
    assert stage.where(soon()).position_mm == before


def test_homing_again_ends_where_it_ended_before(bench: Bench, stage: ZaberStage) -> None:
    stage.move_to(7.0, soon())
    stage.home(soon(2 * DEADLINE_S))
    assert stage.where(soon()).position_mm == 0.0
    check_true_position(bench, 0.0)


def test_a_stage_that_was_closed_is_connected_again_and_is_not_homed(stage: ZaberStage) -> None:
    stage.close()
    stage.connect(soon())
    assert not stage.is_homed
    with pytest.raises(StageError, match="not homed"):
        stage.move_to(1.0, soon())
    stage.home(soon(2 * DEADLINE_S))
    assert stage.move_to(1.0, soon()).arrived


def test_every_motion_that_was_sent_was_within_the_limits(bench: Bench, stage: ZaberStage) -> None:
    """Comes last: looks back over everything this suite has sent."""
    stage.move_to(2.0, soon())
    sent = [data for way, data in bench.traffic if way == ">" and b"move" in data]
    targets = [int(data.split(b"move abs ")[1].split(b":")[0].split()[0]) for data in sent]
    assert targets
    assert all(stage.axis.low <= target <= stage.axis.high for target in targets)
