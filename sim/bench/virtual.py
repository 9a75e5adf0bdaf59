"""The virtual bench: a stage on a pseudo-terminal and a radio on loopback, one world behind both.

What the radio hears at a moment is the channel of that moment where the emulated carriage truly
is, so that everything between a command and its reward is on the way that it takes on a real
bench: wires, servers, latency, motion. It is the world that the simulated bench of the same config
and seed shows: the same channel, and the same noise of observation in every slot. It stands still
until `drift` starts it, as the paper's survey sees a frozen snapshot; from then on it drifts slot
by slot, by the clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import ceil, floor, inf, isfinite, nan
from pathlib import Path
from typing import TypeAlias

import numpy as np

from macontrol.config import Config
from macontrol.config.checks.rf_plan import received_hz
from macontrol.config.model.reward import snr_of
from macontrol.config.model.units import from_db
from macontrol.hal import Clock
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.boards.zaber import MICROSTEP_MM, VirtualZaber
from macontrol.sim.bench.radio import DEBIAN_BLOCK_BYTES, VirtualRadio
from macontrol.sim.world.channel import Channel, survey_noise

NOISE_DBFS = -40.0
"""The noise floor of the virtual radio: low enough that a strong link does not clip."""
GUIDE_SETTINGS: dict[int, float] = {20: 1, 22: 1, 27: 2, 100: 80, 110: 12000, 120: 2000, 130: 300}
"""The GRBL settings of docs/bench-guide.md."""
GUIDE_ZABER_MM = 150.0
"""The travel of the Zaber stage of docs/bench-guide.md."""

Fault: TypeAlias = Callable[["VirtualBench", float], None]


class VirtualWorld:
    """The power of the link at a moment: the drifting channel at a moving carriage."""

    def __init__(self, config: Config, clock: Clock, *, seed: int) -> None:
        self._config = config
        self._clock = clock
        self._channel = Channel(config, seed)
        self._lock = threading.Lock()
        self._begun_s = inf
        self._noise_power = from_db(NOISE_DBFS)
        self._surveyed = np.array(config.survey_positions)
        self._survey_noise = survey_noise(config, seed, len(self._surveyed))
        self.board: VirtualGrbl | VirtualZaber | None = None

    def drift(self, begin_s: float | None = None) -> None:
        """Let the channel drift: this moment (now) is the start of slot 1. Once only."""
        with self._lock:
            if self._begun_s == inf:
                self._begun_s = self._clock.now() if begin_s is None else begin_s

    @property
    def slot(self) -> int:
        """The slot the channel stands at."""
        return self._channel.slot

    @property
    def travel_mm(self) -> float:
        """How long the stage is that a driver makes of the board: it may be longer than the rail.

        A stage that is counted towards its switch has its 0 so far away from there.
        """
        assert self.board is not None
        stage = self._config.stage
        usable_mm = self.board.usable_mm - stage.offset_mm
        return usable_mm if stage.travel_mm == "auto" else min(usable_mm, stage.travel_mm)

    def power_at(self, moment_s: float) -> float:
        """The power of the link, relative to full scale, that shows the reward of eq. observation.

        The noise floor aside, that is P·|h|²; and as much more or less as takes the reward from
        g_t(x) to g_t(x) + eps_t. No power is below 0, so that no reward is.
        """
        assert self.board is not None
        position_mm = self.board.position_at(moment_s) - self._config.stage.offset_mm
        if self._config.stage.inverted:
            position_mm = self.travel_mm - position_mm
        with self._lock:
            if moment_s >= self._begun_s:
                passed = moment_s - self._begun_s
                due = 1 + int(passed / self._config.physical.slot_duration_s)
                if due > self._channel.slot:
                    self._channel.advance(due - self._channel.slot)
            position = position_mm / self._config.physical.wavelength_mm
            h = self._channel.field(position)
            noise = self._noise_at(position)
        snr = self._config.reward.snr * (h.real * h.real + h.imag * h.imag)
        seen = snr_of(self._config.physical.transmission_share, noise, reference_snr=snr)
        return self._noise_power * max(seen, 0.0)

    def _noise_at(self, position: float) -> float:
        """eps_t; before slot 1 the survey's noise, which is frozen as the channel is."""
        if self._channel.slot > 0:
            return self._channel.noise
        return float(self._survey_noise[np.abs(self._surveyed - position).argmin()])


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
        # The radio first: where another bench has its address, that one keeps its link too.
        self.radio = VirtualRadio(
            self.world.power_at,
            noise_power=from_db(NOISE_DBFS),
            carrier_hz=received_hz(config.physical.carrier_frequency_hz, config.probe),
            host=host,
            port=port,
            block_bytes=block_bytes,
            quiet_first_s=config.probe.settling_s + config.probe.noise_floor_s + 1.0,
            # Who has opened the stage and not homed it has yet to measure the noise floor, however
            # long that takes on a busy machine.
            is_new_run=lambda: self.stage.is_newly_opened,
            is_preparing=lambda: self.stage.is_yet_to_home,
            seed=seed,
            clock=clock,
        )
        try:
            self.stage = self.world.board = _virtual_stage(config, clock, link)
        except OSError:
            self.radio.close()
            raise

    def do(self, command: str) -> None:
        """Carry out a command such as "unplug" or "lose 1.5"; ValueError if there is none such."""
        name, amount = parse_command(command)
        if name == "drift":
            self.world.drift()
        else:
            FAULTS[name](self, amount)

    def __enter__(self) -> VirtualBench:
        self.stage.start()
        self.radio.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.radio.close()
        self.stage.close()


def _transmit(bench: VirtualBench, on: bool) -> None:
    bench.radio.transmitting = on


def _stage_fault(*names: str, needs_amount: bool = False) -> Fault:
    """A fault of the stage, by whichever of these names its emulator knows it."""

    def strike(bench: VirtualBench, amount: float) -> None:
        for name in names:
            if method := getattr(bench.stage, name, None):
                method(amount) if needs_amount else method()
                return
        raise ValueError("this stage knows no such fault")

    return strike


FAULTS: dict[str, Fault] = {
    "unplug": _stage_fault("unplug"),
    "plug": _stage_fault("plug_in"),
    "reset": _stage_fault("reset"),
    "alarm": _stage_fault("trip_limit"),
    "hang": _stage_fault("hang"),
    "garbage": lambda bench, _: bench.stage.say(bytes(range(128, 256)) + b"\r\n"),
    "lose": _stage_fault("lose_steps", needs_amount=True),
    "slow": _stage_fault("slow_down", needs_amount=True),
    "stick": _stage_fault("stick", "stall"),
    "release": _stage_fault("release"),
    "stall": lambda bench, amount: bench.radio.stall(amount),
    "drop": lambda bench, _: bench.radio.drop(),
    "clip": lambda bench, amount: bench.radio.clip(amount),
    "mute": lambda bench, _: _transmit(bench, False),
    "unmute": lambda bench, _: _transmit(bench, True),
    "detune": lambda bench, amount: bench.radio.detune(amount),
}
"""What can go wrong, by name, with a number in its unit where one is needed."""
UNITS = {"lose": "MM", "slow": "S", "stall": "S", "clip": "S", "detune": "HZ"}


def parse_command(command: str) -> tuple[str, float]:
    """A command's name and its number, 1 if none is given; ValueError if there is none such."""
    name, _, text = command.partition(" ")
    if name != "drift" and name not in FAULTS:
        known = ", ".join(f"{name} {UNITS.get(name, '')}".strip() for name in FAULTS)
        raise ValueError(f"no such command; there are: {known}, drift; quit ends it")
    try:
        amount = float(text or 1.0)
    except ValueError:
        amount = nan
    if not isfinite(amount):
        raise ValueError(f"{text!r} is not a number of millimetres, seconds or hertz")
    if amount < 0 and UNITS.get(name) == "S":
        raise ValueError(f"{text} is no length of time")
    return name, amount


def _virtual_stage(config: Config, clock: Clock, link: Path | None) -> VirtualGrbl | VirtualZaber:
    """The stage of the bench guide, with the actuator of a config.

    Its rail is longer only where `stage.travel_mm` asks for that, so that what does not fit the
    guide's rail does not fit here either.
    """
    physical, stage = config.physical, config.stage
    speed_mm_per_s = physical.actuator_speed_m_per_s * 1e3
    acceleration, step = physical.acceleration_m_per_s2, physical.step_mm
    asked_mm = 0.0 if stage.travel_mm == "auto" else stage.offset_mm + stage.travel_mm
    if stage.driver == "grbl":
        board = {
            **GUIDE_SETTINGS,
            110: speed_mm_per_s * 60,
            130: max(GUIDE_SETTINGS[130], asked_mm + 2 * GUIDE_SETTINGS[27]),
        }
        if acceleration != "ideal":
            board[120] = acceleration * 1e3
        if step != "ideal":
            board[100] = 1 / step
        return VirtualGrbl(clock, link=link, settings=board)
    microstep = stage.microstep_mm
    microstep_mm = MICROSTEP_MM if microstep == "unknown" else microstep
    device = {
        "limit.max": float(
            max(floor(GUIDE_ZABER_MM / microstep_mm), ceil(asked_mm / microstep_mm))
        ),
        "maxspeed": float(round(speed_mm_per_s / microstep_mm * 1.6384)),
    }
    if acceleration != "ideal":
        device["accel"] = float(round(acceleration * 1e3 / microstep_mm * 1.6384e-4))
    return VirtualZaber(clock, link=link, settings=device, microstep_mm=microstep_mm)
