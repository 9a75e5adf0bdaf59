"""Drivers that raise anything or return anything: a fault of the device, and never a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from macontrol.config import Config
from macontrol.config.model.errors import (
    ConfigError,
    HardwareError,
    LineError,
    StageError,
    StageLostError,
)
from macontrol.config.model.reward import Reward
from macontrol.controller.recording.events import EventKind
from macontrol.controller.runtime.guard import Guard
from macontrol.hal import Arrival, Measurement, StageDescription
from support.scripted_bench import ScriptedBench
from support.watched_stage import WatchedStage


class Panic(BaseException):
    """What a driver of another language raises."""


class Odd:
    """Fails in whatever is done with it."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else RuntimeError("no attribute")

    def __repr__(self) -> str:
        raise RuntimeError("no name")

    def __float__(self) -> float:
        raise RuntimeError("no number")

    def __bool__(self) -> bool:
        raise RuntimeError("neither")


ERRORS = [OSError(5, "I/O"), KeyError("x"), SystemExit(0), Panic(), LineError("busy")]
NO_ARRIVALS = [
    None,
    3.0,
    Odd(),
    Arrival(nan, True, 0.0),
    Arrival(inf, True, 0.0),
    Arrival("here", True, 0.0),  # type: ignore[arg-type]
    Arrival([1.0], True, 0.0),  # type: ignore[arg-type]
    Arrival(90.0, Odd(), 0.0),  # type: ignore[arg-type]
    Arrival(90.0, True, None),  # type: ignore[arg-type]
]
NO_MEASUREMENTS = [
    None,
    3.0,
    Odd(),
    [None],
    [Odd()],
    [Measurement([], None)],  # type: ignore[arg-type]
    [Measurement(4.5, Reward(1.0))],  # type: ignore[arg-type]
    [Measurement(4, Reward(1.0), above_floor=Odd())],  # type: ignore[arg-type]
    [Measurement(4, None, Odd())],  # type: ignore[arg-type]
]
NO_VALUES = [3.0, "much", Odd(), Reward(3j), Reward("much"), Reward(1.0, Odd())]  # type: ignore[arg-type]


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: object) -> Any:
        raise error

    return call


@pytest.fixture
def bench(paper: Config) -> ScriptedBench:
    """A bench whose commands are checked behind the guard."""
    bench = ScriptedBench(paper.replace(timing__fault_patience_s=2.0))
    watched = WatchedStage(
        bench.stage, region_mm=bench.config.rail_mm, stroke_mm=bench.config.physical.stroke_mm
    )
    bench.guard = Guard.of(bench.config, watched)
    bench.watch(lambda *_: None)
    bench.watched = watched  # type: ignore[attr-defined]
    return bench


def objections(bench: ScriptedBench) -> list[str]:
    found: list[str] = bench.watched.objections  # type: ignore[attr-defined]
    return found


class TestStage:
    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("error", ERRORS)
    def test_an_exception_is_a_fault_of_the_stage(
        self, bench: ScriptedBench, error: BaseException
    ) -> None:
        bench.stage.moves[4] = raising(error)
        kept = bench.run(10)
        (fault,) = kept.events(EventKind.STAGE_FAULT)
        assert fault.slot == 5
        assert kept.slot(5).invalid == "stage-fault"
        assert len(kept.events(EventKind.RECOVERY)) == 1
        assert kept.slot(10).on_time
        assert objections(bench) == []

    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("method", ["moves", "wheres"])
    @pytest.mark.parametrize("returned", NO_ARRIVALS)
    def test_what_is_no_arrival_is_a_fault_of_the_stage(
        self, bench: ScriptedBench, method: str, returned: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A scripted move that returns None continues as usual, so the method is replaced."""
        name = "move_to" if method == "moves" else "where"
        real, calls = getattr(bench.stage, name), 0

        def garbled(*arguments: float) -> Any:
            nonlocal calls
            calls += 1
            return returned if calls == 4 else real(*arguments)

        if name == "where":
            bench.policy.decides = {slot: lambda *_: 3.0 for slot in range(1000)}  # it holds
        monkeypatch.setattr(bench.stage, name, garbled)
        kept = bench.run(1000 if name == "where" else 10)
        assert calls >= 4
        assert len(kept.events(EventKind.STAGE_FAULT)) == 1
        assert kept.slots[-1].on_time
        assert objections(bench) == []

    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("error", ERRORS)
    def test_exceptions_that_last_end_the_run(
        self, bench: ScriptedBench, error: BaseException
    ) -> None:
        bench.stage.moves = dict.fromkeys(range(4, 10_000), raising(error))
        with pytest.raises(HardwareError) as end:
            bench.run(10_000)
        assert end.value.exit_code == 69
        assert objections(bench) == []

    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("error", ERRORS)
    def test_a_recovery_may_raise_anything(
        self, bench: ScriptedBench, error: BaseException, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unplug(*_: object) -> Arrival:
            monkeypatch.setattr(bench.stage, "where", raising(StageLostError("unplugged")))
            raise StageLostError("unplugged")

        bench.stage.moves[4] = unplug
        monkeypatch.setattr(bench.stage, "recover", raising(error))
        with pytest.raises(HardwareError, match="has failed for"):
            bench.run(10_000)
        assert len(bench.stage.commands) == 4
        assert objections(bench) == []

    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("method", ["homing_is_due", "description"])
    def test_a_property_may_raise_anything(
        self, bench: ScriptedBench, method: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(WatchedStage, method, property(raising(KeyError("x"))))
        with pytest.raises(HardwareError):
            bench.run(10_000)
        assert objections(bench) == []

    @pytest.mark.fault("driver-raises")
    def test_a_description_that_cannot_compare_is_a_fault(self, bench: ScriptedBench) -> None:
        class Incomparable(StageDescription):
            is_near = raising(KeyError("x"))

        bench.loop.approach(bench.policy.start_position)
        bench.stage.description = Incomparable(**vars(bench.stage.description))
        bench.loop.run(slots=10)
        assert len(bench.kept.events(EventKind.STAGE_FAULT)) > 1
        assert bench.tally.slots == 10
        assert objections(bench) == []

    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("error", ERRORS)
    def test_a_stop_may_raise_anything(
        self, bench: ScriptedBench, error: BaseException, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bench.stage, "stop", raising(error))
        with pytest.raises(StageError):
            bench.loop.halt()

    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("step", [nan, inf, -0.01, None])
    def test_a_step_that_is_no_length_is_refused(self, bench: ScriptedBench, step: Any) -> None:
        bench.stage.description = replace(bench.stage.description, step_mm=step)
        with pytest.raises(StageError):
            Guard.of(bench.config, bench.stage)

    @pytest.mark.parametrize("error", [StageLostError("unplugged"), ConfigError("no such axis")])
    def test_errors_of_our_own_pass_unchanged(self, bench: ScriptedBench, error: Exception) -> None:
        bench.loop.approach(bench.policy.start_position)
        bench.stage.moves[1] = raising(error)
        with pytest.raises(type(error)) as raised:
            bench.guard.move(bench.guard.reported_mm + 0.1, bench.clock.now() + 1.0)
        assert raised.value is error

    def test_an_interrupt_passes(self, bench: ScriptedBench) -> None:
        bench.stage.moves[4] = raising(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            bench.run(10)


class TestProbe:
    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("method", ["request", "collect"])
    @pytest.mark.parametrize("error", ERRORS)
    def test_an_exception_is_a_fault_of_the_probe(
        self,
        bench: ScriptedBench,
        method: str,
        error: BaseException,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        real, calls = getattr(bench.probe, method), 0

        def call(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 4:
                raise error
            return real(*arguments)

        monkeypatch.setattr(bench.probe, method, call)
        kept = bench.run(10)
        (fault,) = kept.events(EventKind.PROBE_FAULT)
        assert fault.slot == 4
        assert kept.slot(4).invalid == "probe-fault"
        assert kept.slot(10).reward == 0.01

    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("returned", NO_MEASUREMENTS)
    def test_what_is_no_measurement_is_a_fault_of_the_probe(
        self, bench: ScriptedBench, returned: Any
    ) -> None:
        bench.probe.collects[4] = lambda *_: returned
        kept = bench.run(10)
        (fault,) = kept.events(EventKind.PROBE_FAULT)
        assert fault.slot == 4
        assert kept.slot(10).reward == 0.01

    @pytest.mark.fault("driver-raises")
    def test_the_fault_names_what_is_no_measurement(self, bench: ScriptedBench) -> None:
        bench.probe.collects[4] = lambda *_: [3j]
        (fault,) = bench.run(10).events(EventKind.PROBE_FAULT)
        assert "complex" in fault.detail
        assert "Measurement" in fault.detail

    def test_a_reason_is_recorded_as_text(self, bench: ScriptedBench) -> None:
        bench.probe.collects[4] = lambda *_: [Measurement(4, None, 5)]  # type: ignore[arg-type]
        assert bench.run(10).slot(4).invalid == "5"

    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("value", NO_VALUES)
    def test_a_value_without_numbers_is_out_of_range(
        self, bench: ScriptedBench, value: Any
    ) -> None:
        bench.probe.collects[4] = lambda *_: [Measurement(4, value)]
        kept = bench.run(10)
        assert kept.slot(4).invalid == "out-of-range"
        assert 4 not in [slot for slot, *_ in bench.policy.seen]

    @pytest.mark.fault("driver-raises")
    @pytest.mark.parametrize("error", ERRORS)
    def test_exceptions_that_last_end_the_run(
        self, bench: ScriptedBench, error: BaseException
    ) -> None:
        bench.probe.collects = dict.fromkeys(range(4, 10_000), raising(error))
        with pytest.raises(HardwareError, match="the probe has failed for") as end:
            bench.run(10_000)
        assert end.value.exit_code == 69
