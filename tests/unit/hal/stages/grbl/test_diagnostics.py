"""What the doctor learns from the handshake with a GRBL board."""

from __future__ import annotations

from typing import Any

from macontrol.hal.stages.grbl.diagnostics import GrblDiagnostics
from support.scripted_grbl import BANNER, BUILD, LOCKED, SETTINGS, status
from support.scripted_stage import stage_settings


def received(*lines: bytes, sent: bytes = b"", **changes: Any) -> GrblDiagnostics:
    diagnostics = GrblDiagnostics(stage_settings(**changes))
    if sent:
        diagnostics.log(">", sent)
    for line in lines:
        diagnostics.log("<", line + b"\r\n")
    return diagnostics


def test_a_working_board_has_no_problem() -> None:
    diagnostics = received(BANNER, LOCKED, status("Alarm"), *BUILD, *SETTINGS)
    assert diagnostics.board == "Grbl 1.1h.20190830"
    assert diagnostics.state == "locked until it is homed"
    assert diagnostics.problem() is None


def test_an_alarm_is_remembered_after_a_reset_has_cleared_it() -> None:
    problem = received(b"ALARM:9", BANNER, status("Alarm")).problem()
    assert problem is not None
    assert "ALARM:9, homing failed: no limit switch" in problem.detail
    assert "$23" in problem.fix


def test_only_the_switch_of_the_axis_matters() -> None:
    assert received(status("Idle", more="|Pn:YZ")).problem() is None
    problem = received(status("Idle", more="|Pn:YZ"), axis="Y").problem()
    assert problem is not None
    assert problem.detail == "the Y limit switch is closed"


def test_a_board_that_answers_only_after_a_reset_is_a_problem() -> None:
    diagnostics = received()
    for byte in (b"?", b"\x18"):
        diagnostics.log(">", byte)
    diagnostics.log("<", BANNER + b"\r\n" + status("Alarm") + b"\r\n")
    problem = diagnostics.problem()
    assert problem is not None
    assert "only after a reset" in problem.detail


def test_a_reset_of_a_board_that_answers_is_no_problem() -> None:
    diagnostics = received(status("Idle"), sent=b"?")
    diagnostics.log(">", b"\x18")
    assert diagnostics.problem() is None
    assert diagnostics.state == "idle"


def test_nothing_is_known_about_a_silent_board() -> None:
    diagnostics = received()
    assert diagnostics.board == ""
    assert diagnostics.state == "unknown"
    assert diagnostics.advice() == ()


def test_settings_are_known_even_if_they_are_refused() -> None:
    first, *_ = received(BANNER, *BUILD, b"$1=25", b"$22=0").advice()
    assert first.detail.startswith("$1=25")
    assert first.fix == "set $1=255"
