"""Transcripts of the firmware, compared line by line with the virtual board.

The transcripts are from GRBL 1.1h on an emulated ATmega328P and from grblHAL's simulator
(1.1f, build 20260817), both with the settings that the virtual board has by default. With
MACONTROL_STAGE_PORT set they are compared with the board at that port instead, which is homed and
moved: it must have those settings, must reset when it is opened, and be of the dialect named in
MACONTROL_STAGE_DIALECT (grbl by default).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.serial.line import SerialLine
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl

pytestmark = pytest.mark.any_user

PORT = os.environ.get("MACONTROL_STAGE_PORT")
DIALECT = os.environ.get("MACONTROL_STAGE_DIALECT", "grbl")
CLOCK = WallClock()
LONGEST_S = 60.0

BANNER = "Grbl 1.1h ['$' for help]"
HAL_BANNER = "GrblHAL 1.1f ['$' or '$HELP' for help]"
LOCKED = "[MSG:'$H'|'$X' to unlock]"
UNLOCKED = "[MSG:Caution: Unlocked]"
RESET_REQUEST = "[MSG:Reset to continue]"
WCO, OV = "|WCO:0.000,0.000,0.000", "|Ov:100,100,100"
HOMED = "-2.000,-2.000,-2.000"

# What is sent, and every line that is received, in order, without positions and speeds in motion.
# "until" requests reports until one starts with the given text.
GRBL: list[tuple[str, list[str]]] = [
    ("", [BANNER, LOCKED]),
    ("?", [f"<Alarm|MPos:0.000,0.000,0.000|FS:0,0{WCO}>"]),
    ("?", [f"<Alarm|MPos:0.000,0.000,0.000|FS:0,0{OV}>"]),
    ("?", ["<Alarm|MPos:0.000,0.000,0.000|FS:0,0>"]),
    *[(line, ["error:9"]) for line in ("G1X-3F100\n", "G4P0\n")],
    *[(line, ["ok"]) for line in ("\n", "(comment)\n", ";x\n")],
    ("$\n", ["[HLP:$$ $# $G $I $N $x=val $Nx=line $J=line $SLP $C $X $H ~ ! ? ctrl-x]", "ok"]),
    ("$G\n", ["[GC:G0 G54 G17 G21 G90 G94 M5 M9 T0 F0 S0]", "ok"]),
    ("$I\n", ["[VER:1.1h.20190830:]", "[OPT:V,15,128]", "ok"]),
    *[("$Q\n", ["error:2"]), ("$=1\n", ["error:2"]), ("$500=1\n", ["error:3"])],
    ("$J=X-10F100\n", ["error:8"]),
    ("$X\n", [UNLOCKED, "ok"]),
    ("?", ["<Idle|MPos:0.000,0.000,0.000|FS:0,0>"]),
    ("$X\n", ["ok"]),
    # A query during homing is answered after its end, and still reports homing.
    ("$H\n", []),
    ("?", [f"<Home|MPos:{HOMED}|FS:0,0>", "ok"]),
    ("?", [f"<Idle|MPos:{HOMED}|FS:0,0>"]),
    ("G53G1X-10\n", ["error:22"]),
    *[(line, ["error:20"]) for line in ("Q1\n", "G99\n", "G28.5\n")],
    *[("1\n", ["error:1"]), ("GX\n", ["error:2"]), ("X\n", ["error:2"])],
    *[("G4\n", ["error:28"]), ("G1.5X1\n", ["error:23"]), ("G1G0X-10F100\n", ["error:24"])],
    *[(line, ["ok"]) for line in ("G53\n", "F100\n", "G21G90G94\n", "M5\n")],
    # A motion is confirmed when it is planned, the dwell after it when it is over.
    ("G53G1X-10F3000\nG4P0\n", ["ok", "ok"]),
    ("?", ["<Idle|MPos:-10.000,-2.000,-2.000|FS:0,0>"]),
    ("G53G1X-50F600\n", ["ok"]),
    ("until", ["<Run"]),
    *[(line, ["error:8"]) for line in ("$$\n", "$I\n", "$H\n")],
    ("!", []),
    ("until", ["<Hold:0"]),
    ("~", []),
    ("until", ["<Run"]),
    ("!", []),
    ("until", ["<Hold:0"]),
    # Reset on hold: no alarm, and the position is kept.
    ("\x18", [BANNER]),
    ("until", ["<Idle"]),
    # Reset on hold with a line waiting: that line is confirmed, though it was dropped.
    ("!", []),
    ("until", ["<Hold:0"]),
    ("G4P0\n", []),
    ("~", ["ok"]),
    ("G53G1X-80F600\nG4P0\n", ["ok"]),
    ("until", ["<Run"]),
    ("!", []),
    ("until", ["<Hold:0"]),
    ("\x18", ["ok", BANNER]),
    ("$J=G53X-90F300\n", ["ok"]),
    ("G4P0\n", ["error:9"]),
    ("$I\n", ["error:8"]),
    ("until", ["<Jog"]),
    ("\x85", []),
    ("until", ["<Idle"]),
    *[("$J=G53X-200F600\n", ["error:15"]), ("$J=X-20\n", ["error:22"]), ("$J\n", ["error:3"])],
    *[("$J=G1X-20F100\n", ["error:16"]), ("$J=G4P0\n", ["error:22"])],
    # Reset in motion: an alarm, half a second without reactions, and an uncertain position.
    ("$J=G53X-90F300\n", ["ok"]),
    ("\x18", ["ALARM:3", BANNER, LOCKED]),
    ("$J=G53X-20F600\n", ["error:8"]),
    ("$H\n", ["ok"]),
    # Beyond a soft limit: the board answers nothing until the requested reset.
    ("G53G1X-150F600\n", ["ALARM:2", RESET_REQUEST]),
    ("?", []),
    ("$X\n", []),
    ("\x18", ["ok", BANNER, LOCKED]),
    ("until", ["<Alarm"]),
    ("$X\n", [UNLOCKED, "ok"]),
    ("G53G1X-60F600\n", ["ok"]),
    ("until", ["<Run"]),
    ("\x18", ["ALARM:3", BANNER, LOCKED]),
    ("G90" + "X" * 90 + "\n", ["error:11"]),
    ("$X\n", [UNLOCKED, "ok"]),
    # A build without single-axis homing refuses this, and is stuck until it is reset.
    ("$HX\n", ["error:3"]),
    ("until", ["<Home"]),
    ("$X\n", ["ok"]),
    ("$H\n", ["error:8"]),
    ("\x18", ["ALARM:6", BANNER, LOCKED]),
]

GRBLHAL: list[tuple[str, list[str]]] = [
    ("", [HAL_BANNER]),  # not locked, although it is not homed
    ("?", [f"<Idle|MPos:0.000,0.000,0.000|Bf:100,1023|FS:0,0{OV}|A:>"]),
    ("?", [f"<Idle|MPos:0.000,0.000,0.000|Bf:100,1023|FS:0,0{WCO}>"]),
    ("?", ["<Idle|MPos:0.000,0.000,0.000|Bf:100,1023|FS:0,0>"]),
    *[(line, ["ok"]) for line in ("\n", "(comment)\n", ";x\n")],
    *[("$Q\n", ["error:3"]), ("$500=1\n", ["error:53"]), ("$X\n", ["ok"])],
    ("$HX\n", ["error:5"]),
    # It answers during homing, and sends one report without a query.
    ("$H\n", ["<Home|MPos:0.000,0.000,0.000|Bf:100,1023|FS:0,0>", "[MSG:]", "ok"]),
    ("?", [f"<Idle|MPos:{HOMED}|Bf:100,1023|FS:0,0>"]),
    # An error sticks until an empty line.
    *[(line, ["error:22"]) for line in ("G53G1X-10\n", "G53G1X-10F3000\n", "G4P0\n")],
    ("\n", ["ok"]),
    ("G53G1X-10F3000\nG4P0\n", ["ok", "ok"]),
    ("G53G1X-50F600\n", ["ok"]),
    ("until", ["<Run"]),
    ("!", []),
    ("until", ["<Hold:0"]),
    ("~", ["[MSG:]"]),
    ("until", ["<Run"]),
    ("!", []),
    ("until", ["<Hold:0"]),
    ("\x18", [HAL_BANNER]),
    ("until", ["<Idle"]),
    ("$J=G53X-90F300\n", ["ok"]),
    ("G4P0\n", ["error:9"]),
    ("$I\n", ["error:8"]),
    ("\x85", []),
    ("until", ["<Idle"]),
    *[("$J=G53X-200F600\n", ["error:15"]), ("$J=X-20\n", ["error:22"]), ("$J\n", ["error:3"])],
    *[("$J=G1X-20F100\n", ["error:16"]), ("$J=G4P0\n", ["error:22"])],
    ("$J=G53X-90F300\n", ["ok"]),
    ("until", ["<Jog"]),
    ("\x18", ["ALARM:3", HAL_BANNER, LOCKED]),
    ("$J=G53X-20F600\n", ["error:8"]),
    ("$X\n", [UNLOCKED, "ok"]),
    ("$H\n", ["<Home", "[MSG:]", "ok"]),
    # Locked, it still reports, and refuses in words; no line is confirmed that was dropped.
    ("G53G1X-150F600\n", ["ALARM:2", RESET_REQUEST]),
    ("until", ["<Alarm"]),
    ("$X\n", ["error:79"]),
    ("\x18", [HAL_BANNER, LOCKED]),
    ("$X\n", [UNLOCKED, "ok"]),
]
TRANSCRIPTS = {"grbl": GRBL, "grblhal": GRBLHAL}


@pytest.fixture(params=[DIALECT] if PORT else ["grbl", "grblhal"])
def board(request: pytest.FixtureRequest) -> Iterator[tuple[str, SerialLine]]:
    if PORT:
        line = SerialLine(PORT, 115200, CLOCK)
        yield request.param, line
        line.close()
        return
    with VirtualGrbl(CLOCK, dialect=request.param) as virtual:
        line = SerialLine(virtual.port, 115200, CLOCK)
        yield request.param, line
        line.close()


def comparable(line: bytes) -> str:
    """The line without what depends on the time or on a build option."""
    text = line.decode("ascii", "replace")
    return re.sub(r"\|(H:\d|TLR:0)", "", text)


def test_the_emulated_board_answers_like_the_firmware(board: tuple[str, SerialLine]) -> None:
    dialect, line = board

    def receive() -> str:
        while True:
            received = line.read_message(CLOCK.now() + LONGEST_S)
            assert received is not None, f"no answer to {sent!r}"
            if received:
                return comparable(received)

    for sent, expected in TRANSCRIPTS[dialect]:
        if sent == "until":
            deadline = CLOCK.now() + LONGEST_S
            while True:
                line.write(b"?")
                report = receive()
                assert report.startswith("<"), f"{report} instead of a report"
                if report.startswith(expected[0]):
                    break
                assert CLOCK.now() < deadline, f"{report} instead of {expected[0]}"
                CLOCK.sleep_until(CLOCK.now() + 0.02)
            continue
        line.write(sent.encode("latin-1"))
        if not expected:
            CLOCK.sleep_until(CLOCK.now() + 0.05)
        for wanted in expected:
            received = receive()
            whole = wanted.endswith((">", "]")) or not wanted.startswith("<")
            same = received == wanted if whole else received.startswith(wanted)
            assert same, f"{received!r} instead of {wanted!r} after {sent!r}"
    assert line.read_message(CLOCK.now() + 0.1) is None
