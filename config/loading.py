"""How a config comes to be: a preset, a TOML file on top of it, `--set` values on top of both.

What is wrong is told with the key's path, where the value came from, the reason, and what would
be valid.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from macontrol.config.errors import ConfigError
from macontrol.config.schema import Config

DEFAULT_PRESET = "paper"


def preset_names() -> list[str]:
    """The presets that come with macontrol."""
    folder = resources.files("macontrol.config") / "presets"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """The TOML text of a preset, with its comments."""
    if name not in preset_names():
        raise ConfigError(f"no preset called {name!r}; there are: {', '.join(preset_names())}")
    return (resources.files("macontrol.config") / "presets" / f"{name}.toml").read_text("utf-8")


def load_config(
    path: Path | str | None = None,
    assignments: Iterable[str] = (),
    *,
    preset: str | None = None,
) -> Config:
    """Read a config: the preset, then the file's values, then the `section.key=value` ones.

    A file may name the preset it builds on with a top-level `preset = "…"`.
    """
    tables, sources = _read_file(path)
    base = preset or tables.pop("preset", DEFAULT_PRESET)
    tables.pop("preset", None)
    if not isinstance(base, str):
        raise ConfigError(f"{path}: preset: {base!r} is not the name of a preset")
    merged = _merged(_preset_tables(base), tables)
    for assignment in assignments:
        section, key, value = _parse_assignment(assignment)
        merged.setdefault(section, {})
        if not isinstance(merged[section], dict):
            raise ConfigError(f"--set {assignment}: {section} is not a section")
        merged[section][key] = value
        sources[f"{section}.{key}"] = f"--set {assignment}"
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_explain(error, sources)) from None


def _preset_tables(name: str) -> dict[str, Any]:
    """A preset's tables, on top of those of the preset it builds on, if it names one."""
    tables = tomllib.loads(preset_text(name))
    base = tables.pop("preset", None)
    return tables if base is None else _merged(_preset_tables(base), tables)


def _merged(base: dict[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the tables' values in place of its own."""
    merged = dict(base)
    for section, table in tables.items():
        if isinstance(table, Mapping) and isinstance(merged.get(section), dict):
            merged[section] = {**merged[section], **table}
        else:
            merged[section] = table
    return merged


def _read_file(path: Path | str | None) -> tuple[dict[str, Any], dict[str, str]]:
    if path is None:
        return {}, {}
    try:
        tables = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{path}: {reason}; give the path of a TOML file") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or beyond all bounds
        raise ConfigError(f"{path}: this is not TOML: {error}") from None
    keys = [f"{s}.{k}" for s, table in tables.items() if isinstance(table, dict) for k in table]
    return tables, dict.fromkeys([*tables, *keys], str(path))


def _parse_assignment(text: str) -> tuple[str, str, Any]:
    path, equals, value = text.partition("=")
    section, dot, key = path.strip().partition(".")
    if not (equals and dot and section and key):
        raise ConfigError(f"--set {text}: write it as section.key=value, as in algorithm.beta=2")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")
    except (ValueError, RecursionError):
        parsed = {}
    # What is no TOML value, or holds more than one, is text.
    return section, key, parsed["value"] if len(parsed) == 1 else value.strip()


def _explain(error: ValidationError, sources: Mapping[str, str]) -> str:
    """One line a problem: where it stands, what was given, why it will not do, what would."""
    lines: dict[str, list[str]] = {}
    given: dict[str, Any] = {}
    for item in error.errors():
        if item["loc"]:
            path = ".".join(str(part) for part in item["loc"][:2])
            lines.setdefault(path, []).append(_reason(item))
            given[path] = item["input"]
        else:  # contradictions between sections: they carry their own paths
            for line in str(item["ctx"]["error"]).splitlines():
                path, _, reason = line.partition(": ")
                lines.setdefault(path, []).append(reason)
    told = []
    for path, reasons in lines.items():
        value = "" if path not in given or "unknown" in reasons[0] else f" = {_shown(given[path])}"
        origin = f" ({sources[path]})" if path in sources else ""
        told.append(f"{path}{value}{origin}: {' or '.join(dict.fromkeys(reasons))}")
    return "\n".join(told)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _reason(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return _unknown(item["loc"])
    if item["type"] == "missing":
        return "is missing"
    message = str(item["msg"]).replace("Input should", "it should").rstrip(".")
    message = message.removeprefix("Value error, ")
    return message[0].lower() + message[1:]


def _unknown(path: tuple[int | str, ...]) -> str:
    model: type[BaseModel] = Config
    for part in path[:-1]:
        annotation = model.model_fields[str(part)].annotation
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
        model = annotation
    known = list(model.model_fields)
    close = difflib.get_close_matches(str(path[-1]), known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are: {', '.join(known)}"
    return f"unknown {'key' if len(path) > 1 else 'section'}; {hint}"
