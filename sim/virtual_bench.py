"""The virtual bench: a stage on a pseudo-terminal and a radio on loopback, one world behind both.

What the radio hears at a moment is the channel of that moment where the emulated carriage truly
is, so that everything between a command and its reward is on the way that it takes on a real
bench: wires, servers, latency, motion. The channel stands still until `drift` starts it, as the
paper's survey sees a frozen snapshot; from then on it drifts slot by slot, by the clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from pathlib import Path

from macontrol.config import Config
from macontrol.hal import Clock
from macontrol.sim.channel import Channel
from macontrol.sim.virtual_grbl import VirtualGrbl
from macontrol.sim.virtual_radio import DEBIAN_BLOCK_BYTES, VirtualRadio

NOISE_DBFS = -40.0
"""The noise floor of the virtual radio: low enough that a strong link does not clip."""


class VirtualWorld:
    """The power of the link at a moment: the drifting channel at a moving carriage."""

    def __init__(self, config: Config, clock: Clock, *, seed: int) -> None:
        self._config = config
        self._clock = clock
        self._channel = Channel(config, seed)
        self._lock = threading.Lock()
        self._begun_s = inf
        self._noise_power = 10 ** (NOISE_DBFS / 10)
        self.board: VirtualGrbl | None = None

    def drift(self) -> None:
        """Let the channel drift from now on; this moment is the start of slot 1."""
        with self._lock:
            self._begun_s = self._clock.now()

    @property
    def slot(self) -> int:
        """The slot the channel stands at."""
        return self._channel.slot

    def power_at(self, moment_s: float) -> float:
        """The received power, without noise, relative to full scale (eq. reward's P·|h|²)."""
        assert self.board is not None
        position_mm = self.board.position_at(moment_s) - self._config.stage.offset_mm
        if self._config.stage.inverted:
            position_mm = self._config.rail_mm - position_mm
        with self._lock:
            if moment_s >= self._begun_s:
                passed = moment_s - self._begun_s
                due = 1 + int(passed / self._config.physical.slot_duration_s)
                if due > self._channel.slot:
                    self._channel.advance(due - self._channel.slot)
            h = self._channel.field(position_mm / self._config.physical.wavelength_mm)
        gain = h.real * h.real + h.imag * h.imag
        return self._noise_power * self._config.reward.snr * gain


class VirtualBench:
    """Both devices and their world; use it in a `with`."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        seed: int,
        link: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        block_bytes: int = DEBIAN_BLOCK_BYTES,
    ) -> None:
        self.world = VirtualWorld(config, clock, seed=seed)
        self.stage = VirtualGrbl(clock, link=link, settings=_board_settings(config))
        self.world.board = self.stage
        self.radio = VirtualRadio(
            self.world.power_at,
            noise_power=10 ** (NOISE_DBFS / 10),
            host=host,
            port=port,
            block_bytes=block_bytes,
            quiet_first_s=config.probe.settling_s + config.probe.noise_floor_s + 1.0,
            seed=seed,
            clock=clock,
        )

    def do(self, command: str) -> None:
        """Carry out a command such as "unplug" or "lose 1.5"; ValueError if there is none such."""
        name, _, amount = command.partition(" ")
        if name == "drift":
            self.world.drift()
        elif name in FAULTS:
            FAULTS[name](self, float(amount or 1.0))
        else:
            raise ValueError(f"no such command; there are: drift, {', '.join(FAULTS)}")

    def __enter__(self) -> VirtualBench:
        self.stage.start()
        self.radio.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.radio.close()
        self.stage.close()


def _transmit(bench: VirtualBench, on: bool) -> None:
    bench.radio.transmitting = on


FAULTS: dict[str, Callable[[VirtualBench, float], None]] = {
    "unplug": lambda bench, _: bench.stage.unplug(),
    "plug": lambda bench, _: bench.stage.plug_in(),
    "reset": lambda bench, _: bench.stage.reset(),
    "alarm": lambda bench, _: bench.stage.trip_limit(),
    "hang": lambda bench, _: bench.stage.hang(),
    "garbage": lambda bench, _: bench.stage.say(bytes(range(128, 256)) + b"\r\n"),
    "lose": lambda bench, amount: bench.stage.lose_steps(amount),
    "slow": lambda bench, amount: bench.stage.slow_down(amount),
    "stick": lambda bench, _: bench.stage.stick(),
    "release": lambda bench, _: bench.stage.release(),
    "stall": lambda bench, amount: bench.radio.stall(amount),
    "drop": lambda bench, _: bench.radio.drop(),
    "clip": lambda bench, amount: bench.radio.clip(amount),
    "mute": lambda bench, _: _transmit(bench, False),
    "unmute": lambda bench, _: _transmit(bench, True),
}
"""What can go wrong, by name, with a number (millimetres or seconds) where one is needed."""


def _board_settings(config: Config) -> dict[int, float]:
    """The board's own settings for the actuator of a config."""
    physical = config.physical
    acceleration, step = physical.acceleration_m_per_s2, physical.step_mm
    settings = {110: physical.actuator_speed_m_per_s * 60e3, 130: config.rail_mm + 20.0}
    if acceleration != "ideal":
        settings[120] = acceleration * 1e3
    if step != "ideal":
        settings[100] = 1 / step
    return settings
