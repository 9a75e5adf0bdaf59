"""Real-time scheduling for the slots of a run, or of a block of a trial."""

from __future__ import annotations

from contextlib import ExitStack

from macontrol.controller.host.realtime import (
    ORDINARY_DECISION_S,
    RealtimeReport,
    enter_realtime,
    leave_realtime,
)
from macontrol.controller.runtime.clock import SPIN_S, WallClock
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.hal import Clock


def run_in_realtime(
    loop: SlotLoop, clock: Clock, closing: ExitStack, *, is_simulated: bool
) -> RealtimeReport:
    """Enter real-time scheduling as far as it is permitted, until `closing`; return the report."""
    report = enter_realtime()
    closing.callback(leave_realtime)
    if report.fifo and isinstance(clock, WallClock):
        clock.spin_s = SPIN_S
        closing.callback(setattr, clock, "spin_s", 0.0)
    if not report.fifo and is_simulated:  # a radio needs its whole window
        loop.reserve_decision(ORDINARY_DECISION_S)
    return report
