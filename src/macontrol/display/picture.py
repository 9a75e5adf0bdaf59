"""The drawing process of the live view: reads states from a pipe and draws them.

It imports neither numpy nor the controller, to draw the first picture soon.
"""

from __future__ import annotations

import io
import json
import signal
import sys
from collections import deque
from math import isfinite
from typing import Any, TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from macontrol.display.characters import ASCII, UNICODE, Glyphs, can_show

# The run's process decides when to end; a view ended by a signal would leave the cursor hidden.
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NARROWEST, _WIDEST = 20, 96
_BORDERS = 4
_TITLE_BORDERS = 6
_LABEL = 9
# The panel's borders, the first line, the numbers and the phases.
_OTHER_LINES = 2 + 1 + 5 + 5


def draw(
    state: dict[str, Any], history: deque[float], width: int, height: int, glyphs: Glyphs
) -> Panel:
    """Draw a run in at most `width` columns; 23 lines are enough."""
    inner = width - _BORDERS
    graphs = _graphs(state, history, inner, glyphs)
    notice = [_line(line, inner, glyphs, "bold yellow") for line in state["notice"]]
    room = height - len(graphs) - len(notice) - _OTHER_LINES
    # A traceback belongs in the log; here its last line is enough.
    last_lines = [line.strip().rpartition("\n")[2] for line in state["events"]]
    shown = last_lines[max(len(last_lines) - room, 0) :]
    events = [_line(line, inner, glyphs, "yellow") for line in shown]
    parts: list[RenderableType] = [
        _line(_doing(state, glyphs), inner, glyphs, "bold"),
        *graphs,
        _numbers(state, glyphs),
        _phases(state, glyphs),
        *notice,
        *events,
    ]
    return Panel(
        Group(*parts),
        title=Text(_title(state["title"], width - _TITLE_BORDERS, glyphs)),
        width=width,
        box=box.ROUNDED if glyphs is UNICODE else box.ASCII,
    )


def _title(run: str, room: int, glyphs: Glyphs) -> str:
    """The title; a long port name is cut at its start."""
    start, on, name = f"macontrol {glyphs.between} {run}".partition(" on ")
    room -= len(start + on)
    if 0 < room < len(name):
        name = glyphs.ellipsis + name[len(name) - room + len(glyphs.ellipsis) :]
    return start + on + name


def _line(text: str, room: int, glyphs: Glyphs, style: str) -> Text:
    """One line, cut with an ellipsis that the terminal can show."""
    if len(text) > room:
        text = text[: max(room - len(glyphs.ellipsis), 0)] + glyphs.ellipsis
    return Text(text, style, no_wrap=True, overflow="crop")


def _doing(state: dict[str, Any], glyphs: Glyphs) -> str:
    slots = f"slots of {state['slot_s'] * 1e3:g} ms"
    if state["doing"]:
        return f"{state['doing']} {glyphs.ellipsis}  (slot {state['slot']}, {slots})"
    if not state["slots"]:
        return f"starting {glyphs.ellipsis}  ({slots})"
    return f"slot {state['slot']}, {slots}; bars show rewards to {state['g_max']:.1f}"


def _graphs(
    state: dict[str, Any], history: deque[float], inner: int, glyphs: Glyphs
) -> list[RenderableType]:
    """The estimate over the rail, the rail, and the reward over time, each with its label."""
    width = max(inner - _LABEL, 1)
    ends = f"{state['length']:g} {glyphs.wavelength} = {state['length_mm']:.0f} mm"
    marks = f"{glyphs.antenna} antenna  {glyphs.target} target"
    rows = []
    if state["estimate"]:
        estimate = _bars(_resampled(state["estimate"], width), state, glyphs)
        rows.append(("estimate", estimate, "blue"))
    rows += [
        ("rail", _rail(state, width, glyphs), "cyan"),
        ("", f"0{marks:^{max(width - len(ends) - 1, 0)}}{ends}", "dim"),
        ("reward", _bars(list(history)[-width:], state, glyphs), "green"),
    ]
    return [
        Text.assemble(
            (f"{label:<{_LABEL}}", "dim"), (graph, style), no_wrap=True, overflow="ellipsis"
        )
        for label, graph, style in rows
    ]


def _numbers(state: dict[str, Any], glyphs: Glyphs) -> Table:
    slots = max(state["slots"], 1)

    def length(key: str) -> str:
        millimetres = _number(state[f"{key}_mm"], glyphs, ".1f")
        return f"{_number(state[key], glyphs)} {glyphs.wavelength} {millimetres} mm"

    estimate = _number(state["estimate_here"], glyphs)
    if isfinite(state["estimate_here"]):
        estimate += f" {glyphs.plus_minus} {_number(state['deviation_here'], glyphs)}"
    rows = (
        ("position", length("position"), "reward", _number(state["reward"], glyphs)),
        ("target", length("target"), "averaged", _number(state["recent"], glyphs)),
        ("travel", length("travel"), "SNR", f"{_number(state['snr_db'], glyphs, '.1f')} dB"),
        (
            "switches",
            f"{state['switches']}, in transit {state['transit'] / slots:.0%}",
            "estimate",
            estimate,
        ),
        (
            "faults",
            f"{state['faults']}, invalid {state['invalid']}",
            "late",
            f"{state['late']} ({state['missed']} missed)",
        ),
    )
    table = Table.grid(padding=(0, 1))
    for _ in range(4):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for name, value, other, other_value in rows:
        table.add_row(Text(name, "dim"), value, Text(other, "dim"), other_value)
    return table


def _phases(state: dict[str, Any], glyphs: Glyphs) -> Table:
    """How long the phases of a slot take, and the time planned for each."""
    table = Table.grid(padding=(0, 1))
    for number in range(5):
        justify = "right" if number else "left"
        table.add_column(no_wrap=True, overflow="ellipsis", justify=justify)  # type: ignore[arg-type]
    heads = ("phase", "p50", "p99", "largest", "planned")
    table.add_row(*(Text(head, "dim") for head in heads))
    for name, (p50, p99, largest, planned) in state["phases"].items():
        if isfinite(p99):  # not in the middle of the first slot
            times = [_time(seconds, glyphs) for seconds in (p50, p99, largest)]
            # A measurement always takes its planned time, and a little more to wake up.
            style = "red" if p99 > 1.1 * planned else ""
            table.add_row(name, *times, _time(planned, glyphs), style=style)
    return table


def _rail(state: dict[str, Any], width: int, glyphs: Glyphs) -> str:
    """The rail, with the antenna and its target on it."""
    cells = [glyphs.rail] * width
    for position, mark in ((state["target"], glyphs.target), (state["position"], glyphs.antenna)):
        if isfinite(position):
            cells[round(min(max(position / state["length"], 0.0), 1.0) * (width - 1))] = mark
    return "".join(cells)


def _bars(values: list[float], state: dict[str, Any], glyphs: Glyphs) -> str:
    bars = glyphs.bars
    scaled = (
        min(max(value / state["g_max"], 0.0), 0.999) if isfinite(value) else 0.0 for value in values
    )
    return "".join(bars[int(value * len(bars))] for value in scaled)


def _resampled(values: list[float], width: int) -> list[float]:
    last = len(values) - 1
    return [values[round(cell * last / max(width - 1, 1))] for cell in range(width)]


def _number(value: float, glyphs: Glyphs, form: str = ".3f") -> str:
    return f"{value:{form}}" if isfinite(value) else glyphs.none


def _time(seconds: float, glyphs: Glyphs) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} {glyphs.micro}s"
    return f"{seconds * 1e3:.2f} ms"


def main(source: TextIO = sys.stdin) -> None:
    """Draw the states from the pipe until it ends."""
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an event can contain any character
    console = Console()
    glyphs = UNICODE if can_show(console.encoding) else ASCII
    history: deque[float] = deque(maxlen=400)
    with Live(console=console, auto_refresh=False) as live:
        for line in source:
            state = json.loads(line)
            if isfinite(state["recent"]):
                history.append(state["recent"])
            width = min(max(console.width, _NARROWEST), _WIDEST)
            drawn = draw(state, history, width, console.height - 1, glyphs)
            # The terminal echoes Ctrl-C at the cursor: an empty line keeps it out of the picture.
            live.update(Group(drawn, Text()), refresh=True)


if __name__ == "__main__":
    main()
