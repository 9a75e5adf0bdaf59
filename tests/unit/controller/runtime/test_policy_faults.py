"""A policy that raises, returns what is not a decision, or is too late: the antenna holds."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.errors import PolicyError
from macontrol.controller.policies.policy import Decision
from macontrol.controller.recording.events import EventKind
from support.scripted_bench import ScriptedBench

Act = Callable[..., Any]


class Odd:
    """An exception's text and an object's name can fail too."""

    def __repr__(self) -> str:
        raise RuntimeError("no name")


class OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Panic(BaseException):
    """What a policy of another language raises."""


def fails(error: BaseException) -> Act:
    def act(*_: object) -> Any:
        raise error

    return act


@pytest.fixture
def bench(paper: Config) -> ScriptedBench:
    return ScriptedBench(paper.replace(timing__fault_patience_s=2.0))


def script(bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch, act: Act, *slots: int) -> None:
    """Let `decide` do something else in these slots."""
    real = bench.policy.decide

    def decide(slot: int, position: float) -> Decision:
        return act(slot, position) if slot in slots else real(slot, position)

    monkeypatch.setattr(bench.policy, "decide", decide)


def expect_a_hold(bench: ScriptedBench, slot: int) -> None:
    """The antenna holds after a fault of the policy in one slot; then the run continues."""
    held = bench.kept.slot(slot + 1)
    assert held.commanded is None
    assert held.position == bench.kept.slot(slot).position
    assert held.reward is not None
    fault, recovery = bench.kept.events()
    assert (fault.kind, fault.slot) == (EventKind.POLICY_FAULT, slot)
    assert (recovery.kind, recovery.slot) == (EventKind.RECOVERY, slot + 1)
    assert bench.kept.slot(slot + 2).commanded is not None
    assert bench.tally.refused == 0


@pytest.mark.fault("policy-raises")
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("by a policy"), SystemExit(0), OddError(), Panic("in Rust")]
)
def test_the_antenna_holds_when_the_policy_raises(
    bench: ScriptedBench, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(bench, monkeypatch, fails(error), 4)
    bench.run(8)
    expect_a_hold(bench, 4)
    (fault,) = bench.kept.events(EventKind.POLICY_FAULT)
    assert type(error).__name__ in fault.detail
    assert bench.tally.slots == 8


@pytest.mark.fault("policy-returns-no-decision")
@pytest.mark.parametrize(
    "returned",
    [
        None,
        3.0,
        (3.0, 3.0, False, False, nan),
        Odd(),
        Decision(nan, nan, True, True, nan),
        Decision(3.0, nan, False, False, nan),
        Decision(nan, 3.0, False, False, nan),
        Decision(inf, -inf, False, False, inf),
        Decision(3.0, 3j, False, False, nan),  # type: ignore[arg-type]
        Decision(None, 3.0, False, False, nan),  # type: ignore[arg-type]
        Decision(3.0, "here", False, False, nan),  # type: ignore[arg-type]
        Decision(3.0, 3.0, np.array([1, 2]), False, nan),  # type: ignore[arg-type]
        Decision(3.0, 3.0, False, False, None),  # type: ignore[arg-type]
        Decision(Odd(), Odd(), False, False, nan),  # type: ignore[arg-type]
    ],
)
def test_the_antenna_holds_when_the_policy_returns_no_decision(
    bench: ScriptedBench, returned: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(bench, monkeypatch, lambda *_: returned, 4)
    bench.run(8)
    expect_a_hold(bench, 4)


def test_numbers_of_numpy_are_numbers(
    bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide(_slot: int, position: float) -> Decision:
        near = np.float32(position)
        return Decision(near, near, np.bool_(True), np.bool_(False), np.float32(0.5))  # type: ignore[arg-type]

    script(bench, monkeypatch, decide, 4)
    record = bench.run(8).slot(4)
    assert not bench.kept.events()
    assert (type(record.target), type(record.switched)) == (float, bool)


@pytest.mark.fault("policy-raises")
@pytest.mark.parametrize("method", ["observe", "withdraw"])
def test_the_antenna_holds_when_the_policy_cannot_learn(
    bench: ScriptedBench, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.policy, method, fails(KeyError("no such slot")))
    if method == "withdraw":
        bench.watch(lambda tally, _: bench.loop.decision.withdraw(4) if tally.slot == 4 else None)
        bench.run(8)
        expect_a_hold(bench, 5)
        return
    bench.run(8)
    assert not bench.stage.commands
    assert [event.kind for event in bench.kept.events()] == [EventKind.POLICY_FAULT] * 8


@pytest.mark.fault("policy-raises")
def test_a_surface_that_cannot_be_read_is_a_fault(
    bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.policy, "surface", None, raising=False)
    monkeypatch.setattr(bench.policy, "margin", 0.0, raising=False)
    bench.watch(lambda *_: None)
    bench.run(8)
    assert len(bench.kept.events(EventKind.POLICY_FAULT)) == 7, "in the slot after it"
    assert bench.tally.slots == 8


@pytest.mark.fault("policy-hangs")
def test_every_call_is_counted_while_it_lasts(bench: ScriptedBench) -> None:
    class Counting:
        """A policy that notes in each call whether the counters show it."""

        start_position, margin, settings = 3.0, 0.0, MappingProxyType({"beta": 1.0})
        seen: ClassVar[dict[str, bool]] = {}

        def note(self, call: str) -> None:
            phase = bench.loop.decision
            self.seen[call] = phase.begun == phase.ended + 1

        @property
        def surface(self) -> np.ndarray[Any, Any]:
            self.note("surface")
            return np.zeros(3)

        def observe(self, *_: object) -> None:
            self.note("observe")

        def withdraw(self, _: int) -> None:
            self.note("withdraw")

        def adjust(self, *_: object) -> None:
            self.note("adjust")

        def resume(self, _: float) -> None: ...

        def decide(self, _: int, position: float) -> Decision:
            self.note("decide")
            return Decision(position, position, False, False, nan)

    phase = bench.loop.decision
    phase.adopt(Counting())
    Counting.seen.clear()  # the check of its capabilities has read the surface
    phase.adjust("beta", 2.0)
    phase.withdraw(1)
    bench.run(3)
    assert Counting.seen == dict.fromkeys(
        ("adjust", "withdraw", "observe", "decide", "surface"), True
    )
    assert phase.begun == phase.ended


@pytest.mark.fault("policy-raises", "policy-returns-no-decision")
@pytest.mark.parametrize(
    "act", [fails(ZeroDivisionError("by a policy")), lambda *_: Decision(nan, nan, True, True, nan)]
)
def test_faults_that_last_end_the_run(
    bench: ScriptedBench, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(bench, monkeypatch, act, *range(4, 10_000))
    begun_s = bench.clock.now()
    with pytest.raises(PolicyError) as end:
        bench.run(10_000)
    assert bench.clock.now() - begun_s == pytest.approx(2.0, abs=0.1)
    assert end.value.exit_code == 70
    assert isinstance(end.value.__cause__, (ZeroDivisionError, ValueError))
    assert len(bench.stage.commands) == 3, "it held"
    assert not bench.kept.events(EventKind.REFUSED)


@pytest.mark.fault("policy-raises")
def test_occasional_faults_do_not_end_the_run(
    bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(bench, monkeypatch, fails(ZeroDivisionError()), *range(0, 2000, 2))
    bench.run(2000)  # 10 s
    assert len(bench.kept.events(EventKind.POLICY_FAULT)) == 999


@pytest.mark.fault("policy-raises")
def test_the_first_fault_of_each_place_has_its_traceback(
    bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(slot: int, _position: float) -> Decision:
        if slot < 10:
            raise ZeroDivisionError(f"in slot {slot}")
        raise KeyError(slot)

    script(bench, monkeypatch, act, *range(4, 20))
    bench.run(20)
    traced = [event for event in bench.kept.events() if "Traceback" in event.detail]
    assert [event.slot for event in traced] == [4, 10]
    assert "raise ZeroDivisionError(" in traced[0].detail
    assert len(bench.kept.events(EventKind.POLICY_FAULT)) == 16


def test_an_interrupt_is_not_a_fault(bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch) -> None:
    script(bench, monkeypatch, fails(KeyboardInterrupt()), 4)
    with pytest.raises(KeyboardInterrupt):
        bench.run(8)


@pytest.mark.fault("policy-too-late")
@pytest.mark.parametrize("slots", [1.5, 150.0])
def test_a_policy_that_is_always_late_ends_the_run(
    bench: ScriptedBench, slots: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bench.policy.decide

    def slow(slot: int, position: float) -> Decision:
        bench.clock.lose(slots * bench.slot_s)
        return real(slot, position)

    monkeypatch.setattr(bench.policy, "decide", slow)
    begun_s = bench.clock.now()
    with pytest.raises(PolicyError) as end:
        bench.run(10_000)
    assert bench.clock.now() - begun_s == pytest.approx(2.0, abs=slots * bench.slot_s + 0.8)
    assert end.value.exit_code == 70
    assert bench.kept.events(EventKind.LATE_DECISION)


@pytest.mark.fault("policy-too-late")
def test_a_decision_in_time_is_enough(
    bench: ScriptedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bench.policy.decide
    decisions = 0

    def slow(slot: int, position: float) -> Decision:
        nonlocal decisions
        decisions += 1
        if decisions % 10:
            bench.clock.lose(20 * bench.slot_s)
        return real(slot, position)

    monkeypatch.setattr(bench.policy, "decide", slow)
    bench.run(2000)  # 10 s
    assert bench.tally.missed > 1500


@pytest.mark.fault("policy-too-late")
def test_a_probe_that_is_late_is_no_fault_of_the_policy(bench: ScriptedBench) -> None:
    def slow(_probe: object, ready: Any) -> Any:
        bench.clock.lose(2 * bench.slot_s)
        return ready

    bench.probe.collects = dict.fromkeys(range(1, 10_000), slow)
    bench.run(1000)  # 5 s
    assert bench.tally.missed > 500
