"""The layers of a config: presets, a file, `--set`. Later layers replace values of earlier ones.

Each layer is brought into the present spelling first: keys of a driver move into its own table. The
origin of every value is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from macontrol.config.checks.rf_plan import PLAN_KEYS
from macontrol.config.drivers import CHOICES, misplaced_keys, settings_class, sort_table
from macontrol.config.model.errors import ConfigError
from macontrol.config.model.suggestion import shortened
from macontrol.config.sections.driver import ChosenSettings

DEFAULT = "default"
"""The origin of a value that no layer sets."""
_shown: set[str] = set()


@dataclass
class Layer:
    """Tables of settings, and where each key was set."""

    name: str
    """The origin of keys that have none of their own, as in "preset paper"."""
    tables: dict[str, Any]
    sources: Mapping[str, str] = field(default_factory=dict)
    is_preset: bool = False

    def origin(self, path: str) -> str:
        return self.sources.get(path, self.name)


@dataclass
class Merged:
    """All layers in one."""

    tables: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """Where each value was set, by its path in the present spelling."""
    chosen: set[str] = field(default_factory=set)
    """The paths of values that were set outside presets."""
    idle: dict[str, str] = field(default_factory=dict)
    """Keys of other drivers that were set outside presets, and why they have no effect."""
    notices: list[str] = field(default_factory=list)
    """Keys in the spelling of earlier versions, and how they are spelled now."""


def merge(layers: Sequence[Layer]) -> Merged:
    """Merge layers, and bring each into the present spelling."""
    merged = Merged()
    classes = {section: _settings_in(section, layers) for section in CHOICES}
    for layer in layers:
        for section, table in layer.tables.items():
            settings = classes.get(section)
            if not isinstance(table, Mapping) or (settings is None and section in CHOICES):
                merged.tables[section] = table
                merged.origins[section] = layer.origin(section)
                continue
            previous = merged.tables.get(section)
            target = merged.tables[section] = dict(previous) if isinstance(previous, dict) else {}
            merged.origins.setdefault(section, layer.origin(section))
            if settings is None:
                _add(merged, layer, target, section, table)
            else:
                _add_for_driver(merged, layer, target, section, table, settings)
        _forget_stale_converter(merged, layer, classes["probe"])
    return merged


def _add(
    merged: Merged, layer: Layer, target: dict[str, Any], path: str, table: Mapping[str, Any]
) -> None:
    for key, value in table.items():
        target[key] = value
        merged.origins[f"{path}.{key}"] = layer.origin(f"{path}.{key}")
        if not layer.is_preset:
            merged.chosen.add(f"{path}.{key}")


def _add_for_driver(
    merged: Merged,
    layer: Layer,
    target: dict[str, Any],
    section: str,
    table: Mapping[str, Any],
    settings: type[ChosenSettings],
) -> None:
    keys, driver = sort_table(section, table, settings), settings.driver_name()
    _refuse_misplaced(layer, section, table)
    _add(merged, layer, target, section, keys.common)
    if driver:
        own = target[driver] = dict(target.get(driver, {}))
        _add(merged, layer, own, f"{section}.{driver}", keys.own)
    for old, new in keys.moved.items():
        where = merged.origins[f"{section}.{new}"] = layer.origin(f"{section}.{old}")
        merged.notices.append(f"{section}.{old} ({where}) is now {section}.{new}")
    for key in keys.removed:
        where = layer.origin(f"{section}.{key}")
        merged.notices.append(f"{section}.{key} ({where}) has no effect any more; remove it")
    if not layer.is_preset:
        chosen = driver or target.get(settings.chooser)
        why = f"{section}.{settings.chooser} is {chosen}"
        merged.idle |= {f"{section}.{key}": why for key in keys.others}


def _refuse_misplaced(layer: Layer, section: str, table: Mapping[str, Any]) -> None:
    """Refuse a driver's table that is not a table, or that holds a key of the section itself."""
    for name in CHOICES[section][1].table_names():
        own = table.get(name, {})
        if not isinstance(own, Mapping):
            where = f"{section}.{name} = {shortened(own)} ({layer.origin(f'{section}.{name}')})"
            raise ConfigError(f"{where}: it should be a table of settings")
        if not own:
            continue
        for key in misplaced_keys(section, name, own):
            path = f"{section}.{name}.{key}"
            raise ConfigError(
                f"{path} ({layer.origin(path)}): every {CHOICES[section][0]} has this setting",
                f"write it as {section}.{key}",
            )


def _settings_in(section: str, layers: Sequence[Layer]) -> type[ChosenSettings] | None:
    """The settings of the driver that the last layer names; None if no layer names one."""
    for layer in reversed(layers):
        table = layer.tables.get(section)
        if not isinstance(table, Mapping):
            if table is not None:
                return None
        elif (key := CHOICES[section][0]) in table:
            try:
                return settings_class(section, table[key])
            except ConfigError as error:
                where = f"{section}.{key} = {shortened(table[key])}"
                origin = layer.origin(f"{section}.{key}")
                raise ConfigError(
                    f"{where} ({origin}): {error.detail}", error.fix
                ) from error.__cause__
    return None


def _forget_stale_converter(
    merged: Merged, layer: Layer, probe: type[ChosenSettings] | None
) -> None:
    """Do not apply a preset's converter to a file's own frequencies.

    A file from before `probe.converter_lo_hz` may have its own carrier or tuner: its converter is
    not the preset's, and it is unknown.
    """
    if not layer.sources or probe is None or "converter_lo_hz" not in probe.model_fields:
        return
    stated = {path for path in PLAN_KEYS if path in layer.sources}
    if stated and "probe.converter_lo_hz" not in layer.sources:
        merged.tables["probe"]["converter_lo_hz"] = "unknown"
        merged.origins["probe.converter_lo_hz"] = f"unknown, as {min(stated)} is set"


def notify(notices: Sequence[str]) -> None:
    """Print notices on standard error, each once per process."""
    for notice in notices:
        if notice not in _shown:
            _shown.add(notice)
            with suppress(OSError, ValueError, AttributeError):  # it may be closed
                print(f"macontrol: note: {notice}", file=sys.stderr, flush=True)
