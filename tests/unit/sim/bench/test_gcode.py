"""The G-code reader of the emulated GRBL board."""

from __future__ import annotations

import pytest

from macontrol.sim.bench.boards.grbl.gcode import Dwell, GcodeReader, Motion, Refused, strip


def read(*lines: str, jog: bool = False) -> Dwell | Motion | None:
    """The last of several lines."""
    reader = GcodeReader()
    for line in lines[:-1]:
        reader.read(line, jog=False)
    return reader.read(lines[-1], jog=jog)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["G0X5"], Motion(5.0, False, None)),
        (["X5"], Motion(5.0, False, None)),
        (["G1X5F300"], Motion(5.0, False, 300.0)),
        (["G1X5F300", "X6"], Motion(6.0, False, 300.0)),
        (["G1X5F300", "G0X6"], Motion(6.0, False, None)),
        (["G91", "G0X5"], Motion(5.0, True, None)),
        (["G91", "G53G0X5"], Motion(5.0, False, None)),
        (["G91", "G90", "X5"], Motion(5.0, False, None)),
        (["G20", "G1X1F10"], Motion(25.4, False, 254.0)),
        (["G4P0.25"], Dwell(0.25)),
        (["G21G90G94"], None),
        (["G0Y5"], None),
    ],
)
def test_a_line_is_a_motion_a_dwell_or_neither(
    lines: list[str], expected: Dwell | Motion | None
) -> None:
    assert read(*lines) == expected


def test_a_jog_does_not_change_the_modes() -> None:
    reader = GcodeReader()
    reader.read("G1X1F100", jog=False)
    assert reader.read("G91G20X1F10", jog=True) == Motion(25.4, True, 254.0)
    assert reader.read("X2", jog=False) == Motion(2.0, False, 100.0)


@pytest.mark.parametrize(
    ("line", "jog", "code"),
    [
        ("5X", False, 1),
        ("X", False, 2),
        ("G1X5", False, 22),
        ("X5", True, 22),
        ("G0X5F100", True, 16),
        ("G99", False, 20),
        ("Q5", False, 20),
        ("G0.5X1", False, 23),
        ("G0G1X1F100", False, 24),
        ("F100", True, 26),
        ("G4", False, 28),
    ],
)
def test_a_wrong_line_is_refused_with_the_code_of_grbl(line: str, jog: bool, code: int) -> None:
    with pytest.raises(Refused) as refusal:
        read(line, jog=jog)
    assert refusal.value.code == code


def test_comments_and_blanks_are_removed() -> None:
    assert strip(" g0 (fast) x1 ; end") == "G0X1"
    with pytest.raises(Refused) as refusal:
        strip("X" * 80)
    assert refusal.value.code == 11
