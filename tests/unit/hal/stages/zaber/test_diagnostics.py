"""What the doctor learns from the handshake with a Zaber device."""

from __future__ import annotations

from macontrol.hal.stages.zaber.diagnostics import ZaberDiagnostics
from support.scripted_zaber import summed, zaber_settings


def received(*exchanges: tuple[str, str]) -> ZaberDiagnostics:
    """After commands to axis 1 and their replies."""
    diagnostics = ZaberDiagnostics(zaber_settings())
    for number, (command, reply) in enumerate(exchanges):
        diagnostics.log(">", summed(f"/1 1 {number:02d} {command}".rstrip()) + b"\n")
        diagnostics.log("<", summed(f"@01 1 {number:02d} {reply}") + b"\r\n")
    return diagnostics


def test_a_device_that_is_not_homed_has_no_problem() -> None:
    diagnostics = received(("", "OK IDLE WR 0"), ("get deviceid", "OK IDLE WR 50081"))
    assert diagnostics.problem() is None
    assert "50081" in diagnostics.board
    assert diagnostics.state == "flags: WR"


def test_a_flag_that_voids_the_position_is_a_problem_with_a_fix() -> None:
    problem = received(("", "OK IDLE FV 0")).problem()
    assert problem is not None
    assert "FV" in problem.detail
    assert "supply" in problem.fix


def test_hidden_flags_are_read_from_the_list_of_warnings() -> None:
    problem = received(("", "OK IDLE WT 0"), ("warnings", "OK IDLE WT 02 WT FS")).problem()
    assert problem is not None
    assert "FS" in problem.detail


def test_a_hot_or_moving_device_gets_advice() -> None:
    hot, moving = received(("", "OK BUSY WT 0")).advice()
    assert "WT" in hot.detail
    assert "moving" in moving.detail


def test_nothing_is_known_about_a_silent_device() -> None:
    diagnostics = received()
    assert diagnostics.board == ""
    assert diagnostics.problem() is None
    assert diagnostics.advice() == ()
