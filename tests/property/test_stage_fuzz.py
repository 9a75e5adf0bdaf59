"""Arbitrary bytes from the wire never crash or block a driver, and never move anything."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macontrol.config.model.errors import MacontrolError
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.hal.serial.stage import SerialStage
from macontrol.hal.stages.grbl.driver import GrblStage
from macontrol.hal.stages.zaber.driver import ZaberStage
from support.garbled_boards import ZABER_REPLIES, FuzzedGrbl, FuzzedLine, FuzzedZaber, Noise
from support.scripted_grbl import BANNER, BUILD, LOCKED, status
from support.scripted_stage import stage_settings
from support.scripted_zaber import summed, zaber_settings


@dataclass(frozen=True)
class Kind:
    """One driver, and what its board may send."""

    driver: type[GrblStage] | type[ZaberStage]
    settings: Any
    line: type[FuzzedLine]
    noise: st.SearchStrategy[Noise]
    motions: tuple[str, ...]
    """Substrings of the commands that move the carriage."""
    move_to_10: str
    """The command that moves the stage to 10 mm."""

    def stage(
        self, clock: VirtualClock, noise: list[Noise], *, correct: bool
    ) -> tuple[FuzzedLine, SerialStage]:
        line = self.line(clock, noise, correct=correct)
        return line, self.driver(self.settings, clock, open_line=lambda: line)

    def motions_in(self, sent: list[str]) -> list[str]:
        return [text for text in sent if any(word in text for word in self.motions)]


GRBL_WORDS = [
    *(b"ok", b"error:9", b"error:20", b"ALARM:1", b"ALARM:2", b"ALARM:3", BANNER, LOCKED),
    *(b"[MSG:Reset to continue]", b"$100=80.000", b"$100=-1", b"$130=0.000", *BUILD),
    *(status(state, x) for state in ("Idle", "Run", "Hold:0", "Alarm") for x in (-2.0, -50.0)),
    *(b"<Idle|MPos:1e9,0,0>", b"<Idle|MPos:99999999.0,0.0,0.0>", b"<Idle|WPos:1.0>", b""),
]
ZABER_LINES = [summed("!01 1 IDLE --"), summed("!01 1 IDLE FS"), b"@01 1 OK", b"", b"/"]

GRBL = Kind(
    GrblStage,
    stage_settings(),
    FuzzedGrbl,
    st.one_of(st.sampled_from(GRBL_WORDS), st.binary(max_size=40)),
    motions=("G1", "G0", "$H", "$J"),
    move_to_10="G21G90G94G53G1X-12.0000F6000.0\nG4P0\n",
)
ZABER = Kind(
    ZaberStage,
    zaber_settings(),
    FuzzedZaber,
    st.one_of(st.sampled_from(ZABER_REPLIES), st.sampled_from(ZABER_LINES), st.binary(max_size=40)),
    motions=("move", "home"),
    move_to_10="move abs 10000",
)

for_each_kind = pytest.mark.parametrize("kind", [GRBL, ZABER], ids=["grbl", "zaber"])


@pytest.mark.fault("no-board-on-port")
@for_each_kind
@settings(max_examples=150)
@given(data=st.data())
def test_connecting_to_any_device_moves_nothing(kind: Kind, data: st.DataObject) -> None:
    clock = VirtualClock()
    noise = data.draw(st.lists(kind.noise, max_size=60))
    line, stage = kind.stage(clock, noise, correct=False)
    with contextlib.suppress(MacontrolError):
        stage.connect(20.0)
    assert clock.now() <= 20.0 + 0.1
    with contextlib.suppress(MacontrolError):
        stage.move_to(10.0, clock.now() + 1.0)
    assert not kind.motions_in(line.sent)


@pytest.mark.fault("garbage-on-wire")
@for_each_kind
@settings(max_examples=150)
@given(data=st.data(), action=st.sampled_from(["move", "where", "stop", "home", "recover"]))
def test_noise_during_a_run_moves_nothing_off_the_rail_and_delays_nothing(
    kind: Kind, data: st.DataObject, action: str
) -> None:
    clock = VirtualClock()
    noise = data.draw(st.lists(kind.noise, max_size=60))
    line, stage = kind.stage(clock, noise, correct=True)
    stage.connect(30.0)
    stage.home(60.0)
    line.send_noise()
    start, deadline = clock.now(), clock.now() + 20.0
    with contextlib.suppress(MacontrolError):
        if action == "move":
            stage.move_to(10.0, deadline)
        elif action == "where":
            stage.where(deadline)
        elif action == "home":
            stage.home(deadline)
        elif action == "recover":
            stage.recover(deadline)
        else:
            stage.stop()
    assert clock.now() <= start + 20.0 + 0.1
    moved = kind.motions_in(line.sent)
    if action in ("where", "stop"):
        assert not moved
    homing = ("$H\n", "home")
    assert [text for text in moved if text not in homing] in ([], [kind.move_to_10])
    if not stage.is_homed:
        line.sent.clear()
        with contextlib.suppress(MacontrolError):
            stage.move_to(10.0, clock.now() + 1.0)
        assert not kind.motions_in(line.sent)
