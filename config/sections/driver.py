"""What the tables `[stage]`, `[probe]` and `[algorithm]` have in common: a plug-in shapes them.

`[stage]` holds the keys that stages share, `[stage.NAME]` those of the driver NAME alone. In Python
both are attributes of one object, an instance of the driver's settings class. A key is shared if a
class of `config` declares it, and the driver's own otherwise. The same holds for policies and
`[algorithm.NAME]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import (
    SerializerFunctionWrapHandler,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from macontrol.config.model.registry import is_reference
from macontrol.config.sections.section import Section

_SHARED = "macontrol.config."


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def require_table(name: str, settings: type[Section]) -> None:
    """Raise ValueError for settings that cannot be a table of this name in a TOML file."""
    if _BARE_KEY.fullmatch(name) is None:
        raise ValueError(f"its name {name[:80]!r} may have letters, digits, - and _ only")
    if name in settings.model_fields:
        raise ValueError(f"its name {name!r} is also the name of one of its settings")
    given = {key: each for key, each in settings.model_fields.items() if not each.is_required()}
    for key, setting in given.items():
        try:
            json.dumps(
                setting.get_default(call_default_factory=True, validated_data={}), allow_nan=False
            )
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the default of its setting {key} cannot be in a file: {error}"
            ) from None


class ChosenSettings(Section):
    """Settings whose keys depend on the value of the key `chooser`, a driver or a policy."""

    chooser: ClassVar[str]
    former_keys: ClassVar[Mapping[str, str]] = {}
    """Keys that earlier versions called otherwise: the old name, and the present one."""

    @classmethod
    def driver_name(cls) -> str:
        """The name of the own table; empty for a policy without settings of its own."""
        default = cls.model_fields[cls.chooser].default
        return default if isinstance(default, str) else ""

    @classmethod
    @cache
    def own_keys(cls) -> frozenset[str]:
        """The keys that this driver alone has."""
        shared = (base for base in cls.__mro__ if base.__module__.startswith(_SHARED))
        return frozenset(cls.model_fields).difference(*(base.__annotations__ for base in shared))

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, table: Any) -> Any:
        """Take the keys of the driver's own table beside the others; those beside it win."""
        own = table.get(cls.driver_name()) if isinstance(table, Mapping) else None
        if not isinstance(own, Mapping):
            return table
        return {**own, **{key: value for key, value in table.items() if value is not own}}

    @model_serializer(mode="wrap")
    def _nested(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        flat, own = handler(self), self.own_keys()
        if not self.driver_name():
            return flat  # type: ignore[no-any-return]
        table = {key: value for key, value in flat.items() if key not in own}
        return {**table, self.driver_name(): {key: flat[key] for key in flat if key in own}}


class DriverSettings(ChosenSettings):
    """Settings of a stage or a probe; a driver's package has a subclass with a default `driver`."""

    chooser: ClassVar[str] = "driver"
    driver: str
    """the name of the driver"""

    @field_validator("driver", mode="wrap")
    @classmethod
    def _or_reference(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        """Accept `package.module:Name` also where a subclass names its one driver."""
        return value if is_reference(value) else handler(value)
