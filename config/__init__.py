"""What a run is: a pydantic schema, TOML presets, and how a config is read from them.

The lowest room: it imports nothing of ours, and also holds what every other room needs: the list of
errors and exit codes, and how a file is written whole.
"""

from macontrol.config.loading import (
    differing_keys,
    load_config,
    overrides_without_effect,
    preset_names,
    preset_text,
    stored_config,
)
from macontrol.config.schema import Config

__all__ = [
    "Config",
    "differing_keys",
    "load_config",
    "overrides_without_effect",
    "preset_names",
    "preset_text",
    "stored_config",
]
