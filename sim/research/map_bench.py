"""A bench whose world is a reward map, so that what walks a rail can walk that of any world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from macontrol.config import Config
from macontrol.hal import Clock
from macontrol.sim.bench.simulated import SimulatedProbe, SimulatedStage, describe
from macontrol.sim.world.rewardmap import RewardMap


class MapChannel:
    """The rewards of a map, slot by slot, at any position."""

    def __init__(self, config: Config, world: RewardMap) -> None:
        self._grid, self._world = config.grid, world
        self.slot = 0

    def advance(self, slots: int = 1) -> None:
        """Continue by a number of slots; the map stands still after its last one."""
        self.slot += slots

    @property
    def _row(self) -> int:
        return min(max(self.slot, 1), self._world.slots) - 1

    def reward(self, position: float) -> float:
        return self._grid.interpolate(self._world.reward[self._row], position)

    @property
    def noise(self) -> float:
        return float(self._world.noise[self._row])


class MapBench:
    """A stage and a probe in the world of a map."""

    identity: Mapping[str, str] = MappingProxyType({"bench": "reward map"})

    def __init__(self, config: Config, clock: Clock, world: RewardMap) -> None:
        start_mm = config.physical.to_mm(config.physical.x_0)
        self.stage = SimulatedStage(describe(config.physical, "map"), clock, start_mm)
        self.probe = SimulatedProbe(config, MapChannel(config, world), self.stage, clock)

    def prior_survey(self, positions_mm: Sequence[float]) -> None:
        """A map is walked."""
