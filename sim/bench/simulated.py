"""The software-in-the-loop bench: one simulated world behind the stage and probe protocols.

The channel drifts slot by slot, the actuator moves through it, and the probe sees the reward where
the actuator is. Nothing outside this room knows that it is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from macontrol.config import Config
from macontrol.hal import Arrival, Clock, Measurement, Probe, Stage, StageDescription
from macontrol.sim.world.actuator import Actuator, describe
from macontrol.sim.world.channel import Channel
from macontrol.sim.world.drift import Streams


class SimulatedStage:
    """A stage whose motion is computed."""

    def __init__(self, description: StageDescription, clock: Clock, position_mm: float) -> None:
        self.description = description
        self._clock = clock
        self._actuator = Actuator(description, position_mm)

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        self._actuator.command(position_mm, self._clock.now())
        self._clock.sleep_until(min(self._actuator.still_at, deadline_s))
        return self._report()

    def where(self, deadline_s: float) -> Arrival:
        return self._report()

    def stop(self) -> None:
        self._actuator.stop(self._clock.now())

    homing_is_due = False

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        """A simulated stage never loses its position."""

    def close(self) -> None:
        self.stop()

    def position_now(self) -> float:
        """Where the antenna is at this moment (mm)."""
        return self._actuator.position_at(self._clock.now())

    def _report(self) -> Arrival:
        now = self._clock.now()
        # What is due at this very moment has happened: waiting for it may end a rounding early.
        arrived = self._actuator.still_at <= now + 1e-9
        position = self._actuator.position_at(now + 1e-9) if arrived else self.position_now()
        return Arrival(position, arrived, min(now, self._actuator.still_at) if arrived else now)


class SimulatedProbe:
    """A probe that sees the simulated reward, with the paper's noise, where the stage is."""

    def __init__(self, config: Config, channel: Channel, stage: SimulatedStage, clock: Clock):
        self._channel = channel
        self._stage = stage
        self._clock = clock
        self._wavelength_mm = config.physical.wavelength_mm
        self._noise_std = config.noise_std
        self._fixed_position = config.physical.x_0
        self._ready: list[Measurement] = []
        self._due_s = 0.0
        self.fixed_reward_sum = 0.0
        self.reward_sum = 0.0
        self.measured = 0

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self._channel.advance(slot - self._channel.slot)
        position = self._stage.position_now() / self._wavelength_mm
        reward = self._channel.reward(position)
        self.reward_sum += reward
        self.fixed_reward_sum += self._channel.reward(self._fixed_position)
        self.measured += 1
        self._ready.append(
            Measurement(slot, reward + self._channel.noise, True, uncertainty=self._noise_std)
        )
        self._due_s = end_s

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        self._clock.sleep_until(min(self._due_s, deadline_s))
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        """A simulated probe holds nothing."""


class SimulatedBench:
    """One world: a channel, an actuator in it, and the probe that looks at it.

    A run that continues an earlier one finds the world at the slot, and the antenna at the
    position (mm), where that one left them.
    """

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
        channel = Channel(config, seed)
        if slot > 0:
            channel.advance(slot)
        self._channel = channel
        start = config.physical.x_0 * config.physical.wavelength_mm
        self._stage = SimulatedStage(
            describe(config.physical, name), clock, start if position_mm is None else position_mm
        )
        self._probe = SimulatedProbe(config, channel, self._stage, clock)

    @property
    def stage(self) -> Stage:
        return self._stage

    @property
    def probe(self) -> Probe:
        return self._probe

    @property
    def identity(self) -> Mapping[str, str]:
        """A simulated world is made of its config and seed, which a run file compares anyway."""
        return {"bench": "simulated"}

    def prior_survey(self, positions_mm: Sequence[float]) -> Sequence[float]:
        """The paper's survey: a frozen snapshot of the channel at slot 0, with noise."""
        wavelength_mm = self._config.physical.wavelength_mm
        positions = np.asarray(positions_mm) / wavelength_mm
        snapshot = Channel(self._config, self._seed).rewards(positions)
        noise = Streams.from_seed(self._seed).survey_noise.standard_normal(len(positions))
        return (snapshot + self._config.noise_std * noise).tolist()  # type: ignore[no-any-return]

    @property
    def fixed_antenna_reward(self) -> float:
        """What a fixed antenna would have earned a slot, in the slots that were measured."""
        return self._probe.fixed_reward_sum / max(self._probe.measured, 1)

    @property
    def earned_reward(self) -> float:
        """What the antenna earned a slot, noise apart, in the slots that were measured."""
        return self._probe.reward_sum / max(self._probe.measured, 1)
