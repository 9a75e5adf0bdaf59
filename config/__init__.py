"""The configuration of a run: settings, TOML presets, and how they are loaded and checked.

This is the lowest room and imports no other. `config.model` contains the facts and error types that
all rooms share, `config.files` reads and writes files safely.
"""

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
