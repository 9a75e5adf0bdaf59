"""What a run is: a pydantic schema, TOML presets, and how a config is loaded from them.

The lowest room: it imports no other room, and also holds what every other room needs: the list of
errors and exit codes, the registry of drivers, and how a file is written atomically.
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
