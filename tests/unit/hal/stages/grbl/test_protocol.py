"""Parsing of lines that GRBL firmware sends."""

import pytest

from macontrol.hal.stages.grbl.protocol import (
    Alarm,
    Banner,
    Failure,
    Message,
    Noise,
    Ok,
    Report,
    Setting,
    Status,
    parse,
)


@pytest.mark.parametrize(
    ("line", "report"),
    [
        (b"ok", Ok()),
        (b"ok\r", Ok()),
        (b"error:9", Failure(9)),
        (b"ALARM:2", Alarm(2)),
        (b"\xf0\x80ALARM:1", Alarm(1)),
        (b"Grbl 1.1h ['$' for help]", Banner("Grbl", "1.1h")),
        (b"\xff\x00Grbl 1.1h ['$' for help]", Banner("Grbl", "1.1h")),
        (b"GrblHAL 1.1f ['$' or '$HELP' for help]", Banner("GrblHAL", "1.1f")),
        (b"Grbl 3.7 [FluidNC v3.7.8 (wifi) '$' for help]", Banner("FluidNC", "3.7")),
        (b"$100=250.000", Setting(100, 250.0)),
        (b"$110=6000.000 (x max rate, mm/min)", Setting(110, 6000.0)),
        (b"[MSG:'$H'|'$X' to unlock]", Message("MSG", "'$H'|'$X' to unlock")),
        (b"[VER:1.1h.20190830:]", Message("VER", "1.1h.20190830:")),
        (b"[OPT:V,15,128]", Message("OPT", "V,15,128")),
        (
            b"<Hold:1|MPos:-4.150,-2.000,-2.000|FS:1200,0>",
            Status("Hold", 1, (-4.15, -2.0, -2.0)),
        ),
        (
            b"<Idle|WPos:1.500|Bf:15,128|FS:0,0|Pn:XZ|WCO:-5.000>",
            Status("Idle", None, (), (1.5,), (-5.0,), "XZ"),
        ),
        (
            b"<Alarm|MPos:0.000,0.000,50.000|Bf:100,1023|FS:0,0|Pn:Z|Ov:100,100,100|A:|TLR:0>",
            Status("Alarm", None, (0.0, 0.0, 50.0), (), (), "Z"),
        ),
    ],
)
def test_lines_are_parsed(line: bytes, report: Report) -> None:
    assert parse(line) == report


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"okay",
        b"o\xffk",
        b"xok",
        b"error:",
        b"error:9x",
        b"$100=nan",
        b"$100=1e999",
        b"$100=inf",
        b"<>",
        b"<Idle|MPos:nan,0.000>",
        b"<Idle|MPos:1.000,>",
        b"<Idle|MPos:1.0|MPos:2.0>",
        b"<\xff|MPos:1.0>",
        b"<Idle|MPos:1.000",
        b"[]",
        b"Grbl",
    ],
)
def test_anything_else_is_noise(line: bytes) -> None:
    assert parse(line) == Noise(line)


def test_codes_have_a_meaning_and_a_fix() -> None:
    assert "no limit switch was found" in str(Alarm(9))
    assert "$23" in Alarm(9).fix
    assert "home it" in str(Failure(9))
    assert str(Alarm(200)) == "ALARM:200"
