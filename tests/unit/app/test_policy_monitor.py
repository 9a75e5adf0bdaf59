"""A decision that lasts longer than the patience is noticed from another thread."""

from __future__ import annotations

from typing import Any

import pytest

from macontrol import policy_monitor
from macontrol.policy_monitor import PolicyMonitor


class Counted:
    """The counters of a decision phase."""

    begun = ended = 0


def hangs(begun: list[int], ended: list[int], limit_s: float) -> list[int]:
    """At which of the ticks of a second, with these counters, a hang is noticed."""
    decision: Any = Counted()
    ticks = iter(zip(begun, ended, strict=True))
    seen: list[int] = []
    passed = 0

    def wait(tick_s: float) -> bool:
        nonlocal passed
        assert tick_s == policy_monitor._TICK_S == 1.0
        passed += 1
        decision.begun, decision.ended = next(ticks, (0, 0))
        return passed > len(begun)

    monitor = PolicyMonitor(decision, limit_s, lambda: seen.append(passed))
    monitor._ended.wait = wait  # type: ignore[assignment, method-assign]
    monitor._work()
    return seen


@pytest.mark.fault("policy-hangs")
def test_a_decision_that_lasts_is_noticed_once() -> None:
    assert hangs([5] + [9] * 10, [5] + [8] * 10, 3.0) == [6]


@pytest.mark.fault("policy-hangs")
def test_a_slow_decision_has_not_hung() -> None:
    assert hangs([9] * 4 + [10] * 4, [8] * 4 + [9] * 4, 3.0) == []


def test_a_loop_that_waits_for_its_next_slot_has_not_hung() -> None:
    assert hangs([9] * 10, [9] * 10, 3.0) == []


def test_the_thread_ends_with_the_run() -> None:
    decision: Any = Counted()
    with PolicyMonitor(decision, 30.0, lambda: None) as monitor:
        assert monitor._thread.is_alive()
    assert not monitor._thread.is_alive()
