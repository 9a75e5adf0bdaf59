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
        assert error.value.fix == "connect first", "the fix must be to connect first"
        with pytest.raises(StageLostError):
            stage.move_to(0.0, self.soon())
        stage.stop()
        stage.close()

    def test_the_identity_has_named_parts(self, stage: SerialStage) -> None:
        parts = stage.identity_parts
        assert {"firmware", "settings"} <= parts.keys(), "the identity has firmware and settings"
        assert all(parts.values()), "no part of the identity may be empty"

    def test_the_quickest_answers_give_the_least_latency(self, stage: SerialStage) -> None:
        assert stage.answer_times.samples, "connect must time the answers of the board"
        quickest_s, usual_s = stage.quickest_description.latency_s, stage.description.latency_s
        assert 0 < quickest_s <= usual_s, (
            f"the quickest answers must give the least latency, not {quickest_s:.3g} s where the "
            f"usual ones give {usual_s:.3g} s"
        )

    def test_the_port_has_one_owner(self, bench: StageBench, stage: SerialStage) -> None:
        with pytest.raises(LineBusyError):
            bench.stage().connect(self.soon())
        arrival = stage.where(self.soon())
        assert arrival.arrived, "another client of the port must not disturb the owner"

    # -- Homing -------------------------------------------------------------------------------

    def test_homing_needs_permission(self, bench: StageBench, stage: SerialStage) -> None:
        stage.close()  # the port has one owner
        before = None if bench.board is None else bench.carriage_mm()
        asks = bench.stage(may_home=False, homing="ask")
        try:
            asks.connect(self.soon())
            with pytest.raises(StageError) as error:
                asks.home(self.soon())
            assert "--yes" in error.value.fix, "the fix must name --yes"
            assert not asks.is_homed, "a stage that was not homed must not be homed"
        finally:
            asks.close()
        if before is not None:
            assert bench.carriage_mm() == before, "nothing may move without permission"

    def test_a_stop_request_ends_a_homing(self, stage: SerialStage) -> None:
        stage.move_to(self.at(stage, 0.5), self.soon())
        with pytest.raises(StopRequestedError):
            stage.home(self.soon(2 * self.deadline_s), lambda: False)
        assert not stage.is_homed, "a homing that was stopped must not give a position"
        with pytest.raises(StageLostError):
            stage.move_to(0.0, self.soon())

    def test_homing_again_ends_at_the_same_place(self, stage: SerialStage) -> None:
        stage.home(self.soon(2 * self.deadline_s))
        home = stage.where(self.soon()).position_mm
        stage.move_to(self.at(stage, 0.2), self.soon())
        stage.home(self.soon(2 * self.deadline_s))
        again = stage.where(self.soon()).position_mm
        assert again == home, f"homing must end at the same place: at {home} mm, then at {again} mm"
        self.require_at(stage, home)

    def test_a_stage_that_is_connected_again_is_not_homed(self, stage: SerialStage) -> None:
        target = self.at(stage, 0.05)
        stage.close()
        stage.connect(self.soon())
        assert not stage.is_homed, "a stage that is connected again must not be homed"
        with pytest.raises(StageError):
            stage.move_to(target, self.soon())
        stage.home(self.soon(2 * self.deadline_s))
        assert stage.move_to(target, self.soon()).arrived, "it must move after it was homed"

    # -- Moves --------------------------------------------------------------------------------

    def test_reports_are_exact(self, stage: SerialStage) -> None:
        for share in (0.1, 0.105, 0.3, 0.0, 1.0):
            target = self.at(stage, share)
            reported = stage.move_to(target, self.soon()).position_mm
            assert reported == pytest.approx(target, abs=1e-6), (
                f"a report must be exact: it is {reported} mm at {target} mm"
            )

    def test_single_steps_are_possible(self, stage: SerialStage) -> None:
        step = stage.description.step_mm
        start = stage.move_to(self.at(stage, 0.2), self.soon()).position_mm
        for count in range(1, 6):
            target = start + count * step
            arrival = stage.move_to(target, self.soon())
            assert arrival.arrived, f"a single step to {target} mm must arrive"
            assert arrival.position_mm == pytest.approx(target, abs=1e-6), (
                f"a single step must be possible: sent to {target} mm, it is at "
                f"{arrival.position_mm} mm"
            )

    def test_a_stop_keeps_it_homed(self, stage: SerialStage) -> None:
        self.depart(stage)
        for _ in range(2):
            stage.stop()
            assert stage.is_homed, "a stop must keep the position"
            await_rest(stage, self.clock, self.deadline_s)
