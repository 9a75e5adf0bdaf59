"""The live view of a run on a terminal, drawn by a process of its own.

Drawing takes milliseconds of Python, which the slot thread must not wait for. The run's process
only sends a few numbers down a pipe four times a second; this module, run as
`python -m macontrol.display.live_view`, reads them and draws.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from math import isfinite
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from macontrol.controller.record import Event, EventKind, LateReward, Recorder, SlotRecord
from macontrol.controller.tally import Tally
from macontrol.display.output import Output

_INTERVAL_S = 0.25
_CLOSE_WITHIN_S = 0.5
_NARROWEST = 20
_SHOW_CURSOR = "\x1b[?25h"
# The run's process decides when to end, and a view that is told to would leave a hidden cursor.
_NOT_FOR_THE_VIEW = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BARS = "▁▂▃▄▅▆▇█"
# With some radios every reward is a slot late, and is used all the same.
_NOT_SHOWN = (EventKind.START, EventKind.LATE_REWARD)
# How the number that goes with an event is told.
_VALUES = {
    EventKind.MISSED: ", {:.0f} slots",
    EventKind.RECOVERY: " after {:.3g} s",
    EventKind.HOMING: ", in {:.3g} s",
    EventKind.APPROACH: ": {:.3f}",
    EventKind.NOISE_FLOOR: ": {:.1f} dBFS",
    EventKind.LATE_ARRIVAL: ", {:.3g} s late",
    EventKind.LATE_DECISION: ", {:.3g} s late",
}


class LiveView(Recorder):
    """Feeds the drawing process; costs the slot thread one look at each event."""

    def __init__(self, tally: Tally, facts: dict[str, Any]) -> None:
        self._tally = tally
        self._facts = facts
        self._events: deque[str] = deque(maxlen=4)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="live-view", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the drawing process; an OSError if there can be none."""
        command = [sys.executable, "-m", "macontrol.display.live_view"]
        # Blocked, not ignored: the run's process hears of a signal that comes just now.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_THE_VIEW)
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._thread.start()

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, Event) and item.kind not in _NOT_SHOWN:
            form = _VALUES.get(item.kind, " {:.3g}")
            value = "" if item.value is None else form.format(item.value)
            self._events.append(f"slot {item.slot}: {item.kind}: {item.detail}{value}")

    def close(self) -> None:
        """Draw the last state and leave it standing."""
        process = self._process
        if process is None:
            return
        self._ended.set()
        self._thread.join(_CLOSE_WITHIN_S)
        try:
            process.wait(_CLOSE_WITHIN_S)
        except subprocess.TimeoutExpired:  # it hangs, perhaps on a terminal that was stopped
            process.kill()
            process.wait()
            Output().write_within(_SHOW_CURSOR, _CLOSE_WITHIN_S)

    def _feed(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        with suppress(OSError), self._process.stdin as pipe:  # a view that has gone is no trouble
            ended = False
            while not ended:
                ended = self._ended.wait(_INTERVAL_S)
                pipe.write(json.dumps(self._snapshot()).encode() + b"\n")

    def _snapshot(self) -> dict[str, Any]:
        tally = self._tally
        return {
            **self._facts,
            "slot": tally.slot,
            "slots": tally.slots,
            "position": tally.position,
            "target": tally.target,
            "reward": tally.reward,
            "recent": tally.recent_reward,
            "mean": tally.mean_reward,
            "switches": tally.switches,
            "travel": tally.travel,
            "transit": tally.transit,
            "late": tally.late,
            "missed": tally.missed,
            "faults": [tally.invalid, tally.stage_faults, tally.probe_faults, tally.refused],
            "phases": {
                name: [phase.at(50), phase.at(99), phase.largest]
                for name, phase in (
                    ("wake-up", tally.wake),
                    ("actuate", tally.actuate),
                    ("measure", tally.measure),
                    ("decide", tally.decide),
                )
            },
            "events": list(self._events),
        }


def draw(state: dict[str, Any], history: deque[float], width: int) -> Panel:
    """One picture of a run."""
    slots = max(state["slots"], 1)
    faults = state["faults"]
    numbers = Table.grid(padding=(0, 2))
    rows = (
        ("slot", f"{state['slot']}", "switches", f"{state['switches']}"),
        ("position", f"{state['position']:.3f} λ", "travel", f"{state['travel']:.2f} λ"),
        ("target", f"{state['target']:.3f} λ", "in transit", f"{state['transit'] / slots:.1%}"),
        (
            "reward",
            _number(state["reward"]),
            "late",
            f"{state['late']} ({state['missed']} slots missed)",
        ),
        ("averaged", _number(state["recent"]), "faults", f"{sum(faults)}"),
    )
    for name, value, other, other_value in rows:
        numbers.add_row(Text(name, "dim"), value, Text(other, "dim"), other_value)
    phases = Table.grid(padding=(0, 2))
    phases.add_row(
        *(Text(head, "dim") for head in ("phase", "p50", "p99", "largest", "p99 of slot"))
    )
    for name, (p50, p99, largest) in state["phases"].items():
        if not isfinite(p99):  # looked at in the middle of the first slot
            continue
        share = p99 / state["slot_s"]
        bar = "█" * round(min(share, 1.0) * 20)
        phases.add_row(name, _time(p50), _time(p99), _time(largest), f"{bar:<20} {share:.0%}")
    parts: list[Any] = [
        Text(_rail(state, width - 6), "cyan"),
        Text(_sparkline(history, state["g_max"], width - 6), "green"),
        numbers,
        Text(),
        phases,
    ]
    if state["events"]:
        # A traceback is for the log; here its last line will do.
        last_lines = (line.strip().rpartition("\n")[2] for line in state["events"])
        parts += [Text(), *(Text(line, "yellow") for line in last_lines)]
    return Panel(Group(*parts), title=f"macontrol · {state['title']}", width=width)


def _rail(state: dict[str, Any], width: int) -> str:
    """The rail, with the antenna and its target on it."""
    cells = ["─"] * width
    for position, mark in ((state["target"], "○"), (state["position"], "●")):
        if isfinite(position):
            cells[round(min(max(position / state["length"], 0.0), 1.0) * (width - 1))] = mark
    return "".join(cells)


def _sparkline(history: deque[float], top: float, width: int) -> str:
    shown = list(history)[-width:]
    scaled = (min(max(value / top, 0.0), 0.999) for value in shown)
    return "".join(_BARS[int(value * len(_BARS))] for value in scaled)


def _number(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else "–"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main(source: TextIO = sys.stdin) -> None:
    """Draw what comes down the pipe until it ends."""
    for number in _NOT_FOR_THE_VIEW:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_FOR_THE_VIEW)
    console = Console()
    history: deque[float] = deque(maxlen=400)
    with Live(console=console, auto_refresh=False) as live:
        for line in source:
            state = json.loads(line)
            if state["slots"]:
                if isfinite(state["recent"]):
                    history.append(state["recent"])
                width = min(max(console.width, _NARROWEST), 96)
                live.update(draw(state, history, width), refresh=True)


if __name__ == "__main__":
    main()
