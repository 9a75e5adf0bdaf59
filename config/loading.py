"""How a config comes to be: a preset, a TOML file on top of it, `--set` values on top of both.

An error names the key, where its value was set (file and line, or `--set`), the reason, and what
would be valid.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from macontrol.config.checks.effects import idle_site_settings, without_effect
from macontrol.config.checks.rf_plan import PLAN_KEYS
from macontrol.config.files.input_file import CONFIG_LIMIT, read_input
from macontrol.config.model.errors import ConfigError, DataError
from macontrol.config.model.suggestion import cut, did_you_mean, shortened
from macontrol.config.schema import Config

DEFAULT_PRESET = "paper"
_MOST_DOTS = 200
_MOST_PROBLEMS = 8


def preset_names() -> list[str]:
    """The presets that come with macontrol."""
    folder = resources.files("macontrol.config") / "presets"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """The TOML text of a preset, with its comments."""
    if name not in preset_names():
        hint = did_you_mean(name, preset_names())
        raise ConfigError(f"no preset called {shortened(name)}; {hint}")
    return (resources.files("macontrol.config") / "presets" / f"{name}.toml").read_text("utf-8")


def load_config(
    path: Path | str | None = None,
    assignments: Iterable[str] = (),
    *,
    preset: str | None = None,
    base: Config | None = None,
) -> Config:
    """Read a config: the preset, then the file's values, then the `section.key=value` ones.

    A file may name the preset it builds on with a top-level `preset = "…"`. Where neither names
    one, the values of `base` take the place of the default preset's.
    """
    tables, sources = _read_file(path)
    named = tables.pop("preset", None)
    if preset is None and named is None and base is not None:
        start = base.model_dump()
    else:
        start = _preset_tables(preset or _known_preset(named, sources.get("preset", str(path))))
    merged = _without_stale_plan(_merged(start, tables), tables)
    for assignment in assignments:
        section, key, value = _parse_assignment(assignment)
        merged.setdefault(section, {})
        if not isinstance(merged[section], dict):
            raise ConfigError(f"--set {cut(assignment)}: {section} is not a section")
        merged[section][key] = value
        sources[f"{section}.{key}"] = f"--set {cut(assignment)}"
        sources.setdefault(section, f"--set {cut(assignment)}")
    try:
        config = Config.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_explain(error, sources)) from None
    _refuse_idle(config, start, sources)
    return config


def _refuse_idle(config: Config, start: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Refuse a site that was set to something else than the preset's and has no effect."""
    lines = []
    for path, why in idle_site_settings(config).items():
        section, _, key = path.partition(".")
        value = getattr(getattr(config, section), key)
        if path in sources and value != _as_given(start[section][key]):
            lines.append(f"{path} = {shortened(value)} ({sources[path]}): {why}")
    if lines:
        raise ConfigError("\n".join(lines))


def _as_given(value: Any) -> Any:
    """A value of a preset as the config has it: lists are tuples there."""
    return tuple(value) if isinstance(value, list) else value


def overrides_without_effect(
    config: Config, path: Path | str | None, preset: str | None
) -> dict[str, str]:
    """The settings of a config that differ from its preset's and have no effect, and why."""
    tables, sources = _read_file(path)
    named = preset or _known_preset(tables.get("preset"), sources.get("preset", str(path)))
    changed = differing_keys(config, load_config(preset=named))
    return {key: why for key, why in without_effect(config).items() if key in changed}


def stored_config(text: str) -> Config:
    """The config that a map or a run file keeps as JSON; a DataError if it is not one.

    A file of an earlier version lacks the settings that are newer. They get the default preset's
    values, which stand for what earlier versions did.
    """
    try:
        tables = json.loads(text)
        if not isinstance(tables, dict):
            raise DataError("it is not a JSON object")
        return Config.model_validate(_completed(_preset_tables(DEFAULT_PRESET), tables))
    except ValidationError as error:
        raise DataError(f"it has {error.error_count()} values that do not fit") from None
    except (ValueError, RecursionError):
        raise DataError("it is not JSON") from None


def _completed(base: dict[str, Any], tables: dict[str, Any]) -> dict[str, Any]:
    """The tables, with keys of the base that sections of them lack."""
    return {
        name: {**base[name], **table} if isinstance(table, dict) and name in base else table
        for name, table in tables.items()
    }


def differing_keys(config: Config, other: Config) -> dict[str, tuple[Any, Any]]:
    """The settings in which two configs differ: `section.key` with the value of each."""
    ours, theirs = config.model_dump(), other.model_dump()
    return {
        f"{section}.{key}": (value, theirs[section][key])
        for section, table in ours.items()
        for key, value in table.items()
        if value != theirs[section][key]
    }


def _known_preset(named: object, where: str) -> str:
    """The preset that a file names, or the default; a ConfigError if there is none of that name."""
    if named is None:
        return DEFAULT_PRESET
    if not isinstance(named, str) or named not in preset_names():
        hint = did_you_mean(str(named), preset_names())
        raise ConfigError(f"{where}: preset = {shortened(named)}: no such preset; {hint}")
    return named


def _preset_tables(name: str) -> dict[str, Any]:
    """A preset's tables, on top of those of the preset it builds on, if it names one."""
    tables = tomllib.loads(preset_text(name))
    base = tables.pop("preset", None)
    return tables if base is None else _merged(_preset_tables(base), tables)


def _without_stale_plan(merged: dict[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    """Do not apply a preset's converter to a file's own frequencies.

    A file from before `probe.converter_lo_hz` may have its own carrier or tuner: its converter is
    not the preset's, and it is unknown.
    """
    stated = {
        (section, key)
        for section, table in tables.items()
        if isinstance(table, Mapping)
        for key in table
    }
    probe = merged.get("probe")
    if (
        stated & PLAN_KEYS
        and ("probe", "converter_lo_hz") not in stated
        and isinstance(probe, dict)
    ):
        return {**merged, "probe": {**probe, "converter_lo_hz": "unknown"}}
    return merged


def _merged(base: dict[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the tables' values in place of its own."""
    merged = {
        name: dict(table) if isinstance(table, dict) else table for name, table in base.items()
    }
    for section, table in tables.items():
        if isinstance(table, Mapping) and isinstance(merged.get(section), dict):
            merged[section] = {**merged[section], **table}
        else:
            merged[section] = table
    return merged


def _read_file(path: Path | str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """A file's tables, and the file and line of each key."""
    if path is None:
        return {}, {}
    try:
        text = read_input(Path(path), CONFIG_LIMIT).decode("utf-8-sig")
        tables = _parse_toml(text)
    except DataError as error:  # whatever is wrong with it: the configuration is
        raise ConfigError(str(error)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: this is not TOML: line {error.object.count(10, 0, error.start) + 1} is not "
            "UTF-8; save it as UTF-8 text"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: this is not TOML: {_reason_of(error)}") from None
    keys = [f"{s}.{k}" for s, table in tables.items() if isinstance(table, dict) for k in table]
    lines = _lines_of_keys(text)
    sources = {
        key: f"{path}, line {lines[key]}" if key in lines else str(path) for key in [*tables, *keys]
    }
    return tables, sources


def _parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. A key of thousands of parts is refused: tomllib takes memory by its square."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > _MOST_DOTS and not line.lstrip().startswith("#"):
            raise ValueError(
                f"line {number} has {line.count('.')} dots, and no key or list here needs more "
                f"than {_MOST_DOTS}"
            )
    return tomllib.loads(text)


def _reason_of(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deeply"
    if "set_int_max_str_digits" in str(error):  # what Python says of a long number
        return "it holds a number of more than 4300 digits"
    return str(error)


_HEADER = re.compile(r"\s*\[\s*([\w-]+)\s*\]")
_KEY = re.compile(r"\s*([\w-]+)\s*(?:\.\s*([\w-]+)\s*)?=")


def _lines_of_keys(text: str) -> dict[str, int]:
    """The line of each section and key, as far as they are written plainly."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            section = header[1]
            lines.setdefault(section, number)
        elif key := _KEY.match(line):
            parts = [part for part in (section, key[1], key[2]) if part]
            lines.setdefault(".".join(parts[:2]), number)
    return lines


def _parse_assignment(text: str) -> tuple[str, str, Any]:
    path, equals, value = text.partition("=")
    section, dot, key = path.strip().partition(".")
    if not (equals and dot and section and key):
        places, example = _places_of(path.strip()), "algorithm.beta=2"
        if places:
            example = f"{places[0]}={cut(value.strip()) or 'VALUE'}"
        raise ConfigError(f"--set {cut(text)}: write it as section.key=value, as in {example}")
    try:
        parsed = _parse_toml(f"value = {value.strip()}")
    except (ValueError, RecursionError):
        parsed = {}
    # What is no TOML value, or holds more than one, is text.
    return section, key, parsed["value"] if len(parsed) == 1 else value.strip()


def _explain(error: ValidationError, sources: Mapping[str, str]) -> str:
    """One line per problem: the key, the value, where it was set, the reason, and the fix."""
    lines: dict[str, list[str]] = {}
    given: dict[str, Any] = {}
    for item in error.errors()[:_MOST_PROBLEMS]:
        if item["loc"]:
            path = ".".join(cut(str(part)) for part in item["loc"][:2])
            lines.setdefault(path, []).append(_reason(item))
            given[path] = item["input"]
        else:  # contradictions between sections: they carry their own paths
            for line in str(item["ctx"]["error"]).splitlines():
                path, _, reason = line.partition(": ")
                lines.setdefault(path, []).append(reason)
    explained = []
    for path, reasons in lines.items():
        shown = path in given and "unknown" not in reasons[0]
        shown = shown and not isinstance(given[path], Mapping)
        value = f" = {shortened(given[path])}" if shown else ""
        origin = f" ({sources[path]})" if path in sources else ""
        explained.append(f"{path}{value}{origin}: {' or '.join(dict.fromkeys(reasons))}")
    if error.error_count() > _MOST_PROBLEMS:
        explained.append(f"and {error.error_count() - _MOST_PROBLEMS} more")
    return "\n".join(explained)


def _reason(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return _unknown(item["loc"])
    if item["type"] == "missing":
        return "is missing"
    message = str(item["msg"]).replace("Input should", "it should").rstrip(".")
    message = message.removeprefix("Value error, ")
    return message[0].lower() + message[1:]


def _unknown(path: tuple[int | str, ...]) -> str:
    """Say that a section or a key is unknown, and which one is probably meant."""
    word = str(path[-1])
    what = "key" if len(path) > 1 else "section"
    if places := _places_of(word):
        return f"unknown {what}; did you mean {' or '.join(places)}?"
    model: type[BaseModel] = Config
    for part in path[:-1]:
        annotation = model.model_fields[str(part)].annotation
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
        model = annotation
    return f"unknown {what}; {did_you_mean(word, model.model_fields)}"


def _places_of(key: str) -> list[str]:
    """Every section that has a key of this name, as section.key."""
    found = []
    for section, field in Config.model_fields.items():
        annotation = field.annotation
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
        if key in annotation.model_fields:
            found.append(f"{section}.{key}")
    return found
