"""Show what a running daemon does; without a name, the only one, or a list of several.

With --watch it prints a line per second, and events as they happen, until the daemon ends or
Ctrl-C. With --json it prints the complete snapshot (docs/control.md), one object per line.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from macontrol.config.model.errors import NoDaemonError
from macontrol.control.client import Client, daemons, open_client

_PROGRAM = "macontrol status"
_NAMES = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="name or port of the bench (default: the only daemon, or a list)",
    )
    parser.add_argument(
        "--watch", action="store_true", help="continue: a line per second, and all events"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one object per line")


def main(arguments: argparse.Namespace) -> int:
    if arguments.name is None and not arguments.watch:
        running = daemons(_PROGRAM)
        try:
            if len(running) > 1:
                for client in running:
                    _show(client.call("status"), is_json=arguments.json, is_short=True)
                return 0
        finally:
            for client in running:
                client.close()
    with open_client(arguments.name, _PROGRAM) as client:
        if arguments.watch:
            return _watch(client, is_json=arguments.json)
        _show(client.call("status"), is_json=arguments.json)
    return 0


def _watch(client: Client, *, is_json: bool) -> int:
    client.call("subscribe", rate=1, events=True)
    for method, parameters in client.notifications():
        if method == "snapshot":
            _show(parameters, is_json=is_json, is_short=True)
        elif is_json:
            print(json.dumps({method: parameters}))
        elif method == "event":
            print(parameters["text"])
        sys.stdout.flush()
    raise NoDaemonError(f"the daemon {client.about['name']} has ended")


def _show(state: dict[str, Any], *, is_json: bool, is_short: bool = False) -> None:
    if is_json:
        print(json.dumps(state))
    elif is_short:
        print(_line(state))
    else:
        width = max(len(label) for label, _ in _rows(state))
        for label, text in _rows(state):
            print(f"{label:{width}}  {text}")


def _line(state: dict[str, Any]) -> str:
    name = state["name"]
    if len(name) > _NAMES:
        name = f"…{name[1 - _NAMES :]}"
    counts = state["counts"] or {}
    late = sum(counts.get(kind, 0) for kind in ("missed", "late_arrivals", "late_decisions"))
    return (
        f"{name}  {_doing(state)}  slot {state['slot']}  at {_place(state, 'position')}  "
        f"reward {_number(state['reward']['recent'])}  {late} late or missed"
    )


def _rows(state: dict[str, Any]) -> list[tuple[str, str]]:
    reward, rail, counts = state["reward"], state["rail"], state["counts"] or {}
    rows = [
        ("bench", f"{state['name']} ({state['backend']}), pid {state['pid']}"),
        ("state", _doing(state)),
        ("since", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state["started_s"]))),
        ("policy", state["policy"]),
        ("trial", _trial(state)),
        ("slot", f"{state['slot']}, T_s = {state['timing']['slot_s'] * 1e3:g} ms"),
        ("position", f"{_place(state, 'position')}, on {rail['length']:g} λ"),
        ("target", _place(state, "target")),
        ("reward", f"{_number(reward['recent'])} bit/s/Hz, mean {_number(reward['mean'])}"),
        ("fixed antenna", _number(reward["fixed"]) if reward["fixed"] is not None else ""),
        ("travel", f"{_number(counts.get('travel'))} λ, {counts.get('switches', 0)} switches"),
        ("late", _counted(counts, "missed", "late_arrivals", "late_decisions")),
        ("faults", _counted(counts, "stage_faults", "probe_faults", "refused", "invalid")),
        ("settings", ", ".join(f"{k} = {v['value']:g}" for k, v in state["settings"].items())),
        ("run file", state["recording"]["run_file"] or "none"),
    ]
    return [(label, text) for label, text in rows if text]


def _doing(state: dict[str, Any]) -> str:
    words = [state["state"]]
    survey, goal = state["survey"], state["hold"]["goal"]
    if survey is not None:
        words.append(f"({survey['done']} of {survey['positions']} positions)")
    if state["hold"]["is_held"] and state["state"] == "surveying":
        words.append("(held; `macontrol resume` continues)")
    if goal is not None:
        words.append(f"(at or on the way to {goal:.3f} λ)")
    if state["activity"]:
        words.append(f"({state['activity']})")
    return " ".join(words)


def _trial(state: dict[str, Any]) -> str:
    trial = state["trial"]
    if trial is None or not trial["block"]:
        return "" if trial is None else "before the first block"
    return f"block {trial['block']} of {trial['blocks']}, round {trial['round']}/{trial['rounds']}"


def _place(state: dict[str, Any], key: str) -> str:
    if state[key] is None:
        return "unknown"
    return f"{state[key]:.3f} λ = {state[f'{key}_mm']:.2f} mm"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _counted(counts: dict[str, Any], *kinds: str) -> str:
    return ", ".join(f"{counts.get(kind, 0)} {kind.replace('_', ' ')}" for kind in kinds)
