"""Reference pages that are generated when the site is built: settings, commands, Python names."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import macontrol
from macontrol import cli
from macontrol.command_parser import HelpFormatter, Parser
from macontrol.config.drivers import DRIVERS
from macontrol.config.key_help import docs_of
from macontrol.config.presets import preset_names, preset_tables
from macontrol.config.schema import Config
from macontrol.config.sections.driver import DriverSettings
from macontrol.config.toml_text import paths_in

SUFFIXES = {
    "_m_per_s2": "m/s²",
    "_m_per_s": "m/s",
    "_mm_per_s": "mm/s",
    "_hz": "Hz",
    "_mm": "mm",
    "_mb": "MB",
    "_db": "dB",
    "_deg": "degrees",
    "_s": "s",
    "_share": "share",
    "_slots": "slots",
}
"""The unit by the end of a name."""
UNITS = {
    **dict.fromkeys(
        [
            "physical.region_length",
            "physical.stroke",
            "physical.initial_position",
            "kernel.fringe_periods",
            "kernel.fringe_damping",
            "kernel.residual_length",
            "kernel.se_length",
            "algorithm.grid_spacing",
            "channel.shadow_extent",
            "channel.shadow_edge",
            "drift.shadow_step",
        ],
        "wavelengths",
    ),
    **dict.fromkeys(["algorithm.window", "algorithm.sweep_period", "run.horizon"], "slots"),
    "reward.movement_cost": "bit/s/Hz per wavelength",
    "probe.noise_floor": "dBFS; of line and scpi dBm, of a ratio dB",
    **dict.fromkeys(["probe.dbm_a", "probe.dbm_b"], "dBm"),
    "run.keep_days": "days",
    "probe.ppm": "ppm",
    "stage.baud_rate": "baud",
}
"""The unit of a key whose name has none."""


def configuration_page() -> str:
    """Every setting: type, unit, default, meaning, and the presets that set it."""
    lines = [
        "# Configuration reference",
        "",
        "Every table and key of a configuration. A key without a default is set by the preset "
        "`paper`, on which the others build. `macontrol config show` prints the values of a "
        "configuration and where each was set.",
        "",
    ]
    for section, field in Config.model_fields.items():
        if section in DRIVERS:
            lines += _driver_tables(section)
        else:
            assert isinstance(field.annotation, type)
            lines += _table(section, section, field.annotation, list(field.annotation.model_fields))
    return "\n".join(lines)


def _driver_tables(section: str) -> Iterator[str]:
    """The table that all drivers share, then each driver's own."""
    found = [description.settings for description in DRIVERS[section].working()]
    shared = [key for key in found[0].model_fields if key not in found[0].own_keys()]
    common = [key for key in shared if all(key in each.model_fields for each in found)]
    yield from _table(section, section, found[0], common)
    for settings in found:
        own = [key for key in settings.model_fields if key not in common]
        yield from _table(section, f"{section}.{settings.driver_name()}", settings, own)


def _table(section: str, table: str, model: type[Any], keys: list[str]) -> Iterator[str]:
    summary = (model.__doc__ or "").split("\n")[0]
    yield from ("", f"## `[{table}]`", "", summary, "")
    if not keys:
        yield "This driver has no settings of its own."
        return
    yield "| key | type | unit | default | meaning | presets |"
    yield "|---|---|---|---|---|---|"
    meanings, defaults = docs_of(model), issubclass(model, DriverSettings)
    for key in keys:
        field = model.model_fields[key]
        # A key of a radio or a serial port is shared, and is written beside the driver's table.
        place = f"{section}.{key}"
        if issubclass(model, DriverSettings) and key in model.own_keys():
            place = f"{table}.{key}"
        cells = (
            f"`{place}`",
            _type(field),
            unit_of(section, key),
            "" if key == "driver" and defaults else _default(field),
            meanings.get(key, ""),
            _presets(place),
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def unit_of(section: str, key: str) -> str:
    """The unit of a key, by its name or by the list."""
    listed = UNITS.get(f"{section}.{key}")
    ends = (unit for end, unit in SUFFIXES.items() if key.endswith(end))
    return next(ends, "") if listed is None else listed


def _default(field: FieldInfo) -> str:
    return "" if field.default is PydanticUndefined else f"`{_toml(field.default)}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else f"{value!r}"


def _presets(path: str) -> str:
    """The presets that set a key, with their values."""
    found: dict[str, list[str]] = {}
    for name in preset_names():
        tables = preset_tables(name)[-1][1]
        if path in set(paths_in(tables)):
            value: Any = tables
            for part in path.split("."):
                value = value[part]
            found.setdefault(_toml(value), []).append(name)
    return "; ".join(f"`{value}`: {', '.join(names)}" for value, names in found.items())


def _type(field: FieldInfo) -> str:
    return _words(field.annotation, field.metadata)


def _words(kind: Any, metadata: Any = ()) -> str:
    """A type for a reader: "number > 0", "one of …"."""
    origin = get_origin(kind)
    if origin is Annotated:
        kind, *more = get_args(kind)
        flat = [each for info in more for each in getattr(info, "metadata", [info])]
        return _words(kind, flat)
    if origin in (Union, UnionType):
        return " or ".join(_words(each) for each in get_args(kind) if each is not NoneType)
    if origin is Literal:
        return ", ".join(f'`"{value}"`' for value in get_args(kind))
    if origin is tuple:
        inner = [each for each in get_args(kind) if each is not Ellipsis]
        return f"list of {_words(inner[0])}" if len(set(inner)) == 1 else "list"
    name = {bool: "true or false", int: "integer", float: "number", str: "text"}[kind]
    return " ".join([name, *_limits(metadata)])


def _limits(metadata: Any) -> Iterator[str]:
    for info in metadata:
        for sign, attribute in ((">", "gt"), ("≥", "ge"), ("<", "lt"), ("≤", "le")):
            limit = getattr(info, attribute, None)
            is_limit = isinstance(info, annotated_types.BaseMetadata)
            # 1e15 is a guard against overflow, not a limit.
            if is_limit and isinstance(limit, int | float) and abs(limit) < 1e15:
                yield f"{sign} {limit:g}"


def commands_page() -> str:
    """Every command and option, from the parsers."""
    lines = ["# Command reference", "", "`macontrol help COMMAND` prints the same.", ""]
    parser = Parser(prog="macontrol", formatter_class=HelpFormatter, add_help=False)
    run = import_module("macontrol.commands.run")
    run.add_arguments(parser)
    lines += ["## macontrol", "", str(run.__doc__).strip(), "", *_options(parser)]
    for name, summary in cli.COMMANDS.items():
        module = cli.load_command(name)
        parser = Parser(prog=f"macontrol {name}", add_help=False, formatter_class=HelpFormatter)
        module.add_arguments(parser)
        lines += ["", f"## macontrol {name}", "", f"Purpose: {summary}.", ""]
        lines += ["```text", str(module.__doc__).strip(), "```", "", *_options(parser)]
    lines += ["", "## Commands, examples, exit codes", "", "```text", cli.EPILOG.strip(), "```"]
    return "\n".join(lines) + "\n"


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = [a for a in parser._actions if not isinstance(a, argparse._SubParsersAction)]
    if actions:
        yield "| argument | meaning |"
        yield "|---|---|"
    for action in actions:
        if action.help == argparse.SUPPRESS:
            continue
        value = "" if action.nargs == 0 else f" {_value(action)}"
        names = ", ".join(action.option_strings)
        word = f"{names}{value}" if names else _value(action)
        meaning = (action.help or "") % {**vars(action), "prog": parser.prog}
        required = " (required)" if action.required and names else ""
        yield f"| `{_escape(word)}` | {_escape(meaning)}{required} |"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            for name, sub in action.choices.items():
                yield from ("", f"### {sub.prog}", "", f"Purpose: {helps.get(name) or name}.", "")
                yield from _options(sub)


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _escape(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def python_page() -> str:
    """The promised names, for mkdocstrings to document."""
    lines = [
        "# Python interface",
        "",
        "For notebooks and scripts. The names on this page stay; everything else in the package "
        "is private. Positions are in wavelengths, rewards in bit/s/Hz, times in seconds. "
        "[The tutorial](../write-a-policy.md) shows them at work.",
        "",
        "`macontrol.__version__` is the version of the package.",
    ]
    for name in (name for name in macontrol.__all__ if name != "__version__"):
        lines += ["", f"::: macontrol.{name}"]
    return "\n".join(lines) + "\n"


PAGES = {
    "reference/configuration.md": configuration_page,
    "reference/commands.md": commands_page,
    "reference/python.md": python_page,
}
