"""Explain what is wrong with a config: key, value, where it was set, reason and fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from macontrol.config.drivers import CHOICES, DRIVERS, settings_class
from macontrol.config.model.errors import ConfigError, ContradictionError
from macontrol.config.model.suggestion import cut, did_you_mean, shortened
from macontrol.config.schema import Config

_MOST_PROBLEMS = 8


def explain(
    error: ValidationError,
    tables: Mapping[str, Any],
    origins: Mapping[str, str],
    section: str | None = None,
) -> ConfigError:
    """One line per problem; `section` is what was validated, if not the whole config."""
    if (contradiction := _contradiction_in(error)) is not None:
        return _of_contradictions(contradiction, origins)
    reasons: dict[str, list[str]] = {}
    given: dict[str, Any] = {}
    for item in error.errors()[:_MOST_PROBLEMS]:
        within = item["loc"] if section is None else (section, *item["loc"])
        path = _path_of(within, tables)
        reasons.setdefault(path, []).append(_reason(item, path, tables))
        given[path] = item["input"]
        if item["type"] == "extra_forbidden" or isinstance(given[path], Mapping):
            given.pop(path)
    lines = []
    for path, found in reasons.items():
        value = f" = {shortened(given[path])}" if path in given else ""
        lines.append(f"{path}{value}{_origin(path, origins)}: {' or '.join(dict.fromkeys(found))}")
    if error.error_count() > _MOST_PROBLEMS:
        lines.append(f"and {error.error_count() - _MOST_PROBLEMS} more")
    return ConfigError("\n".join(lines))


def _of_contradictions(error: ContradictionError, origins: Mapping[str, str]) -> ConfigError:
    if len(error.problems) == 1:
        (only,) = error.problems
        return ConfigError(f"{only.key}{_origin(only.key, origins)}: {only.detail}", only.fix)
    reasons: dict[str, list[str]] = {}
    for each in error.problems:
        reasons.setdefault(each.key, []).append(f"{each.detail}; {each.fix}")
    lines = (
        f"{key}{_origin(key, origins)}: {' or '.join(found)}" for key, found in reasons.items()
    )
    return ConfigError("\n".join(lines))


def _contradiction_in(error: ValidationError) -> ContradictionError | None:
    for item in error.errors():
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, ContradictionError):
            return cause
    return None


def _origin(path: str, origins: Mapping[str, str]) -> str:
    return f" ({origins[path]})" if path in origins else ""


def _path_of(location: tuple[int | str, ...], tables: Mapping[str, Any]) -> str:
    """The path of a setting as a file has it: keys of a driver stand in its own table."""
    parts = [cut(str(part)) for part in location[:2]]
    model = _driver_model(parts[0], tables)
    if model is not None and len(parts) == 2 and parts[1] in model.own_keys():
        parts.insert(1, model.driver_name())
    elif model is not None and len(parts) == 2 and parts[1] not in model.model_fields:
        own = tables[parts[0]].get(model.driver_name(), {})
        if parts[1] in own:
            parts.insert(1, model.driver_name())
    return ".".join(parts)


def _driver_model(section: str, tables: Mapping[str, Any]) -> Any:
    """The settings class of the driver in use, for a section that a driver shapes."""
    table = tables.get(section)
    key = CHOICES[section][0] if section in CHOICES else ""
    if not isinstance(table, Mapping) or key not in table:
        return None
    return settings_class(section, table[key])


def _reason(item: Any, path: str, tables: Mapping[str, Any]) -> str:
    if item["type"] == "extra_forbidden":
        return _unknown(path, tables)
    if item["type"] == "missing":
        return "is missing"
    message = str(item["msg"]).replace("Input should", "it should").rstrip(".")
    message = message.removeprefix("Value error, ")
    return message[0].lower() + message[1:]


def _unknown(path: str, tables: Mapping[str, Any]) -> str:
    """Say that a section or a key is unknown, and which one is probably meant."""
    *parents, word = path.split(".")
    if parents[:1] == ["reference"] and "driver" not in (tables.get("reference") or {}):
        return "it needs reference.driver, the name of a probe driver, as in [probe]"
    what = "key" if parents else "section"
    if places := places_of(word):
        return f"unknown {what}; did you mean {' or '.join(places)}?"
    known: list[str] = list(Config.model_fields)
    if parents:
        model = _driver_model(parents[0], tables) or _model_of(parents[0])
        known = list(model.model_fields)
    return f"unknown {what}; {did_you_mean(word, known)}"


def _model_of(section: str) -> type[BaseModel]:
    annotation = Config.model_fields[section].annotation
    assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation


def places_of(key: str) -> list[str]:
    """The path of every setting of this name."""
    found = [
        f"{section}.{key}"
        for section in Config.model_fields
        if key in _model_of(section).model_fields
    ]
    for section, registry in DRIVERS.items():
        for description in registry.working():
            settings = description.settings
            if key in settings.own_keys():
                found.append(f"{section}.{description.name}.{key}")
            elif key in settings.model_fields:
                found.append(f"{section}.{key}")
    return list(dict.fromkeys(found))
