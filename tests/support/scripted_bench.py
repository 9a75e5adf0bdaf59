"""A scripted bench for the slot loop: clock, stage, probe and policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, nan

from macontrol.config import Config
from macontrol.config.model.errors import StageError
from macontrol.config.model.reward import Reward
from macontrol.controller.policies.policy import Decision
from macontrol.controller.recording.records import (
    Event,
    EventKind,
    Item,
    LateReward,
    Recorder,
    SlotRecord,
)
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.hal import Arrival, Measurement, StageDescription
from macontrol.sim.bench.simulated import describe

MoveScript = Callable[["ScriptedStage", float, float], Arrival | None]
CollectScript = Callable[["ScriptedProbe", list[Measurement]], Sequence[Measurement]]
DecideScript = Callable[["ScriptedPolicy", int, float], float | Decision]


class ScriptedClock(VirtualClock):
    """A virtual clock that can lose time, like a busy or suspended process."""

    def __init__(self) -> None:
        super().__init__(1000.0)
        self.stalls: dict[float, float] = {}
        """When, and for how long (s); each takes effect at the first wait that ends later."""

    def lose(self, seconds: float) -> None:
        self._now += seconds

    def sleep_until(self, moment: float) -> None:
        super().sleep_until(moment)
        for when in [when for when in self.stalls if when <= self._now]:
            self.lose(self.stalls.pop(when))


class ScriptedStage:
    """Arrives half a millisecond after a command, unless `moves` has a script for that call.

    A script returns the arrival, or None to continue as usual. It may delay `arrives_s`.
    """

    def __init__(self, clock: ScriptedClock, description: StageDescription, position_mm: float):
        self.description = description
        self.clock = clock
        self.position_mm = position_mm
        self.arrives_s = -1.0
        self.delay_s = 0.0005
        self.moves: dict[int, MoveScript] = {}
        self.wheres: dict[int, Callable[[], Arrival]] = {}
        self.commands: list[float] = []
        self.located = 0
        self.stopped = 0
        self.recoveries = 0
        self.recovery_s = 0.0
        self.failing_recoveries = 0
        self.recovery_fault = StageError("still lost")
        self.homing_due_s = inf
        self._from_mm = position_mm

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        self.commands.append(position_mm)
        self._from_mm, self.position_mm = self.position_mm, position_mm
        self.arrives_s = self.clock.now() + self.delay_s
        script = self.moves.get(len(self.commands))
        if script is not None and (arrival := script(self, position_mm, deadline_s)) is not None:
            return arrival
        self.clock.sleep_until(min(self.arrives_s, deadline_s))
        return self.report()

    def where(self, deadline_s: float) -> Arrival:
        self.located += 1
        if self.located in self.wheres:
            return self.wheres[self.located]()
        return self.report()

    def report(self) -> Arrival:
        now = self.clock.now()
        arrived = now >= self.arrives_s
        here = self.position_mm if arrived else (self._from_mm + self.position_mm) / 2
        return Arrival(here, arrived, now)

    @property
    def homing_is_due(self) -> bool:
        return self.clock.now() >= self.homing_due_s

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self.recoveries += 1
        for _ in range(10):
            self.clock.lose(self.recovery_s / 10)
            if not keep_on():
                raise StageError("stopped")
        if self.recoveries <= self.failing_recoveries:
            raise self.recovery_fault
        self.homing_due_s, self.position_mm, self.arrives_s = inf, 0.0, -1.0

    def stop(self) -> None:
        self.stopped += 1

    def close(self) -> None:
        self.stop()


class ScriptedProbe:
    """Measures the reward slot / 1000. `collects` may change what a call returns."""

    def __init__(self, clock: ScriptedClock) -> None:
        self.clock = clock
        self.requests: list[tuple[int, float, float]] = []
        self.collects: dict[int, CollectScript] = {}
        self.held: list[Measurement] = []
        self.collected = 0

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self.requests.append((slot, start_s, end_s))
        self.held.append(Measurement(slot, Reward(slot / 1000, 0.1)))

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        self.collected += 1
        ready, self.held = self.held, []
        script = self.collects.get(self.collected)
        self.clock.sleep_until(deadline_s)
        return ready if script is None else script(self, ready)

    def close(self) -> None:
        """Nothing to release."""


class ScriptedPolicy:
    """Moves one stroke to and fro, unless `decides` has a script for that slot."""

    def __init__(self, config: Config, clock: ScriptedClock) -> None:
        self.start_position = config.physical.x_0
        self.clock = clock
        self.stroke = config.physical.rho_max
        self.length = config.physical.region_length
        self.decides: dict[int, DecideScript] = {}
        self.seen: list[tuple[int, float, float]] = []

    def resume(self, target: float) -> None:
        """This policy has no target."""

    def observe(self, slot: int, position: float, reward: float) -> None:
        self.seen.append((slot, position, reward))

    def withdraw(self, slot: int) -> None:
        self.seen = [sample for sample in self.seen if sample[0] != slot]

    def decide(self, slot: int, position: float) -> Decision:
        if slot in self.decides:
            wanted = self.decides[slot](self, slot, position)
            if isinstance(wanted, Decision):
                return wanted
            return Decision(wanted, wanted, False, False, nan)
        wanted = position + (self.stroke if slot % 2 else -self.stroke)
        wanted = min(max(wanted, 0.0), self.length)
        return Decision(wanted, wanted, True, False, nan)


class Kept(Recorder):
    """Stores all records in a list."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def submit(self, item: Item) -> None:
        self.items.append(item)

    @property
    def slots(self) -> list[SlotRecord]:
        return [item for item in self.items if isinstance(item, SlotRecord)]

    @property
    def late_rewards(self) -> list[LateReward]:
        found = [item for item in self.items if isinstance(item, LateReward)]
        return [item for item in found if item.reward is not None]

    def events(self, *kinds: EventKind) -> list[Event]:
        found = [item for item in self.items if isinstance(item, Event)]
        return [event for event in found if not kinds or event.kind in kinds]

    def slot(self, number: int) -> SlotRecord:
        (found,) = [record for record in self.slots if record.slot == number]
        return found


class ScriptedBench:
    """Everything that a slot loop needs. Positions are in wavelengths."""

    def __init__(self, config: Config, *, step_mm: float = 0.0) -> None:
        self.config = config
        self.wavelength_mm = config.physical.wavelength_mm
        self.slot_s = config.physical.slot_duration_s
        self.stroke_mm = config.physical.rho_max * self.wavelength_mm
        self.clock = ScriptedClock()
        description = replace(describe(config.physical, "scripted"), step_mm=step_mm)
        self.stage = ScriptedStage(
            self.clock, description, config.physical.x_0 * self.wavelength_mm
        )
        self.probe = ScriptedProbe(self.clock)
        self.policy = ScriptedPolicy(config, self.clock)
        self.kept = Kept()
        self.guard = Guard.of(config, self.stage)
        self.watch(lambda tally, now: None)

    def watch(self, on_slot: Callable[[Tally, float], None]) -> None:
        """Make a new loop that calls a function after every slot."""
        self.loop = SlotLoop(
            self.config,
            self.policy,
            self.guard,
            self.probe,
            self.clock,
            self.kept,
            on_slot=on_slot,
        )
        self.tally = self.loop.tally

    def run(self, slots: int) -> Kept:
        """Go to the start position and run this many slots."""
        self.loop.approach(self.policy.start_position)
        self.loop.run(slots=slots)
        return self.kept
