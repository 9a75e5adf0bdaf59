"""A plan that does not fit the stage is refused with values that do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from macontrol.bench_plan import check_plan, check_stage
from macontrol.config import Config, load_config
from macontrol.config.model.errors import ConfigError, SlotTooShortError, StageError
from macontrol.config.sections.stage import StageSettings
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.doctor.report import Finding, Report
from macontrol.doctor.stage import report_latency, report_slot
from macontrol.hal import StageDescription
from macontrol.hal.serial.latency import AnswerTimes, measure_until_stable
from macontrol.hal.stages.grbl.board import BoardIdentity
from macontrol.hal.stages.grbl.board import read_axis as read_grbl
from macontrol.hal.stages.grbl.settings import GrblSettings
from macontrol.hal.stages.zaber.device import DeviceIdentity
from macontrol.hal.stages.zaber.device import read_axis as read_zaber
from macontrol.sim.bench.boards.grbl.board import GUIDE_SETTINGS, VirtualGrbl
from macontrol.sim.bench.virtual import VirtualBench
from support.suggestions import suggestions

GUIDE = Path(__file__).parents[3] / "docs" / "build-a-bench.md"
RAIL = StageDescription(
    name="rail",
    travel_mm=296.0,
    step_mm=0.0125,
    speed_mm_per_s=200.0,
    acceleration_mm_per_s2=2000.0,
    latency_s=0.025,
    settling_s=0.01,
)
BOARD = BoardIdentity("Grbl", "1.1h", "V", dict(GUIDE_SETTINGS))
DEVICE = DeviceIdentity("7.38", 50081, 12345, 64, 0, 302362, 198150, 1981, 198150)


def lab(*assignments: str) -> Config:
    return load_config(preset="lab-2g4-grbl", assignments=assignments)


def follow(assignments: list[str], check: Any, preset: str = "lab-2g4-grbl") -> list[str]:
    """Apply what is suggested until nothing is refused; return what was applied."""
    applied: list[str] = []
    for _ in range(5):
        try:
            check(load_config(preset=preset, assignments=[*assignments, *applied]))
        except ConfigError as error:
            found = suggestions(str(error))
        else:
            return applied
        assert found, "no suggestion"
        assert not set(found[0]) & set(applied), "the same suggestion again"
        applied += found[0]
    raise AssertionError(f"still refused after {applied}")


SLOW = replace(RAIL, latency_s=0.0777)


LENGTH, TIME, INVERTED = "physical.region_length", "physical.actuation_time_s", "stage.inverted"
STROKE, GRID = "physical.stroke", "algorithm.grid_spacing"
LONG_SLOT = ["physical.actuation_time_s=0.15", "physical.slot_duration_s=0.3"]


@pytest.mark.fault("region-unreachable-inverted", "steps-too-coarse")
@pytest.mark.parametrize(
    ("key", "stage", "assignments"),
    [
        (LENGTH, RAIL, ["physical.region_length=2.4"]),
        (LENGTH, replace(RAIL, travel_mm=123.456), []),
        (LENGTH, RAIL, ["algorithm.grid_spacing=0.0072", "physical.region_length=2.4048"]),
        (TIME, SLOW, []),
        (TIME, SLOW, ["physical.stroke=auto"]),
        (TIME, SLOW, ["physical.stroke=0.0345"]),
        (TIME, SLOW, ["physical.command_latency_s=0.05", "physical.stroke=0.04"]),
        (TIME, SLOW, ["probe.lead_s=0.108"]),
        (TIME, replace(RAIL, speed_mm_per_s=17.3), []),
        (TIME, replace(RAIL, acceleration_mm_per_s2=33.3), []),
        (TIME, replace(RAIL, settling_s=0.9), []),
        (INVERTED, RAIL, ["stage.inverted=true", "physical.region_length=2"]),
        (
            INVERTED,
            replace(RAIL, step_mm=0.9),
            ["stage.inverted=true", "physical.region_length=2", "algorithm.grid_spacing=0.01"],
        ),
        (GRID, replace(RAIL, step_mm=1.0), []),
        (GRID, replace(RAIL, step_mm=2.4), []),
        (STROKE, replace(RAIL, travel_mm=299.0, step_mm=2.6), []),
        (STROKE, replace(RAIL, travel_mm=299.0, step_mm=2.6), LONG_SLOT),
    ],
)
def test_the_fix_of_a_refused_plan_is_accepted(
    key: str, stage: StageDescription, assignments: list[str]
) -> None:
    def check(config: Config) -> None:
        travel = config.stage.travel_mm
        usable = stage.travel_mm if travel == "auto" else min(travel, stage.travel_mm)
        steps = int(usable / stage.step_mm + 1e-9)
        check_plan(config, replace(stage, travel_mm=steps * stage.step_mm))

    with pytest.raises(ConfigError) as refusal:
        check(lab(*assignments))
    assert refusal.value.detail.startswith(f"{key}: ")
    assert follow(assignments, check)


@pytest.mark.fault("slot-plan-too-fast")
@pytest.mark.parametrize("choice", [0, 1])
def test_both_fixes_of_a_slot_that_is_too_short_are_accepted(choice: int) -> None:
    slow = replace(RAIL, latency_s=0.05)
    with pytest.raises(SlotTooShortError) as refusal:
        check_plan(lab(), slow)
    both = suggestions(refusal.value.fix)
    assert len(both) == 2
    check_plan(lab(*both[choice]), slow)
    check_plan(lab(*both[choice]), replace(slow, latency_s=slow.latency_s + 1e-3))


@pytest.mark.parametrize("assignment", ["stage.travel_mm=299", "stage.speed_mm_per_s=201"])
@pytest.mark.parametrize("odd", [{}, {110: 12000.07, 130: 299.12345678}])
def test_the_suggested_limit_of_a_board_is_accepted(
    assignment: str, odd: Mapping[int, float]
) -> None:
    board = replace(BOARD, settings={**BOARD.settings, **odd})

    def read(settings: StageSettings) -> None:
        assert isinstance(settings, GrblSettings)
        read_grbl(board, settings)

    assert follow([assignment], lambda config: read(config.stage))


@pytest.mark.parametrize("assignment", ["stage.travel_mm=299", "stage.speed_mm_per_s=201"])
def test_the_suggested_limit_of_a_device_is_accepted(assignment: str) -> None:
    applied = follow(
        [assignment], lambda config: read_zaber(DEVICE, config.stage), preset="lab-5g8-zaber"
    )
    assert applied


def test_the_guide_has_the_settings_of_the_virtual_board_and_the_preset_fits_them() -> None:
    shown = {
        int(number): float(value)
        for number, value in re.findall(r"`\$(\d+)=([\d.]+)`", GUIDE.read_text("utf-8"))
    }
    assert {**GUIDE_SETTINGS, **shown} == GUIDE_SETTINGS
    assert set(GUIDE_SETTINGS) <= set(shown)
    config = lab()
    with VirtualBench(config, VirtualClock(), seed=1) as bench:
        assert isinstance(bench.stage, VirtualGrbl)
        board = bench.stage.settings
        assert {number: board[number] for number in GUIDE_SETTINGS} == GUIDE_SETTINGS
        assert bench.stage.usable_mm == pytest.approx(296.0)
    assert isinstance(config.stage, GrblSettings)
    axis = read_grbl(BOARD, config.stage)
    assert config.rail_mm <= axis.usable_mm == pytest.approx(296.0)


def test_the_zaber_preset_fits_the_virtual_device() -> None:
    config = load_config(preset="lab-5g8-zaber")
    with VirtualBench(config, VirtualClock(), seed=1) as bench:
        assert config.rail_mm <= bench.stage.usable_mm <= 150.0


def test_the_virtual_rail_is_as_long_as_the_config_says() -> None:
    config = lab("stage.travel_mm=600", "stage.offset_mm=10", "physical.region_length=4.8")
    with VirtualBench(config, VirtualClock(), seed=1) as bench:
        assert bench.stage.usable_mm == pytest.approx(610.0)


class TestBusyComputer:
    """Only a plan that the board itself cannot keep is a config error."""

    def stage(self, usual_s: float, quickest_s: float, *, is_stable: bool = True) -> Any:
        return SimpleNamespace(
            description=replace(RAIL, latency_s=usual_s),
            quickest_description=replace(RAIL, latency_s=quickest_s),
            answer_times=AnswerTimes(is_stable=is_stable),
        )

    def test_a_plan_that_fits_is_accepted_even_if_the_answer_times_vary(self) -> None:
        assert check_stage(lab(), self.stage(0.025, 0.003, is_stable=False)).is_kept

    @pytest.mark.fault("computer-busy-while-timing")
    def test_a_plan_that_the_board_cannot_keep_is_a_config_error(self) -> None:
        with pytest.raises(ConfigError) as refusal:
            check_stage(lab(), self.stage(0.09, 0.08))
        assert refusal.value.exit_code == 78

    @pytest.mark.fault("computer-busy-while-timing")
    @pytest.mark.parametrize(("quickest_s", "is_stable"), [(0.02, True), (0.08, False)])
    def test_a_plan_that_only_a_busy_computer_cannot_keep_is_a_stage_error(
        self, quickest_s: float, is_stable: bool
    ) -> None:
        with pytest.raises(StageError) as refusal:
            check_stage(lab(), self.stage(0.09, quickest_s, is_stable=is_stable))
        assert refusal.value.exit_code == 69

    def test_a_rail_that_is_too_long_is_a_config_error_on_any_computer(self) -> None:
        with pytest.raises(ConfigError) as refusal:
            check_stage(lab("physical.region_length=2.4"), self.stage(0.09, 0.02, is_stable=False))
        assert refusal.value.detail.startswith("physical.region_length: ")


class TestDoctor:
    """The values that `check` suggests are accepted."""

    def findings(self, config: Config, latency_s: float) -> list[Finding]:
        found: list[Finding] = []
        stage: Any = SimpleNamespace(
            description=replace(RAIL, latency_s=latency_s),
            quickest_description=replace(RAIL, latency_s=latency_s),
            answer_times=AnswerTimes(((0.001, latency_s / 3),)),
        )
        report = Report(found.append)
        report_latency(config, stage, report)
        report_slot(config, stage, report)
        return found

    @pytest.mark.parametrize("latency_s", [0.0123456, 0.0251, 0.0289])
    def test_the_longest_stroke_that_it_reports_fits(self, latency_s: float) -> None:
        config = lab("physical.command_latency_s=0.02")
        slot = self.findings(config, latency_s)[1]
        shown = re.search(r"physical\.stroke = ([\d.]+)", slot.detail)
        assert shown is not None
        longest = lab("physical.command_latency_s=0.02", f"physical.stroke={shown[1]}")
        assert longest.physical.rho_max == float(shown[1]) > config.physical.rho_max
        assert self.findings(longest, latency_s)[1].verdict == "pass"

    @pytest.mark.parametrize("latency_s", [0.0251, 0.0277777, 0.0289])
    def test_the_latency_that_it_suggests_passes(self, latency_s: float) -> None:
        latency = self.findings(lab(), latency_s)[0]
        assert latency.verdict == "note"
        (applied, *_) = suggestions(latency.fix)
        assert self.findings(lab(*applied), latency_s)[0].verdict == "pass"

    @pytest.mark.parametrize(
        ("preset", "latency_s"), [("lab-2g4-grbl", 0.0951), ("lab-2g4-grbl", 0.3), ("paper", 0.02)]
    )
    def test_a_latency_that_leaves_no_time_to_move(self, preset: str, latency_s: float) -> None:
        config = load_config(preset=preset)
        (applied, *_) = suggestions(self.findings(config, latency_s)[0].fix)
        slower = load_config(preset=preset, assignments=applied)
        assert self.findings(slower, latency_s)[0].verdict == "pass"
        assert slower.physical.rho_max == config.physical.rho_max
        assert slower.slot_timing.measure_s >= config.slot_timing.measure_s * (1 - 1e-9)


class TestMeasuring:
    def measured(self, *times_s: float, per_batch: int = 3) -> tuple[AnswerTimes, int]:
        left = list(times_s)
        found = measure_until_stable(lambda: (left.pop(0), 0.001), per_batch)
        return found, len(times_s) - len(left)

    def test_two_batches_that_agree_are_enough(self) -> None:
        found, taken = self.measured(*[0.004] * 3, *[0.0045] * 3, *[9.0] * 30)
        assert (found.is_stable, taken) == (True, 6)
        assert found.usual == pytest.approx((0.00425, 0.001))

    @pytest.mark.fault("computer-busy-while-timing")
    def test_a_burst_of_load_is_measured_again(self) -> None:
        found, taken = self.measured(*[0.09] * 3, *[0.03] * 3, *[0.004] * 6)
        assert (found.is_stable, taken) == (True, 12)
        assert found.usual == found.quickest == (0.004, 0.001)

    def test_timing_ends_if_the_answers_do_not_settle(self) -> None:
        found, taken = self.measured(*([0.004] * 3 + [0.09] * 3) * 10)
        assert (found.is_stable, taken) == (False, 24)
        assert found.quickest == (0.004, 0.001)
