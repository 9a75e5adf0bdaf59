"""The configuration of a run: settings, TOML presets, and how they are loaded and checked.

This is the lowest room and imports no other. `config.model` contains the facts and error types that
all rooms share, `config.files` reads and writes files safely.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from macontrol.config.loading import (
        Loaded,
        differing_keys,
        load_config,
        load_with_origins,
        stored_config,
    )
    from macontrol.config.presets import preset_names, preset_text
    from macontrol.config.schema import Config

__all__ = [
    "Config",
    "Loaded",
    "differing_keys",
    "load_config",
    "load_with_origins",
    "preset_names",
    "preset_text",
    "stored_config",
]

_HOMES = {"Config": "schema", "preset_names": "presets", "preset_text": "presets"}


if not TYPE_CHECKING:  # otherwise a type checker accepts any name

    def __getattr__(name: str) -> object:
        """Load a name when it is first used: `config.model` is needed without Pydantic."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_HOMES.get(name, 'loading')}")
        globals()[name] = getattr(module, name)
        return globals()[name]
