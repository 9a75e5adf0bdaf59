"""The contract of a serial stage: the rules of any stage, and those of `SerialStage`.

A subclass names its driver, and the rules use the emulator and the preset of that driver; or it
overrides the fixture `bench`, for example for a real board.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from macontrol.config.model.errors import (
    LineBusyError,
    StageError,
    StageLostError,
    StopRequestedError,
)
from macontrol.hal import Stage
from macontrol.hal.serial.stage import SerialStage
from macontrol.testing.stage_bench import StageBench, emulated_bench
from macontrol.testing.stage_contract import StageContract
from macontrol.testing.stage_subject import await_rest


class SerialStageContract(StageContract):
    """The rules of a stage that is built from the parts in `hal.serial`."""

    driver: str = ""
    """The stage, as `stage.driver` names it."""

    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls) -> Iterator[StageBench]:
        """The board that the rules share."""
        with emulated_bench(cls.driver) as bench:
            yield bench

    @pytest.fixture
    def stage(self, bench: StageBench) -> SerialStage:
        self._bench = bench
        return bench.ready_stage()

    def make(self) -> SerialStage:
        return self._bench.new_stage()

    def carriage_mm(self, stage: Stage) -> float | None:
        return None if self._bench.board is None else self._bench.carriage_mm()

    def lose(self, stage: Stage) -> bool:
        stage.close()
        return True

    # -- Connecting ---------------------------------------------------------------------------

    def test_nothing_is_known_before_it_is_connected(self, bench: StageBench) -> None:
        stage = bench.stage()
        with pytest.raises(StageError) as error:
            _ = stage.description
        assert error.value.fix == "connect first"
        with pytest.raises(StageLostError):
            stage.move_to(0.0, self.soon())
        stage.stop()
        stage.close()

    def test_the_identity_has_named_parts(self, stage: SerialStage) -> None:
        assert {"firmware", "settings"} <= stage.identity_parts.keys()
        assert all(stage.identity_parts.values())

    def test_the_quickest_answers_give_the_least_latency(self, stage: SerialStage) -> None:
        assert stage.answer_times.samples
        assert 0 < stage.quickest_description.latency_s <= stage.description.latency_s

    def test_the_port_has_one_owner(self, bench: StageBench, stage: SerialStage) -> None:
        with pytest.raises(LineBusyError):
            bench.stage().connect(self.soon())
        assert stage.where(self.soon()).arrived

    # -- Homing -------------------------------------------------------------------------------

    def test_homing_needs_permission(self, bench: StageBench, stage: SerialStage) -> None:
        stage.close()  # the port has one owner
        before = None if bench.board is None else bench.carriage_mm()
        asks = bench.stage(may_home=False, homing="ask")
        try:
            asks.connect(self.soon())
            with pytest.raises(StageError) as error:
                asks.home(self.soon())
            assert "--yes" in error.value.fix
            assert not asks.is_homed
        finally:
            asks.close()
        if before is not None:
            assert bench.carriage_mm() == before

    def test_a_stop_request_ends_a_homing(self, stage: SerialStage) -> None:
        stage.move_to(self.at(stage, 0.5), self.soon())
        with pytest.raises(StopRequestedError):
            stage.home(self.soon(2 * self.deadline_s), lambda: False)
        assert not stage.is_homed
        with pytest.raises(StageLostError):
            stage.move_to(0.0, self.soon())

    def test_homing_again_ends_at_the_same_place(self, stage: SerialStage) -> None:
        stage.home(self.soon(2 * self.deadline_s))
        home = stage.where(self.soon()).position_mm
        stage.move_to(self.at(stage, 0.2), self.soon())
        stage.home(self.soon(2 * self.deadline_s))
        assert stage.where(self.soon()).position_mm == home
        self.require_at(stage, home)

    def test_a_stage_that_is_connected_again_is_not_homed(self, stage: SerialStage) -> None:
        target = self.at(stage, 0.05)
        stage.close()
        stage.connect(self.soon())
        assert not stage.is_homed
        with pytest.raises(StageError):
            stage.move_to(target, self.soon())
        stage.home(self.soon(2 * self.deadline_s))
        assert stage.move_to(target, self.soon()).arrived

    # -- Moves --------------------------------------------------------------------------------

    def test_reports_are_exact(self, stage: SerialStage) -> None:
        for share in (0.1, 0.105, 0.3, 0.0, 1.0):
            target = self.at(stage, share)
            assert stage.move_to(target, self.soon()).position_mm == pytest.approx(target, abs=1e-6)

    def test_single_steps_are_possible(self, stage: SerialStage) -> None:
        step = stage.description.step_mm
        start = stage.move_to(self.at(stage, 0.2), self.soon()).position_mm
        for count in range(1, 6):
            arrival = stage.move_to(start + count * step, self.soon())
            assert arrival.arrived
            assert arrival.position_mm == pytest.approx(start + count * step, abs=1e-6)

    def test_a_stop_keeps_it_homed(self, stage: SerialStage) -> None:
        self.depart(stage)
        for _ in range(2):
            stage.stop()
            assert stage.is_homed, "a stop must keep the position"
            await_rest(stage, self.clock, self.deadline_s)
