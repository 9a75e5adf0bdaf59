"""Examine a bench: one finding for each thing that a run needs, with the fix where it fails.

Nothing moves: the stage is connected and queried, never homed. A failure does not end the
examination; what cannot be examined because of it is reported as skipped.
"""

from __future__ import annotations

from contextlib import ExitStack

from macontrol.config import Config
from macontrol.doctor.port import examine_port
from macontrol.doctor.probe import ProbeExamination
from macontrol.doctor.report import Report
from macontrol.doctor.stage import StageExamination
from macontrol.hal import Clock
from macontrol.hal.serial.line import TrafficLog


def examine_bench(
    config: Config, clock: Clock, report: Report, log: TrafficLog | None = None
) -> None:
    """Examine port, stage and probe of a serial bench."""
    with ExitStack() as closing:
        stage = StageExamination(config, clock, report, closing)
        if examine_port(config.stage, report, closing):
            stage.examine(log)
        else:
            stage.skip("the port cannot be used")
    with ExitStack() as closing:
        ProbeExamination(config, clock, report).examine(closing)
