"""The simulated worlds by name: the paper's channel, and models that this project did not write.

A world has a speed. That of the paper's channel is a factor on the time of its drift, 1 as in the
paper. That of the others is how far their environment moves, in wavelengths per slot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from macontrol.config import Config
from macontrol.config.model.errors import UsageError
from macontrol.config.model.suggestion import did_you_mean, shortened
from macontrol.sim.world.ieee import MODELS, SLOW, simulate_ieee
from macontrol.sim.world.rewardmap import RewardMap, simulate_map, variation_budget

PAPER = "paper"
_IEEE = {f"ieee-{model.lower()}": model for model in MODELS}
WORLDS = (PAPER, *_IEEE)


@dataclass(frozen=True)
class World:
    """A channel model at a speed."""

    name: str = PAPER
    speed: float = 1.0

    @classmethod
    def named(cls, name: str, speed: float | None = None) -> World:
        """A world at a speed, or at its usual one; UsageError for one that does not exist."""
        if name not in WORLDS:
            raise UsageError(f"there is no world {shortened(name)}", did_you_mean(name, WORLDS))
        usual = 1.0 if name == PAPER else SLOW
        speed = usual if speed is None else float(speed)
        if not 0.0 <= speed < math.inf:
            raise UsageError(f"a world has no speed {speed:g}", "give a number of at least 0")
        return cls(name, speed)

    def config_of(self, config: Config) -> Config:
        """The config that describes this world: the drift of the paper's channel at this speed."""
        return faster(config, self.speed) if self.name == PAPER else config

    def simulate(self, config: Config, seed: int, slots: int) -> RewardMap:
        """The reward map of one realization, for a config of `config_of`."""
        if self.name == PAPER:
            return simulate_map(config, seed, slots)
        return simulate_ieee(_IEEE[self.name], config, seed, slots, self.speed)

    def origin(self, seed: int, made: RewardMap) -> dict[str, Any]:
        """What made a map of this world, to be stored with it."""
        library = [] if self.name == PAPER else ["quadriga-lib"]
        return {
            "world": self.name,
            "speed": self.speed,
            "seed": seed,
            "versions": {name: _version(name) for name in ("macontrol", "numpy", *library)},
            "variation_per_slot": variation_budget(made.reward) / made.slots,
        }


def faster(config: Config, speed: float) -> Config:
    """The config with `speed` steps of the paper's drift per slot.

    The stationary laws of angles, gains and shadow stay as they are: k steps of y ← ρy + N(0, σ²)
    are one of y ← ρᵏy + N(0, σ²(1 − ρ²ᵏ)/(1 − ρ²)). The piecewise drift has `speed` times as many
    change points.
    """
    if speed == 1.0:
        return config
    drift = config.drift
    shadow = 1.0 - drift.shadow_reversion
    return config.replace(
        drift__angle_correlation=drift.angle_correlation**speed,
        drift__angle_step_deg=drift.angle_step_deg * _growth(drift.angle_correlation, speed),
        drift__gain_correlation=drift.gain_correlation**speed,
        drift__shadow_reversion=1.0 - shadow**speed,
        drift__shadow_step=drift.shadow_step * _growth(shadow, speed),
        drift__change_points=round(config.change_points * speed),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # on the path without being installed
        return "unknown"


def _growth(rho: float, speed: float) -> float:
    """The standard deviation of `speed` steps of a recursion with the factor ρ, of one step's."""
    if rho == 1.0:
        return math.sqrt(speed)
    return math.sqrt((1.0 - rho ** (2.0 * speed)) / (1.0 - rho * rho))
