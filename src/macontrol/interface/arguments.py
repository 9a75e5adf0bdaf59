"""Arguments that several functions of the interface take: refused before anything uses them."""

from __future__ import annotations

from operator import index

from macontrol.config import Config, load_config
from macontrol.config.model.errors import UsageError


def seed_of(config: Config, seed: int | None) -> int:
    """The seed that is given, else that of the config; ConfigError if it cannot be one."""
    if seed is not None:
        config = load_config(assignments=[f"run.seed={seed}"], base=config)
    return config.run.seed


def slots_of(config: Config, slots: int | None) -> int:
    """The number of slots that is given, else that of the config; UsageError if it is none."""
    try:
        found = config.run.horizon if slots is None else index(slots)
    except TypeError:
        found = 0
    if found < 1:
        raise UsageError(f"slots = {slots!r}", "give a whole number, at least 1")
    return found
