"""The software-in-the-loop bench: one simulated world behind the stage and probe protocols.

The channel drifts slot by slot, the carriage moves through it, and the probe sees the reward at
the position of the carriage. Code outside this package does not know that it is a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Protocol

import numpy as np

from macontrol.config import Config
from macontrol.config.model.reward import Reward
from macontrol.config.model.units import known_db
from macontrol.config.sections.physical import Physical
from macontrol.hal import Arrival, Clock, Measurement, StageDescription
from macontrol.sim.world.carriage import Carriage
from macontrol.sim.world.channel import Channel, survey_rewards

# A wait may end early by a rounding error; what is due at this moment has happened.
_ROUNDING_S = 1e-9


def describe(physical: Physical, name: str) -> StageDescription:
    """The description of a stage with the rail and the actuator of a config."""
    acceleration, step = physical.acceleration_m_per_s2, physical.step_mm
    return StageDescription(
        name=name,
        travel_mm=physical.rail_mm,
        step_mm=0.0 if step == "ideal" else step,
        speed_mm_per_s=physical.actuator_speed_m_per_s * 1e3,
        acceleration_mm_per_s2=inf if acceleration == "ideal" else acceleration * 1e3,
        latency_s=physical.command_latency_s,
        settling_s=physical.settling_s,
    )


class SimulatedStage:
    """A stage that starts to move after its latency and settles after its last step."""

    homing_is_due = False

    def __init__(self, description: StageDescription, clock: Clock, position_mm: float) -> None:
        self.description = description
        self._clock = clock
        self._carriage = Carriage(self._whole_steps(position_mm), history_s=0.0)
        self._still_s = -inf
        """When the antenna stands still."""

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        now, carriage, stage = self._clock.now(), self._carriage, self.description
        begin_s = now + stage.latency_s
        target_mm = self._whole_steps(position_mm)
        carriage.brake(now, inf)
        carriage.move(target_mm, begin_s, stage.motion)
        moves = carriage.still_at > begin_s
        self._still_s = carriage.still_at + stage.settling_s if moves else begin_s
        self._clock.sleep_until(min(self._still_s, deadline_s))
        return self._arrival()

    def where(self, deadline_s: float) -> Arrival:
        return self._arrival()

    def stop(self) -> None:
        now = self._clock.now()
        self._carriage.put(self._whole_steps(self.position_now()), now)
        self._still_s = now

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        """A simulated stage never loses its position."""

    def close(self) -> None:
        self.stop()

    def position_now(self) -> float:
        """The position of the antenna at this moment (mm)."""
        return self._carriage.position_at(self._clock.now())

    def _arrival(self) -> Arrival:
        now = self._clock.now()
        if self._still_s > now + _ROUNDING_S:
            return Arrival(self.position_now(), False, now)
        return Arrival(self._carriage.position_at(now + _ROUNDING_S), True, min(now, self._still_s))

    def _whole_steps(self, position_mm: float) -> float:
        step = self.description.step_mm
        return position_mm if step == 0 else round(position_mm / step) * step


class SimulatedReward(Protocol):
    """What a simulated probe measures: the reward of a world that changes slot by slot."""

    @property
    def slot(self) -> int: ...
    @property
    def noise(self) -> float: ...
    def advance(self, slots: int = 1) -> None: ...
    def reward(self, position: float) -> float: ...


class SimulatedProbe:
    """A probe that measures the simulated reward at the position of the stage, with noise."""

    def __init__(
        self, config: Config, channel: SimulatedReward, stage: SimulatedStage, clock: Clock
    ):
        self._channel = channel
        self._stage = stage
        self._clock = clock
        self._physical = config.physical
        self._noise_std = config.noise_std
        self._fixed_position = config.physical.x_0
        self._ready: list[Measurement] = []
        self._due_s = 0.0
        self._surveyed_from_s: float | None = None
        """When the first measurement before slot 1 began."""
        self.fixed_reward_sum = 0.0
        self.measured = 0
        self.latest = 0, 0.0
        """The slot that was measured last, and the reward without noise of a holding antenna."""

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        steps = self._survey_steps(start_s) if slot < 1 else slot - self._channel.slot
        self._channel.advance(steps)
        position = self._physical.to_wavelengths(self._stage.position_now())
        reward = self._channel.reward(position)
        self.fixed_reward_sum += self._channel.reward(self._fixed_position)
        self.measured += 1
        self.latest = slot, reward
        observed = Reward(reward + self._channel.noise, self._noise_std)
        self._ready.append(Measurement(slot, observed))
        self._due_s = end_s

    def _survey_steps(self, start_s: float) -> int:
        """How far the channel drifts until a measurement of a survey: a slot takes T_s there too.

        Each measurement has a noise of its own, so it is at least one slot.
        """
        if self._surveyed_from_s is None:
            self._surveyed_from_s = start_s
        elapsed = (start_s - self._surveyed_from_s) / self._physical.slot_duration_s
        return max(1, 1 + int(elapsed) - self._channel.slot)

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        self._clock.sleep_until(min(self._due_s, deadline_s))
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        """A simulated probe has nothing to close."""


class SimulatedBench:
    """One world: a channel, a stage in it, and a probe that measures it.

    To continue an earlier run, `slot` and `position_mm` say where that run ended.
    """

    # Config and seed define a simulated world, and a run file compares these two itself.
    identity: Mapping[str, str] = MappingProxyType({"bench": "simulated"})

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        seed: int,
        slot: int = 0,
        position_mm: float | None = None,
        name: str = "sim",
    ) -> None:
        self._config = config
        self._seed = seed
        self._channel = channel = Channel(config, seed)
        if slot > 0:
            channel.advance(slot)
        start = config.physical.to_mm(config.physical.x_0)
        self.stage = SimulatedStage(
            describe(config.physical, name), clock, start if position_mm is None else position_mm
        )
        self.probe = SimulatedProbe(config, channel, self.stage, clock)

    def prior_survey(self, positions_mm: Sequence[float]) -> Sequence[float]:
        """The paper's survey: a frozen snapshot of the channel at slot 0, with noise."""
        positions = self._config.physical.to_wavelengths(np.asarray(positions_mm))
        return survey_rewards(self._config, self._seed, positions).tolist()  # type: ignore[no-any-return]

    def reference_snr_db(self) -> float | None:
        """The SNR now, without noise, of a receiver fixed in the middle of the rail."""
        power = abs(self._channel.field(self._config.physical.region_length / 2)) ** 2
        return known_db(self._config.reward.snr * power)

    @property
    def fixed_antenna_reward(self) -> float:
        """The mean reward of a fixed antenna at x_0, over the slots that were measured.

        It holds in every slot.
        """
        return self.probe.fixed_reward_sum / max(self.probe.measured, 1)
