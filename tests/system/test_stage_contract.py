"""Every registered serial stage keeps the contract of `macontrol.testing`.

See support/stage_benches.py for the boards, and for how to run it against a real one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from macontrol.config.model.errors import OffRailError
from macontrol.hal import Stage
from macontrol.hal.serial.stage import SerialStage
from macontrol.testing import SerialStageContract, StageBench
from support.stage_benches import BENCHES, DEADLINE_S, open_bench

pytestmark = pytest.mark.any_user


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """On a busy machine a board may not answer for a second; other tests cover silence."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("macontrol.hal.") and hasattr(module, "SILENCE_S"):
                patch.setattr(module, "SILENCE_S", 10.0)
        yield


class TestSerialStages(SerialStageContract):
    """Rules about faults are repeated here, with the marks of these faults."""

    deadline_s = DEADLINE_S

    @pytest.fixture(scope="class", params=BENCHES)
    @classmethod
    def bench(cls, request: pytest.FixtureRequest) -> Iterator[StageBench]:
        with open_bench(request.param) as bench:
            yield bench

    def test_homing_needs_permission(self, bench: StageBench, stage: SerialStage) -> None:
        bench.traffic.clear()
        super().test_homing_needs_permission(bench, stage)
        sent = [data for way, data in bench.traffic if way == ">"]
        assert sent
        assert not [data for data in sent if b"$H" in data or b"home" in data]

    @pytest.mark.fault("port-in-use")
    def test_the_port_has_one_owner(self, bench: StageBench, stage: SerialStage) -> None:
        super().test_the_port_has_one_owner(bench, stage)

    @pytest.mark.fault("guard")
    def test_positions_off_the_rail_are_refused(self, stage: SerialStage) -> None:
        for beyond in (-0.1, stage.description.travel_mm + 0.1, float("nan")):
            with pytest.raises(OffRailError):
                stage.move_to(beyond, self.soon())
        assert stage.where(self.soon()).arrived

    @pytest.mark.fault("one-motion-in-flight")
    def test_a_late_move_continues(self, stage: Stage) -> None:
        super().test_a_late_move_continues(stage)

    @pytest.mark.fault("stop-keeps-position")
    def test_the_position_after_a_stop_is_true(self, stage: Stage) -> None:
        super().test_the_position_after_a_stop_is_true(stage)

    @pytest.mark.fault("claims-homed")
    def test_a_stage_that_is_connected_again_is_not_homed(self, stage: SerialStage) -> None:
        super().test_a_stage_that_is_connected_again_is_not_homed(stage)
