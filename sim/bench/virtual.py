"""The virtual bench: a stage on a pseudo-terminal and a probe, in one simulated world.

The description of a probe names its emulator. By default it is a radio on loopback.
It receives the channel at the true position of the emulated carriage. A run uses the same
serial ports, servers, latencies and motions as on a real bench. For the same config and seed the
world is that of the simulated bench: the same channel, and the same noise in every slot. The
channel is frozen, as in the paper's survey, until `drift` starts it; then it drifts slot by slot,
by the clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from macontrol.config import Config, load_config
from macontrol.config.drivers import PROBE_DRIVERS, STAGE_DRIVERS, DriverDescription
from macontrol.config.model.errors import ConfigError, MacontrolError, described
from macontrol.config.model.registry import resolve
from macontrol.config.model.reward import snr_of
from macontrol.config.model.units import from_db
from macontrol.hal import Clock
from macontrol.sim.bench.boards.device import VirtualDevice
from macontrol.sim.bench.emulated_probe import DEBIAN_BLOCK_BYTES, EmulatedProbe, Site
from macontrol.sim.bench.radio import VirtualRadio
from macontrol.sim.world.channel import Channel, survey_noise

NOISE_DBFS = -40.0
"""The noise floor of a virtual radio: low enough that a strong link does not clip."""

Fault: TypeAlias = Callable[["VirtualBench", float], None]


class VirtualWorld:
    """The power of the link at a moment: the drifting channel at the moving carriage."""

    def __init__(self, config: Config, clock: Clock, *, seed: int) -> None:
        self._config = config
        self._clock = clock
        self._channel = Channel(config, seed)
        self._lock = threading.Lock()
        self._begun_s = inf
        self._noise_power = from_db(NOISE_DBFS)
        self._share = config.physical.transmission_share
        self._surveyed = np.array(config.survey_positions)
        self._survey_noise = survey_noise(config, seed, len(self._surveyed))
        self.board: VirtualDevice | None = None

    def drift(self, begin_s: float | None = None) -> None:
        """Start the drift: slot 1 begins at this moment, by default now. Later calls do nothing."""
        with self._lock:
            if self._begun_s == inf:
                self._begun_s = self._clock.now() if begin_s is None else begin_s

    @property
    def slot(self) -> int:
        """The current slot of the channel."""
        return self._channel.slot

    @property
    def travel_mm(self) -> float:
        """The travel of the stage as its driver sees it, which may be longer than the rail.

        An inverted stage has its 0 at this distance from the home position.
        """
        assert self.board is not None
        stage = self._config.stage
        usable_mm = self.board.usable_mm - stage.offset_mm
        return usable_mm if stage.travel_mm == "auto" else min(usable_mm, stage.travel_mm)

    def power_at(self, moment_s: float) -> float:
        """The power of the link relative to full scale, without the noise floor.

        It is P·|h|², changed so that the reward is g_t(x) + eps_t (eq. observation) instead of
        g_t(x). It is never below 0.
        """
        assert self.board is not None
        position_mm = self.board.position_at(moment_s) - self._config.stage.offset_mm
        if self._config.stage.inverted:
            position_mm = self.travel_mm - position_mm
        with self._lock:
            self._advance(moment_s)
            position = self._config.physical.to_wavelengths(position_mm)
            h = self._channel.field(position)
            noise = self._noise_at(position)
        snr = self._config.reward.snr * (h.real * h.real + h.imag * h.imag)
        seen = snr_of(self._share, noise, reference_snr=snr)
        return self._noise_power * max(seen, 0.0)

    def reference_power_at(self, moment_s: float) -> float:
        """The same at a receiver that is fixed in the middle of the rail; without eps_t."""
        with self._lock:
            self._advance(moment_s)
            h = self._channel.field(self._config.physical.region_length / 2)
        return self._noise_power * self._config.reward.snr * abs(h) ** 2

    def _advance(self, moment_s: float) -> None:
        """Let the channel drift until a moment."""
        if moment_s >= self._begun_s:
            passed = moment_s - self._begun_s
            due = 1 + int(passed / self._config.physical.slot_duration_s)
            if due > self._channel.slot:
                self._channel.advance(due - self._channel.slot)

    def _noise_at(self, position: float) -> float:
        """eps_t; before slot 1 the noise of the survey, which is frozen like the channel."""
        if self._channel.slot > 0:
            return self._channel.noise
        return float(self._survey_noise[np.abs(self._surveyed - position).argmin()])


class VirtualBench:
    """The stage, the probe and their world; use it in a `with`."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        seed: int,
        link: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        probe_link: Path | None = None,
        block_bytes: int = DEBIAN_BLOCK_BYTES,
        reference_port: int | None = None,
    ) -> None:
        """With `reference_port` there is a reference receiver; 0 is any free port."""
        self.world = VirtualWorld(config, clock, seed=seed)
        site = Site(
            self.world.power_at,
            noise_power=from_db(NOISE_DBFS),
            host=host,
            port=port,
            link=probe_link,
            block_bytes=block_bytes,
            quiet_first_s=config.probe.settling_s + config.probe.noise_floor_s + 1.0,
            # A client that has opened the stage and not homed it has yet to measure the noise
            # floor, which may take long on a busy machine.
            is_new_run=lambda: self.stage.is_newly_opened,
            is_preparing=lambda: self.stage.is_yet_to_home,
            seed=seed,
            clock=clock,
        )
        # The probe first: if its address is in use, the link of that other bench is left alone.
        self.probe: EmulatedProbe = _emulated(PROBE_DRIVERS[emulated_driver(config)], config, site)
        self.reference: EmulatedProbe | None = None
        try:
            self.reference = self._emulated_reference(config, site, reference_port)
            self.stage: VirtualDevice = _emulated(
                STAGE_DRIVERS[config.stage.driver], config, clock, link
            )
            self.world.board = self.stage
        except (OSError, ConfigError):
            if self.reference is not None:
                self.reference.close()
            self.probe.close()
            raise

    def _emulated_reference(
        self, config: Config, site: Site, port: int | None
    ) -> EmulatedProbe | None:
        """The receiver in the middle of the rail. It receives the same transmitter as the probe."""
        if port is None:
            return None

        def power(moment_s: float) -> float:
            silent = self.probe.is_silent(moment_s)
            return 0.0 if silent else self.world.reference_power_at(moment_s)

        settings = config.reference_probe or config.probe
        own = replace(
            site,
            power=power,
            port=port,
            link=None,
            quiet_first_s=0.0,
            is_new_run=lambda: False,
            is_preparing=lambda: False,
            seed=site.seed + 1,
        )
        with_it = config.model_copy(update={"probe": settings})
        driver = emulated_driver(with_it)
        made: EmulatedProbe = _emulated(PROBE_DRIVERS[driver], with_it, own)
        return made

    @property
    def radio(self) -> VirtualRadio:
        """The probe of a bench with a radio."""
        assert isinstance(self.probe, VirtualRadio)
        return self.probe

    def do(self, command: str) -> None:
        """Execute a command such as "unplug" or "lose 1.5"; ValueError if it is unknown."""
        name, amount = parse_command(command)
        if name == "drift":
            self.world.drift()
        else:
            FAULTS[name](self, amount)

    def __enter__(self) -> VirtualBench:
        self.stage.start()
        self.probe.start()
        if self.reference is not None:
            self.reference.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.reference is not None:
            self.reference.close()
        self.probe.close()
        self.stage.close()


def _emulated(driver: DriverDescription, *arguments: Any) -> Any:
    """What the emulator of a driver makes; ConfigError if its code fails."""
    try:
        return resolve(driver.emulator)(*arguments)
    except (MacontrolError, OSError):
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"the emulator of the driver {driver.name} cannot be built: {described(error)}",
            f"correct the driver: {driver.emulator}",
        ) from error


def _transmit(bench: VirtualBench, on: bool) -> None:
    bench.probe.transmitting = on


def _fault(part: str, *names: str, needs_amount: bool = False) -> Fault:
    """A fault of the stage or the probe: the first of these methods that its emulator has."""

    def strike(bench: VirtualBench, amount: float) -> None:
        for name in names:
            if method := getattr(getattr(bench, part), name, None):
                method(amount) if needs_amount else method()
                return
        raise ValueError(f"this {part} has no such fault")

    return strike


FAULTS: dict[str, Fault] = {
    "unplug": _fault("stage", "unplug"),
    "plug": _fault("stage", "plug_in"),
    "reset": _fault("stage", "reset"),
    "alarm": _fault("stage", "trip_limit"),
    "hang": _fault("stage", "hang"),
    "garbage": lambda bench, _: bench.stage.send(bytes(range(128, 256)) + b"\r\n"),
    "lose": _fault("stage", "lose_steps", needs_amount=True),
    "slow": _fault("stage", "slow_down", needs_amount=True),
    "stick": _fault("stage", "stick", "stall"),
    "release": _fault("stage", "release"),
    "stall": _fault("probe", "stall", needs_amount=True),
    "drop": _fault("probe", "drop"),
    "clip": _fault("probe", "clip", needs_amount=True),
    "mute": lambda bench, _: _transmit(bench, False),
    "unmute": lambda bench, _: _transmit(bench, True),
    "detune": _fault("probe", "detune", needs_amount=True),
}
"""The faults by name; some take a number."""
UNITS = {"lose": "MM", "slow": "S", "stall": "S", "clip": "S", "detune": "HZ"}


def parse_command(command: str) -> tuple[str, float]:
    """The name and the number of a command, by default 1; ValueError if it is unknown."""
    name, _, text = command.partition(" ")
    if name != "drift" and name not in FAULTS:
        known = ", ".join(f"{name} {UNITS.get(name, '')}".strip() for name in FAULTS)
        raise ValueError(f"unknown command; the commands are: {known}, drift, quit")
    try:
        amount = float(text or 1.0)
    except ValueError:
        amount = nan
    if not isfinite(amount):
        raise ValueError(f"{text!r} is not a number of millimetres, seconds or hertz")
    if amount < 0 and UNITS.get(name) == "S":
        raise ValueError(f"{text}: a time cannot be negative")
    return name, amount


def emulated_driver(config: Config) -> str:
    """The driver whose probe is emulated: the config's if it has an emulator, or the default."""
    has_one = PROBE_DRIVERS[config.probe.driver].emulator
    return config.probe.driver if has_one else load_config().probe.driver
