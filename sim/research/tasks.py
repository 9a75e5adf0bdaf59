"""What is computed in a simulated world, described as data.

A task names one result: a policy played, an oracle value, a variation budget, a kernel
comparison. Its key is a hash of all that the result depends on, so that figures share results,
an interrupted campaign finds what it has already done, and nothing is mistaken for it. Results
are plain numbers and lists of numbers.
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
"""Names and numbers, or lists of numbers."""

RESULTS_FORMAT = 2
"""To be raised when a result's content changes its meaning."""

CHECKPOINTS = 60
"""How many times within the horizon a run's reward and travel are noted."""

# The parts of a config that a result depends on; the others are about live runs.
_RESULT_SECTIONS = {
    "physical", "reward", "kernel", "algorithm", "survey", "channel", "drift", "run"
}  # fmt: skip
# The parts of a config that a world depends on; the rest only matters to who plays in it.
_WORLD_SECTIONS = ("physical", "survey", "channel", "drift", "run")


@dataclass(frozen=True)
class Task:
    """One result to compute in the world of `config`, which names seed and horizon too."""

    config: Config

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """What the result depends on besides the config."""
        return {}

    @property
    def seconds(self) -> float:
        """About how long it takes on one core: for planning and the time left, nothing else."""
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
        """A hash of what the simulated world depends on: tasks that share it share the map."""
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
    """A policy's run over the horizon: rewards, travel, switches, transit, and their course."""

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
    """What the oracle's trajectory has earned, net of energy, at each checkpoint."""

    @property
    def seconds(self) -> float:
        return self.config.run.horizon * 3e-5


@dataclass(frozen=True)
class Variation(Task):
    """V_T (eq. variation) over the first T slots for each T of `horizons`, and how fast the
    maximizer moves."""

    horizons: tuple[int, ...]

    @property
    def parameters(self) -> dict[str, Any]:
        return {"horizons": list(self.horizons)}


@dataclass(frozen=True)
class KernelErrors(Task):
    """The RMSE of μ_t over the rail on the windows MoveUCB collects (fig. kernel).

    `kernels` are names and SE lengths; the estimate is taken every `every` slots. With `example`
    the result also holds one window: the truth, the samples, and every kernel's estimate.
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
    """The slots after which a run's course is noted, the last one included."""
    return np.unique(np.rint(np.linspace(0, slots, CHECKPOINTS + 1)[1:]).astype(int))


def _hash(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
