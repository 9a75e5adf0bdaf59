"""The contract of a serial stage: what every registered driver does with its board.

See support/stage_benches.py for the boards, and for how to run it against a real one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from macontrol.config.model.errors import (
    LineBusyError,
    StageError,
    StageLostError,
    StopRequestedError,
)
from macontrol.hal import Stage
from macontrol.hal.registry import STAGES
from macontrol.hal.serial.stage import SerialStage
from support.stage_benches import (
    BENCHES,
    CLOCK,
    DEADLINE_S,
    StageBench,
    await_rest,
    homed_stage,
    open_bench,
    ready,
    soon,
    whole_steps,
)

pytestmark = pytest.mark.any_user


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """On a busy machine a board may not answer for a second; other tests cover silence."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("macontrol.hal.") and hasattr(module, "SILENCE_S"):
                patch.setattr(module, "SILENCE_S", 10.0)
        yield


@pytest.fixture(scope="module", params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[StageBench]:
    with open_bench(request.param) as bench:
        yield bench


@pytest.fixture(scope="module")
def homed(bench: StageBench) -> Iterator[SerialStage]:
    """One stage for all tests on a bench."""
    with homed_stage(bench) as stage:
        yield stage


@pytest.fixture
def stage(homed: SerialStage) -> SerialStage:
    return ready(homed)


def test_it_has_the_methods_of_the_stage_protocol(stage: SerialStage) -> None:
    typed: Stage = stage  # checked by mypy
    for name in ("description", "homing_is_due", "move_to", "where", "stop", "recover", "close"):
        assert hasattr(typed, name)


def test_nothing_is_known_before_it_is_connected(bench: StageBench) -> None:
    stage = bench.stage()
    with pytest.raises(StageError) as error:
        _ = stage.description
    assert error.value.fix == "connect first"
    with pytest.raises(StageLostError):
        stage.move_to(0.0, soon())
    stage.stop()
    stage.close()


def test_the_identity_has_named_parts(stage: SerialStage) -> None:
    assert {"firmware", "settings"} <= stage.identity_parts.keys()
    assert all(stage.identity_parts.values())


def test_the_quickest_answers_give_the_least_latency(stage: SerialStage) -> None:
    assert stage.answer_times.samples
    assert 0 < stage.quickest_description.latency_s <= stage.description.latency_s


def test_homing_needs_permission(bench: StageBench, stage: SerialStage) -> None:
    stage.close()  # the port has one owner
    sent: list[bytes] = []
    asks = STAGES[bench.settings.driver].make(
        bench.settings.model_copy(update={"homing": "ask"}),
        CLOCK,
        log=lambda way, data: sent.append(data) if way == ">" else None,
        confirm_homing=lambda: False,
    )
    try:
        asks.connect(soon())
        with pytest.raises(StageError) as error:
            asks.home(soon())
        assert "--yes" in error.value.fix
        assert not asks.is_homed
    finally:
        asks.close()
    assert sent
    assert not [data for data in sent if b"$H" in data or b"home" in data]


def test_a_stop_request_ends_a_homing(stage: SerialStage) -> None:
    stage.move_to(whole_steps(stage, 0.5 * stage.description.travel_mm), soon())
    with pytest.raises(StopRequestedError):
        stage.home(soon(2 * DEADLINE_S), lambda: False)
    assert not stage.is_homed
    with pytest.raises(StageLostError):
        stage.move_to(0.0, soon())


def test_the_description_is_plausible(stage: SerialStage) -> None:
    description = stage.description
    assert description.travel_mm > 0
    assert description.speed_mm_per_s > 0
    assert description.acceleration_mm_per_s2 > 0
    assert 0 < description.latency_s < DEADLINE_S


@pytest.mark.fault("port-in-use")
def test_the_port_has_one_owner(bench: StageBench, stage: SerialStage) -> None:
    with pytest.raises(LineBusyError):
        bench.stage().connect(soon())
    assert stage.where(soon()).arrived


def test_moves_arrive_and_report_the_position(bench: StageBench, stage: SerialStage) -> None:
    here = stage.where(soon()).position_mm
    for share in (0.1, 0.11, 0.105, 0.3, 0.0, 0.05):
        target = whole_steps(stage, share * stage.description.travel_mm)
        start = CLOCK.now()
        arrival = stage.move_to(target, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(target, abs=1e-6)
        # The answer to the command alone would come long before the motion is over.
        assert arrival.time_s - start >= 0.9 * stage.description.motion.time_s(abs(target - here))
        bench.assert_true_position(stage, target)
        here = target


def test_both_ends_of_the_rail_can_be_reached(bench: StageBench, stage: SerialStage) -> None:
    for end in (stage.description.travel_mm, 0.0):
        arrival = stage.move_to(end, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(end, abs=1e-6)
        bench.assert_true_position(stage, end)


@pytest.mark.fault("guard")
def test_positions_off_the_rail_are_refused(stage: SerialStage) -> None:
    for beyond in (-0.1, stage.description.travel_mm + 0.1, float("nan")):
        with pytest.raises(StageError, match="off the rail"):
            stage.move_to(beyond, soon())
    assert stage.where(soon()).arrived


def test_single_steps_are_possible(stage: SerialStage) -> None:
    step = stage.description.step_mm
    start = stage.move_to(whole_steps(stage, 10.0), soon()).position_mm
    for count in range(1, 6):
        arrival = stage.move_to(start + count * step, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(start + count * step, abs=1e-6)


def test_a_move_to_the_present_position_arrives(stage: SerialStage) -> None:
    here = stage.where(soon()).position_mm
    assert stage.move_to(here, soon()).arrived


@pytest.mark.fault("one-motion-in-flight")
def test_a_late_move_continues(stage: SerialStage) -> None:
    stage.move_to(0.0, soon())
    far = whole_steps(stage, 0.9 * stage.description.travel_mm)
    assert not stage.move_to(far, soon(0.05)).arrived
    assert await_rest(stage).position_mm == pytest.approx(far, abs=1e-6)


@pytest.mark.fault("stop-keeps-position")
def test_a_stop_keeps_the_position(bench: StageBench, stage: SerialStage) -> None:
    stage.move_to(0.0, soon())
    far = whole_steps(stage, 0.9 * stage.description.travel_mm)
    assert not stage.move_to(far, soon(0.3)).arrived
    stage.stop()
    assert stage.is_homed
    arrival = await_rest(stage)
    assert 0.0 <= arrival.position_mm < far
    bench.assert_true_position(stage, arrival.position_mm)
    target = whole_steps(stage, 5.0)
    assert stage.move_to(target, soon()).position_mm == pytest.approx(target)
    bench.assert_true_position(stage, target)


def test_a_stop_at_rest_changes_nothing(stage: SerialStage) -> None:
    before = stage.where(soon()).position_mm
    stage.stop()
    assert stage.is_homed
    assert stage.where(soon()).position_mm == before


def test_homing_again_ends_at_the_same_place(bench: StageBench, stage: SerialStage) -> None:
    stage.move_to(7.0, soon())
    stage.home(soon(2 * DEADLINE_S))
    assert stage.where(soon()).position_mm == 0.0
    bench.assert_true_position(stage, 0.0)


@pytest.mark.fault("claims-homed")
def test_a_stage_that_is_connected_again_is_not_homed(stage: SerialStage) -> None:
    stage.close()
    stage.connect(soon())
    assert not stage.is_homed
    with pytest.raises(StageError, match="not homed"):
        stage.move_to(1.0, soon())
    stage.home(soon(2 * DEADLINE_S))
    assert stage.move_to(1.0, soon()).arrived
