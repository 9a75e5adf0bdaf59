"""Load a config: presets, then a TOML file, then `--set` values.

An error names the key, where its value was set (file and line, or `--set`), the reason, and the
fix.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from macontrol.config.checks.effects import idle_site_settings, without_effect
from macontrol.config.drivers import CHOICES, settings_class
from macontrol.config.explaining import explain, places_of
from macontrol.config.layers import DEFAULT, Layer, Merged, merge, notify
from macontrol.config.model.errors import ConfigError, DataError
from macontrol.config.model.suggestion import cut, shortened
from macontrol.config.policies import POLICIES
from macontrol.config.presets import DEFAULT_PRESET, preset_tables
from macontrol.config.schema import Config
from macontrol.config.sections.section import Section
from macontrol.config.toml_text import parse_value, paths_in, read_toml


@dataclass(frozen=True)
class Loaded:
    """A config, with the origin of each value."""

    config: Config
    origins: Mapping[str, str]
    """Where each value was set, by path: as in "preset paper" or "bench.toml, line 3"."""
    idle: Mapping[str, str]
    """Settings of other drivers, and why they have no effect."""
    start: Mapping[str, Any]
    """The tables of the presets alone."""

    def origin(self, path: str) -> str:
        return self.origins.get(path, DEFAULT)

    def without_effect(self) -> dict[str, str]:
        """The settings that differ from the preset's and have no effect, and why."""
        found = without_effect(self.config)
        if not found:
            return dict(self.idle)
        changed = differing_keys(self.config, Config.model_validate(self.start))
        return {**self.idle, **{key: why for key, why in found.items() if key in changed}}


def load_config(
    path: Path | str | None = None,
    assignments: Iterable[str] = (),
    *,
    preset: str | None = None,
    base: Config | None = None,
) -> Config:
    """Load a config: the preset, then the file's values, then the `section.key=value` ones.

    A file may name the preset it builds on with a top-level `preset = "…"`. Where neither names
    one, the values of `base` take the place of the default preset's.
    """
    return load_with_origins(path, assignments, preset=preset, base=base).config


def load_with_origins(
    path: Path | str | None = None,
    assignments: Iterable[str] = (),
    *,
    preset: str | None = None,
    base: Config | None = None,
) -> Loaded:
    """As `load_config`, with the origin of each value."""
    tables, sources = read_toml(path) if path is not None else ({}, {})
    named = tables.pop("preset", None)
    if preset is None and named is None and base is not None:
        start = [Layer("the stored config", base.model_dump(), is_preset=True)]
    else:
        where = "" if preset or named is None else sources["preset"]
        found = preset_tables(preset or (DEFAULT_PRESET if named is None else named), where)
        start = [Layer(f"preset {name}", each, is_preset=True) for name, each in found]
    layers = [*start, Layer(str(path), tables, sources), *map(_assigned, assignments)]
    merged = merge(layers)
    config = _validated(merged)
    _refuse_wrong_tables(layers, merged)
    notify(merged.notices)
    before = merge(start).tables
    _refuse_idle(config, before, merged)
    return Loaded(config, merged.origins, merged.idle, before)


def _validated(merged: Merged) -> Config:
    try:
        return Config.model_validate(merged.tables)
    except ValidationError as error:
        raise explain(error, merged.tables, merged.origins) from None


def _assigned(text: str) -> Layer:
    """The layer of one `--set section.key=value`."""
    path, equals, value = text.partition("=")
    section, *keys = (part.strip() for part in path.strip().split("."))
    if not (equals and section and keys and all(keys)):
        places, example = places_of(path.strip()), "algorithm.beta=2"
        if places:
            example = f"{places[0]}={cut(value.strip()) or 'VALUE'}"
        raise ConfigError(f"--set {cut(text)}", f"write it as section.key=value, as in {example}")
    if len(keys) > 1 and not (section in CHOICES and len(keys) == 2):
        keys = [".".join(keys)]
    table: dict[str, Any] = {keys[-1]: parse_value(value.strip())}
    for key in reversed(keys[:-1]):
        table = {key: table}
    return Layer(f"--set {cut(text)}", {section: table})


def _refuse_wrong_tables(layers: Iterable[Layer], merged: Merged) -> None:
    """Refuse wrong values in the tables of drivers that are not in use."""
    for layer in layers:
        for section, (key, registry) in CHOICES.items():
            table, used = layer.tables.get(section, {}), merged.tables.get(section, {}).get(key)
            for name in table:
                if name in registry.names() and name != used:
                    _check_table(layer, section, name, table[name])


def _check_table(layer: Layer, section: str, driver: str, table: Mapping[str, Any]) -> None:
    try:
        _own_part(section, driver).model_validate(table)
    except ValidationError as error:
        path = f"{section}.{driver}"
        origins = {f"{path}.{key}": layer.origin(f"{path}.{key}") for key in table}
        tables = {section: {CHOICES[section][0]: driver, driver: table}}
        raise explain(error, tables, origins, section) from None


def _own_part(section: str, name: str) -> type[BaseModel]:
    """The model of the own table of a driver or policy."""
    if section != "algorithm":
        return settings_class(section, name)
    return POLICIES[name].settings or Section


def _refuse_idle(config: Config, start: Mapping[str, Any], merged: Merged) -> None:
    """Refuse a site that was set to something else than the preset's and has no effect."""
    idle = {p: why for p, why in idle_site_settings(config).items() if p in merged.chosen}
    changed = differing_keys(config, Config.model_validate(start)) if idle else {}
    lines = [
        f"{path} = {shortened(changed[path][0])} ({merged.origins[path]}): {why}"
        for path, why in idle.items()
        if path in changed
    ]
    if lines:
        raise ConfigError("\n".join(lines))


def _value_in(tables: Mapping[str, Any], path: str) -> Any:
    found: Any = tables
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def stored_config(text: str) -> Config:
    """The config that a map or a run file keeps as JSON; a DataError if it is not one.

    A file of an earlier version lacks the settings that are newer. They get the default preset's
    values, which stand for what earlier versions did.
    """
    try:
        tables = json.loads(text)
        if not isinstance(tables, dict):
            raise DataError("it is not a JSON object")
        start = [Layer(f"preset {name}", each) for name, each in preset_tables(DEFAULT_PRESET)]
        completed = [
            Layer(
                layer.name, {name: table for name, table in layer.tables.items() if name in tables}
            )
            for layer in start
        ]
        merged = merge([*completed, Layer("a stored config", tables)])
        config = Config.model_validate(merged.tables)
    except ValidationError as error:
        raise DataError(f"it has {error.error_count()} values that do not fit") from None
    except ConfigError as error:
        raise DataError(error.detail, error.fix) from None
    except (ValueError, RecursionError):
        raise DataError("it is not JSON") from None
    if merged.notices:
        notify(["a config stored by an earlier version is read in the present spelling"])
    return config


def values_of(config: Config) -> Iterator[tuple[str, Any]]:
    """Each setting's path and value."""
    tables = config.model_dump()
    for path in paths_in(tables):
        value = _value_in(tables, path)
        if not isinstance(value, dict):
            yield path, value


def differing_keys(config: Config, other: Config) -> dict[str, tuple[Any, Any]]:
    """The settings in which two configs differ: the path with the value of each.

    Settings that only one of them has, as their drivers differ, are left out.
    """
    theirs = dict(values_of(other))
    return {
        path: (value, theirs[path])
        for path, value in values_of(config)
        if path in theirs and value != theirs[path]
    }
