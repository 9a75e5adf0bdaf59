"""List every stage driver, probe driver and policy: built in, or of another distribution.

Each is loaded, and its state is `ok`, or `broken` with the reason. A broken one disturbs only what
names it. The settings are the keys of its own table, as in [stage.NAME].
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from macontrol import __version__
from macontrol.config.drivers import CHOICES
from macontrol.config.model.errors import ConfigError
from macontrol.config.model.registry import source_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    with redirect_stdout(sys.stderr):  # a plug-in may print when it is imported
        found = list(_plug_ins())
    if arguments.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    rows = [
        [each["kind"], each["name"], each["distribution"], each["state"], _remark(each)]
        for each in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=False))
        print(f"{'  '.join(cells)}  {row[4]}".rstrip())
    return 0


def _remark(found: dict[str, Any]) -> str:
    return str(found["reason"] or ", ".join(found["settings"]))


def _plug_ins() -> Iterator[dict[str, Any]]:
    for section, (_, registry) in CHOICES.items():
        if section == "reference":  # its drivers are the probes
            continue
        kind = "policy" if section == "algorithm" else section
        for name in registry.built_in_names():
            load = partial(registry.__getitem__, name)
            yield _state(kind, name, f"macontrol {__version__}", load)
        for entry in registry.plug_ins:
            load = partial(registry.load_entry, entry)
            if entry.name not in registry.built_in_names():
                load = partial(registry.__getitem__, entry.name)  # its name may be taken
            yield _state(kind, entry.name, source_of(entry), load)


def _state(kind: str, name: str, source: str, load: Callable[[], Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": kind, "name": name, "distribution": source}
    try:
        model = load().settings
    except ConfigError as error:
        return {**facts, "state": "broken", "reason": str(error), "settings": []}
    if model is None:
        keys: list[str] = []
    elif kind == "policy":
        keys = list(model.model_fields)
    else:
        keys = [key for key in model.model_fields if key in model.own_keys()]
    return {**facts, "state": "ok", "reason": "", "settings": keys}
