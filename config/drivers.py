"""The drivers of stages and probes, and the policies, as far as a config needs them: settings.

Drivers live in `hal` and in other distributions. They are found when they are used, so that config
imports none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from macontrol.config.model.errors import ConfigError
from macontrol.config.model.registry import Registry
from macontrol.config.policies import POLICIES
from macontrol.config.sections.algorithm import algorithm_class
from macontrol.config.sections.driver import ChosenSettings, DriverSettings
from macontrol.config.sections.reference import NoReference


class DriverDescription(Protocol):
    """What config and sim use of a driver's description; `hal.registry` has the whole."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> type[DriverSettings]: ...
    @property
    def emulator(self) -> str: ...


STAGE_DRIVERS: Registry[DriverDescription] = Registry(
    "stage driver",
    "macontrol.hal.stages",
    "macontrol.stages",
    "macontrol.hal.registry:StageDriver",
)
PROBE_DRIVERS: Registry[DriverDescription] = Registry(
    "probe driver",
    "macontrol.hal.probes",
    "macontrol.probes",
    "macontrol.hal.registry:ProbeDriver",
)
DRIVERS: dict[str, Registry[DriverDescription]] = {"stage": STAGE_DRIVERS, "probe": PROBE_DRIVERS}
CHOICES: dict[str, tuple[str, Registry[Any]]] = {
    "stage": ("driver", STAGE_DRIVERS),
    "probe": ("driver", PROBE_DRIVERS),
    "reference": ("driver", PROBE_DRIVERS),
    "algorithm": ("policy", POLICIES),
}
"""The tables of a config that a driver or a policy shapes, and the key that names it."""
_REMOVED = {"probe": frozenset({"dbm_offset_db"})}
"""Keys of earlier versions that do nothing any more."""


def settings_class(section: str, name: object) -> type[ChosenSettings]:
    """The settings of a driver or policy; ConfigError if it is unknown or broken."""
    if section == "reference" and name == "off":
        return NoReference
    if not isinstance(name, str):
        known = ", ".join(CHOICES[section][1].names())
        raise ConfigError(f"{name!r} is not a name", f"known are: {known}")
    if section == "algorithm":
        return algorithm_class(name)
    return CHOICES[section][1][name].settings  # type: ignore[no-any-return]


@dataclass
class SortedTable:
    """A `[stage]`, `[probe]` or `[algorithm]` table, its keys sorted for the driver in use."""

    common: dict[str, Any] = field(default_factory=dict)
    """Keys of the table itself, and unknown ones."""
    own: dict[str, Any] = field(default_factory=dict)
    """Keys of the driver's own table."""
    others: dict[str, Any] = field(default_factory=dict)
    """Tables of other drivers, and keys that only other drivers have: without effect."""
    moved: dict[str, str] = field(default_factory=dict)
    """Keys in the spelling of earlier versions, each with its new path within the section."""
    removed: list[str] = field(default_factory=list)
    """Keys of earlier versions that do nothing any more."""


def sort_table(
    section: str, table: Mapping[str, Any], settings: type[ChosenSettings]
) -> SortedTable:
    """Sort the keys of a table. A key of the driver beside its table wins over one within it."""
    found, driver = SortedTable(), settings.driver_name()
    own = table.get(driver, {}) if driver else {}
    if isinstance(own, Mapping):
        found.own |= own
    else:
        found.common[driver] = own  # to be refused
    names = CHOICES[section][1].table_names()
    for key, value in table.items():
        if key == driver:
            continue
        if key in names:
            found.others[key] = value
        elif (name := settings.former_keys.get(key, key)) in settings.own_keys():
            found.own[name] = value
            found.moved[key] = f"{driver}.{name}"
        elif key in settings.model_fields:
            found.common[key] = value
        elif key in _REMOVED.get(section, ()):
            found.removed.append(key)
        elif belongs_to_another(section, key):
            found.others[key] = value
        else:
            found.common[key] = value
    return found


def misplaced_keys(section: str, driver: str, table: Mapping[str, Any]) -> list[str]:
    """The keys in a driver's own table that all drivers share: they belong beside it."""
    settings = settings_class(section, CHOICES[section][1].named_as(driver))
    return [key for key in table if key in settings.model_fields and key not in settings.own_keys()]


def belongs_to_another(section: str, key: str) -> bool:
    """Whether any driver of this section has a key of this name, now or formerly."""
    return any(
        key in description.settings.model_fields or key in description.settings.former_keys
        for description in (CHOICES[section][1].working() if section != "algorithm" else ())
    )
