"""What a GRBL board or a Zaber device does beyond the contract of a stage.

See support/stage_benches.py for the boards, and for how to run it against a real one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from macontrol.config.model.errors import StageBusyError, StageError, StageLostError
from macontrol.hal.serial.stage import SerialStage
from macontrol.hal.slot_plan import plan_slot
from macontrol.hal.stages.grbl.driver import GrblStage
from macontrol.hal.stages.zaber.driver import ZaberStage
from macontrol.testing import StageBench
from support.stage_benches import (
    AXIS,
    CLOCK,
    DEADLINE_S,
    GRBL,
    ZABER,
    await_rest,
    homed_stage,
    open_bench,
    ready,
    soon,
    whole_steps,
)

only_grbl = pytest.mark.parametrize("bench", GRBL, indirect=True, scope="module")
only_zaber = pytest.mark.parametrize("bench", ZABER, indirect=True, scope="module")
pytestmark = pytest.mark.any_user


@pytest.fixture(scope="module")
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


@only_grbl
def test_a_grbl_board_is_identified_and_its_settings_are_read(stage: GrblStage) -> None:
    identity = stage.handshake.identity
    assert identity.dialect in ("Grbl", "GrblHAL", "grblHAL", "FluidNC")
    assert identity.version
    steps_per_mm = identity.settings[100 + "XYZABC".index(AXIS)]
    assert steps_per_mm == pytest.approx(1 / stage.description.step_mm)


@pytest.mark.fault("soft-limit-alarm")
@only_grbl
def test_a_soft_limit_alarm_is_cleared_by_a_recovery(stage: GrblStage) -> None:
    if not stage.handshake.identity.settings.get(20):
        pytest.skip("the board's soft limits are off ($20=0)")
    stage.move_to(0.0, soon())
    # Past the driver: the board itself must refuse this, and lock itself.
    stage.session.send(
        f"G21G90G53G1{AXIS}{-10 * stage.handshake.axis.travel_mm:.1f}F60\n".encode(), answers=1
    )
    with pytest.raises(StageLostError, match=r"soft limits|locked"):
        read_until_alarm(stage)
    assert not stage.is_homed
    with pytest.raises(StageLostError):
        stage.move_to(1.0, soon())
    stage.recover(soon(2 * DEADLINE_S))
    assert stage.is_homed
    assert stage.move_to(1.0, soon()).arrived


def read_until_alarm(stage: GrblStage) -> None:
    deadline = soon()
    while CLOCK.now() < deadline:
        stage.session.next_report(deadline)


@pytest.mark.fault("command-rejected")
@only_grbl
def test_after_a_refused_line_moves_work_again(stage: GrblStage) -> None:
    stage.move_to(2.0, soon())
    stage.session.send(b"Q1\n", answers=1)  # as if noise had garbled a line
    while stage.session.owed:
        assert stage.session.next_report(soon()) is not None
    with contextlib.suppress(StageError):  # grblHAL refuses the next line as well
        stage.move_to(4.0, soon())
    assert stage.where(soon()).arrived
    assert stage.move_to(5.0, soon()).position_mm == pytest.approx(5.0)


@pytest.mark.fault("soft-limit-alarm")
@only_grbl
def test_a_reset_by_another_program_loses_the_stage_until_it_is_homed(stage: GrblStage) -> None:
    stage.move_to(3.0, soon())
    stage.session.send(b"\x18")
    with pytest.raises(StageLostError, match="reset during the run"):
        read_until_alarm(stage)
    with pytest.raises(StageLostError):
        stage.move_to(5.0, soon())
    stage.recover(soon(2 * DEADLINE_S))
    assert stage.where(soon()).position_mm == pytest.approx(0.0)


@pytest.mark.fault("guard")
@only_grbl
def test_every_motion_sent_to_a_grbl_board_was_on_the_rail(
    bench: StageBench, stage: GrblStage
) -> None:
    """Last in this file: checks everything that the driver has sent in it."""
    stage.move_to(2.0, soon())
    low = min(
        stage._position.coordinates.to_board(0.0),
        stage._position.coordinates.to_board(stage.description.travel_mm),
    )
    high = max(
        stage._position.coordinates.to_board(0.0),
        stage._position.coordinates.to_board(stage.description.travel_mm),
    )
    moves = [
        float(data.split(AXIS.encode())[1].split(b"F")[0])
        for way, data in bench.traffic
        if way == ">" and data.endswith(b"G4P0\n")
    ]
    assert moves
    assert all(low - 1e-3 <= target <= high + 1e-3 for target in moves)


@only_zaber
def test_a_zaber_device_is_identified(stage: ZaberStage) -> None:
    assert int(stage.handshake.identity.firmware.split(".")[0]) >= 6
    assert stage.handshake.identity.serial > 0


@only_zaber
def test_replies_have_checksums(bench: StageBench, stage: ZaberStage) -> None:
    before = len(bench.traffic)
    stage.where(soon())
    received = b"".join(data for way, data in bench.traffic[before:] if way == "<")
    assert received[-5:-4] == b":"


@only_zaber
def test_a_move_is_refused_during_another(stage: ZaberStage) -> None:
    stage.move_to(0.0, soon())
    assert not stage.move_to(whole_steps(stage, 20.0), soon(0.05)).arrived
    with pytest.raises(StageBusyError):
        stage.move_to(0.0, soon())


@only_zaber
def test_moves_of_a_planned_stroke_end_within_the_planned_time(stage: ZaberStage) -> None:
    """Most of them, while the computer is as busy as when the latency was measured."""
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
            await_rest(stage)
        if arrived > 5:
            return
        counts.append(f"{arrived} of 10 within {plan.smallest_actuation_s:.4f} s")
    pytest.fail("; ".join(counts))


@pytest.mark.fault("guard")
@only_zaber
def test_every_motion_sent_to_a_zaber_device_was_within_its_limits(
    bench: StageBench, stage: ZaberStage
) -> None:
    """Last in this file: checks everything that the driver has sent in it."""
    stage.move_to(2.0, soon())
    sent = [data for way, data in bench.traffic if way == ">" and b"move" in data]
    targets = [int(data.split(b"move abs ")[1].split(b":")[0].split()[0]) for data in sent]
    assert targets
    assert all(
        stage.handshake.axis.low <= target <= stage.handshake.axis.high for target in targets
    )
