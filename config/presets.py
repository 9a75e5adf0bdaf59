"""The presets: TOML files of `config/presets` and of the drivers' packages."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from macontrol.config.drivers import DRIVERS
from macontrol.config.model.errors import ConfigError
from macontrol.config.model.suggestion import did_you_mean, shortened

DEFAULT_PRESET = "paper"
_FOLDER = Path(__file__).parent / "presets"


def _files() -> dict[str, Path]:
    folders = [
        _FOLDER,
        *(folder for each in DRIVERS.values() for folder in each.folders().values()),
    ]
    files = [file for folder in reversed(folders) for file in folder.glob("*.toml")]
    return {file.stem: file for file in files}


def preset_names() -> list[str]:
    """The presets that come with macontrol and with its drivers."""
    return sorted(_files())


def preset_text(name: object, where: str = "") -> str:
    """The TOML text of a preset, with its comments; `where` says who names it."""
    files = _files()
    if not isinstance(name, str) or name not in files:
        place = f"{where}: preset = {shortened(name)}: no such preset"
        raise ConfigError(
            place if where else f"no preset called {shortened(name)}",
            did_you_mean(str(name), sorted(files)),
        )
    return files[name].read_text("utf-8")


def preset_tables(name: Any, where: str = "") -> list[tuple[str, dict[str, Any]]]:
    """A preset's name and tables, after those of the presets it builds on."""
    tables = tomllib.loads(preset_text(name, where))
    base = tables.pop("preset", None)
    return [*(preset_tables(base) if base is not None else []), (name, tables)]
