"""Tasks: descriptions of what is computed in a simulated world.

A task has one result: the run of a policy, an oracle value, a variation budget, or a comparison of
kernels. Its key is a hash of everything that the result depends on. By the key figures share
results, and an interrupted reproduction finds those that are finished. Results are plain numbers
and lists of numbers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from macontrol import __version__
from macontrol.config import Config

Result: TypeAlias = dict[str, Any]
"""Numbers or lists of numbers, by name."""

RESULTS_FORMAT = 2
"""Raise this number when the meaning of a result changes."""

CHECKPOINTS = 60
"""The number of slots of a run at which its reward and travel are stored."""

# The sections of a config that a result depends on; the others concern live runs.
_RESULT_SECTIONS = {
    "physical", "reward", "kernel", "algorithm", "survey", "channel", "drift", "run"
}  # fmt: skip
# The sections of a config that a world depends on; the others concern the policy.
_WORLD_SECTIONS = ("physical", "survey", "channel", "drift", "run")


@dataclass(frozen=True)
class Task:
    """One result to compute in the world of `config`, with its seed and horizon."""

    config: Config

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """What the result depends on in addition to the config."""
        return {}

    @property
    def seconds(self) -> float:
        """The approximate time on one core, for planning and progress only."""
        return 0.1

    @cached_property
    def key(self) -> str:
        """A hash of everything the result depends on."""
        return _hash(
            {
                "format": RESULTS_FORMAT,
                "version": __version__,
                "kind": self.kind,
                "parameters": self.parameters,
                "config": self.config.model_dump(mode="json", include=_RESULT_SECTIONS),
            }
        )

    @cached_property
    def world_key(self) -> str:
        """A hash of everything the world depends on: tasks with the same key share the map."""
        tables = self.config.model_dump(mode="json")
        reward = self.config.reward
        return _hash(
            {
                **{name: tables[name] for name in _WORLD_SECTIONS},
                "reward": [reward.snr_db, reward.noise_level],
                "grid": self.config.algorithm.grid_spacing,
            }
        )


@dataclass(frozen=True)
class Play(Task):
    """A run of a policy: reward, travel, switches, transit, and their course over time."""

    @property
    def seconds(self) -> float:
        slots = self.config.run.horizon
        quick = {"fixed": 5e-6, "sweep-and-hold": 1e-5}
        return slots * quick.get(self.config.algorithm.policy, 7e-5)


@dataclass(frozen=True)
class Oracle(Task):
    """OPT_T (eq. oracle) at the config's c_e."""

    @property
    def seconds(self) -> float:
        return self.config.run.horizon * 1e-5


@dataclass(frozen=True)
class OracleCourse(Task):
    """The reward of the oracle's trajectory, net of movement cost, at each checkpoint."""

    @property
    def seconds(self) -> float:
        return self.config.run.horizon * 3e-5


@dataclass(frozen=True)
class Variation(Task):
    """V_T (eq. variation) for each T of `horizons`, and the drift of the maximizer."""

    horizons: tuple[int, ...]

    @property
    def parameters(self) -> dict[str, Any]:
        return {"horizons": list(self.horizons)}


@dataclass(frozen=True)
class KernelErrors(Task):
    """The RMSE of μ_t over the rail on the windows that MoveUCB collects (fig. kernel).

    `kernels` are names and SE lengths; there is one estimate per `every` slots. With `example`
    the result also has one window: the truth, the samples, and the estimate of each kernel.
    """

    kernels: tuple[tuple[str, float], ...]
    every: int
    example: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "kernels": [list(kernel) for kernel in self.kernels],
            "every": self.every,
            "example": self.example,
        }

    @property
    def seconds(self) -> float:
        slots = self.config.run.horizon
        return slots * 7e-5 + slots / self.every * len(self.kernels) * 4e-4


def checkpoints(slots: int) -> NDArray[np.int_]:
    """The slots at which the course of a run is stored; the last slot is one of them."""
    return np.unique(np.rint(np.linspace(0, slots, CHECKPOINTS + 1)[1:]).astype(int))


def _hash(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
