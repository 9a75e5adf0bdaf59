"""Show a configuration: every setting, its value, and where the value was set.

`config show` prints TOML. A comment after each value names its origin: a default of macontrol, a
preset, a line of a file, or --set.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from macontrol.command_parser import HelpFormatter
from macontrol.commands.shared_arguments import add_config_arguments, loaded_from
from macontrol.config import Loaded
from macontrol.config.key_help import key_help
from macontrol.config.loading import values_of

_COMMENT_COLUMN = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show", help="print every setting", description=__doc__, formatter_class=HelpFormatter
    )
    show.add_argument("--json", action="store_true", help="print JSON: path, value and origin")
    add_config_arguments(show, policy=True)


def main(arguments: argparse.Namespace) -> int:
    loaded = loaded_from(arguments)
    print(_as_json(loaded) if arguments.json else _as_toml(loaded))
    return 0


def _as_json(loaded: Loaded) -> str:
    return json.dumps(
        {
            path: {"value": value, "origin": loaded.origin(path)}
            for path, value in values_of(loaded.config)
        },
        indent=2,
        ensure_ascii=False,
    )


def _as_toml(loaded: Loaded) -> str:
    lines: list[str] = []
    table, helps = "", key_help(loaded.config)
    for path, value in values_of(loaded.config):
        of, _, key = path.rpartition(".")
        if of != table:
            table = of
            lines += ["", f"[{table}]"]
        text = helps.get(f"{of.partition('.')[0]}.{key}")
        comment = loaded.origin(path) + (f" - {text}" if text else "")
        lines.append(f"{f'{key} = {_toml_value(value)}':{_COMMENT_COLUMN}} # {comment}")
    return "\n".join(lines[1:])


def _toml_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
