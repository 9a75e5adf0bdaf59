"""Read a TOML file of settings, with the line of each key, and `--set section.key=value`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from macontrol.config.files.input_file import CONFIG_LIMIT, read_input
from macontrol.config.model.errors import ConfigError, DataError

_MOST_DOTS = 200
_HEADER = re.compile(r"\s*\[\s*([\w-]+)\s*(?:\.\s*([\w-]+)\s*)?\]")
_KEY = re.compile(r"\s*([\w-]+)\s*(?:\.\s*([\w-]+)\s*)?(?:\.\s*([\w-]+)\s*)?=")


def read_toml(path: Path | str) -> tuple[dict[str, Any], dict[str, str]]:
    """A file's tables, and the file and line of each key."""
    try:
        text = read_input(Path(path), CONFIG_LIMIT).decode("utf-8-sig")
        tables = parse_toml(text)
    except DataError as error:  # whatever is wrong with the file: it is the configuration
        raise ConfigError(error.detail, error.fix) from None
    except UnicodeDecodeError as error:
        line = error.object.count(10, 0, error.start) + 1
        raise ConfigError(
            f"{path}: this is not TOML: line {line} is not UTF-8", "save it as UTF-8 text"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: this is not TOML: {_reason_of(error)}") from None
    lines = _lines_of_keys(text)
    return tables, {
        key: f"{path}, line {lines[key]}" if key in lines else str(path) for key in paths_in(tables)
    }


def paths_in(tables: Mapping[str, Any]) -> Iterator[str]:
    """Each section, key and key of a driver, as "section", "section.key", "section.driver.key"."""
    for section, table in tables.items():
        yield section
        if isinstance(table, Mapping):
            for key, value in table.items():
                yield f"{section}.{key}"
                if isinstance(value, Mapping):
                    yield from (f"{section}.{key}.{own}" for own in value)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. A key of thousands of parts is refused: tomllib takes memory by its square."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > _MOST_DOTS and not line.lstrip().startswith("#"):
            raise ValueError(
                f"line {number} has {line.count('.')} dots, and no key or list here needs more "
                f"than {_MOST_DOTS}"
            )
    return tomllib.loads(text)


def parse_value(text: str) -> Any:
    """A TOML value; what is no TOML value, or holds more than one, is text."""
    try:
        parsed = parse_toml(f"value = {text}")
    except (ValueError, RecursionError):
        parsed = {}
    return parsed["value"] if len(parsed) == 1 else text


def _reason_of(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deeply"
    if "set_int_max_str_digits" in str(error):  # Python's words about a long number
        return "it holds a number of more than 4300 digits"
    return str(error)


def _lines_of_keys(text: str) -> dict[str, int]:
    """The line of each section and key, as far as they are written plainly."""
    lines: dict[str, int] = {}
    prefix: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            prefix = [part for part in header.groups() if part]
            lines.setdefault(".".join(prefix), number)
        elif key := _KEY.match(line):
            path = [*prefix, *(part for part in key.groups() if part)]
            for length in range(len(prefix) + 1, min(len(path), 3) + 1):
                lines.setdefault(".".join(path[:length]), number)
    return lines
