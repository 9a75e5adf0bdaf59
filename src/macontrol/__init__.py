"""Positions a movable antenna on a linear stage with a kernelized bandit (MoveUCB).

This package is the namespace. The rooms `config`, `controller`, `hal` and `sim` are folders at the
top of the repository and install as `macontrol.<room>`; the command line wires them together.

The names in `__all__` are the Python interface, and stay. Everything else is private.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from macontrol.config import Config, load_config, preset_names
    from macontrol.config.model.errors import MacontrolError
    from macontrol.controller.policies.description import PolicyInputs
    from macontrol.controller.policies.policy import Decision, Policy
    from macontrol.interface.connection import Connection, Estimate, connect
    from macontrol.interface.maps import Map, load_map, make_map, recorded_map, simulate_map
    from macontrol.interface.policies import policy_names
    from macontrol.interface.replays import Oracle, Replay, oracle, replay
    from macontrol.interface.runs import Run, open_run
    from macontrol.interface.simulation import run_simulated

# Before anything can import numpy: BLAS reads these once, when it is loaded. The matrices here
# are about 30x30, where extra threads save no time and only add jitter to the slots.
# Results are bit-identical either way. A value the user has set is kept.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

__version__ = "0.1.0"

__all__ = [
    "Config",
    "Connection",
    "Decision",
    "Estimate",
    "MacontrolError",
    "Map",
    "Oracle",
    "Policy",
    "PolicyInputs",
    "Replay",
    "Run",
    "__version__",
    "connect",
    "load_config",
    "load_map",
    "make_map",
    "open_run",
    "oracle",
    "policy_names",
    "preset_names",
    "recorded_map",
    "replay",
    "run_simulated",
    "simulate_map",
]

# Loaded when it is used: the command line must start quickly, and a hardware run loads no `sim`.
_HOMES = {
    "config": ("Config", "load_config", "preset_names"),
    "config.model.errors": ("MacontrolError",),
    "controller.policies.description": ("PolicyInputs",),
    "controller.policies.policy": ("Decision", "Policy"),
    "interface.connection": ("Connection", "Estimate", "connect"),
    "interface.maps": ("Map", "load_map", "make_map", "recorded_map", "simulate_map"),
    "interface.policies": ("policy_names",),
    "interface.replays": ("Oracle", "Replay", "oracle", "replay"),
    "interface.runs": ("Run", "open_run"),
    "interface.simulation": ("run_simulated",),
}


if not TYPE_CHECKING:  # otherwise a type checker accepts any name

    def __getattr__(name: str) -> object:
        """Load a name of the interface when it is first used."""
        for home, names in _HOMES.items():
            if name in names:
                value: object = getattr(import_module(f"{__name__}.{home}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
