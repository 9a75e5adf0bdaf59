"""A doctor for the bench: one line for each thing that a run needs, with the fix where it fails.

Nothing moves: the stage is connected and asked, never homed. A line that fails does not end the
examination; what cannot be examined any more is said to be so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import median
from typing import Literal, TypeAlias

from macontrol.bench_plan import check_stage, latency_fix
from macontrol.config import Config
from macontrol.config.checks.measuring import lead_fix
from macontrol.config.model.errors import (
    ConfigError,
    HardwareError,
    LineBusyError,
    ProbeError,
    StageError,
)
from macontrol.config.model.rounding import at_most
from macontrol.config.probe_settings import split_address
from macontrol.controller.host.devices import (
    access_to,
    clients_of,
    find_serial_ports,
    holders_of,
    stable_names,
)
from macontrol.controller.host.instance import InstanceLock
from macontrol.hal import Clock, Measurement
from macontrol.hal.probes.sdr.noise_floor import NoiseFloor
from macontrol.hal.probes.sdr.probe import ProbeHealth, SdrProbe
from macontrol.hal.serial.diagnostics import StageDiagnostics
from macontrol.hal.serial.line import TrafficLog
from macontrol.hal.serial.stage import SerialStage
from macontrol.hal.stages.grbl.diagnostics import GrblDiagnostics
from macontrol.hal.stages.zaber.diagnostics import ZaberDiagnostics
from macontrol.serial_bench import SerialBench

Verdict: TypeAlias = Literal["pass", "note", "FAIL", "skip"]

_OF_THE_BOARD = ("board", "settings", "homing", "latency", "slot")
_CONNECT_S = 30.0
# What an adapter that passes bytes on at once takes, with much room.
_QUICK_S = 0.010
_RATE_TOLERANCE = 0.02
_MEASURED_S = 1.0
# A rate is known only after 5 s of samples.
_RATE_KNOWN_S = 5.5
# A stall of a busy computer is made up for within this time; a wrong rate is not.
_RATE_DOUBTED_S = 5.0
# Noise this near to full scale leaves a link no room; noise this low is lost between two steps of
# an 8-bit converter, whose own noise is at -50 dBFS.
_HIGHEST_FLOOR_DBFS = -10.0
_LOWEST_FLOOR_DBFS = -49.0
# How soon rewards are ready is seen from so many short windows; of those, so many may take longer.
_DELAYS = 16
_SHORT_S = 0.02
_APART_S = 0.004
_OUTLIERS = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. A note is no failure, but something that could be better."""

    what: str
    verdict: Verdict
    detail: str
    fix: str = ""


class BenchDoctor:
    """Examines the bench of a config and tells each finding as it is made."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        tell: Callable[[Finding], None],
        *,
        log: TrafficLog | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._tell = tell
        self._log = log
        self.failures = 0

    def examine(self) -> int:
        """Examine everything; how many lines failed."""
        with ExitStack() as closing:
            if self._examine_port(closing):
                self._examine_stage(closing)
            else:
                self._skip("the port cannot be used", *_OF_THE_BOARD)
        with ExitStack() as closing:
            self._examine_radio(closing)
        return self.failures

    # -- The port -----------------------------------------------------------------------------

    def _examine_port(self, closing: ExitStack) -> bool:
        """Whether it is there, may be opened, and is free: then it is kept so."""
        port = self._config.stage.port
        try:
            access = access_to(port)
            if not Path(port).is_char_device():
                raise OSError(None, "it is no serial port")
        except OSError as error:
            likely = [each.names[0] if each.names else each.device for each in find_serial_ports()]
            there = f"there are: {', '.join(likely)}" if likely else "there is none on this machine"
            self._fail("port", f"{port}: {error.strerror}", f"--port with one that exists; {there}")
            self._skip("there is no such port", "permission", "in use")
            return False
        names = stable_names(port)
        real = os.path.realpath(port)
        if names and port not in names:
            self._note("port", f"{port} may get another name", f"--port {names[0]}")
        else:
            self._pass("port", port if real == port else f"{port}, at present {real}")
        told = f"{access.mode} {access.owner} {access.group}"
        if access.allowed:
            self._pass("permission", told)
        else:
            self._fail("permission", f"this user may not read and write it ({told})", access.fix)
        is_free = self._is_free(port, closing)
        if is_free and not access.allowed:
            self._skip("it cannot be opened", "in use")
        return is_free and access.allowed

    def _is_free(self, port: str, closing: ExitStack) -> bool:
        """Whether no known program uses it; opening it shows whether an unknown one does."""
        holders = holders_of(port)
        if holders:
            pids = " ".join(str(holder.pid) for holder in holders)
            self._fail(
                "in use",
                f"held by {', '.join(str(holder) for holder in holders)}",
                f"end it (kill {pids}); if it is ModemManager or brltty, install macontrol's "
                "udev rules",
            )
            return False
        try:
            closing.enter_context(InstanceLock(self._config.stage.port_path))
        except HardwareError as error:
            self._fail("in use", str(error), "end that one first")
            return False
        return True

    # -- The stage ----------------------------------------------------------------------------

    def _examine_stage(self, closing: ExitStack) -> None:
        settings = self._config.stage
        checkup: StageDiagnostics = (
            GrblDiagnostics(settings) if settings.driver == "grbl" else ZaberDiagnostics(settings)
        )
        log = _both(self._log, checkup.log)
        contradiction: ConfigError | None = None
        try:
            try:
                stage = self._connect(self._config, log, closing)
            except ConfigError as error:
                contradiction = error
                # For what else there is to say, leave everything to the board.
                stage = self._connect(_left_to_the_board(self._config), log, closing)
        except LineBusyError as error:  # by a program that this user may not see
            self._fail("in use", *_parts(error))
            self._skip("the port cannot be used", *_OF_THE_BOARD)
            return
        except ConfigError:
            stage = None
        except StageError as error:
            self._pass("in use", "by nobody else")
            detail, fix = _parts(error, "see that it is powered and the right port")
            if checkup.board:
                detail = f"{checkup.board} was heard, but falls silent: {detail}"
            self._fail("board", detail, fix)
            self._skip("the board does not answer", *_OF_THE_BOARD[1:])
            return
        self._pass("in use", "by nobody else")
        if checkup.board:
            self._pass("board", f"{checkup.board} at {settings.baud_rate} baud")
        else:
            self._skip("the settings come first", "board")
        self._tell_settings(contradiction, stage, checkup)
        self._tell_homing(checkup)
        if stage is None:
            self._skip("the settings come first", "latency", "slot")
            return
        self._tell_latency(stage)
        if contradiction is not None:
            self._skip("the settings come first", "slot")
        else:
            self._tell_slot(stage)

    def _connect(self, config: Config, log: TrafficLog | None, closing: ExitStack) -> SerialStage:
        bench = SerialBench(
            config, self._clock, confirm_homing=lambda: False, tell=lambda _: None, log=log
        )
        closing.callback(bench.stage.close)
        bench.stage.connect(self._clock.now() + _CONNECT_S)
        return bench.stage

    def _tell_settings(
        self,
        contradiction: ConfigError | None,
        stage: SerialStage | None,
        checkup: StageDiagnostics,
    ) -> None:
        if contradiction is not None:
            self._fail("settings", *_parts(contradiction, "correct the one or the other"))
        elif stage is not None:
            found = stage.description
            self._pass(
                "settings",
                f"{found.travel_mm:.1f} mm of travel, {found.speed_mm_per_s:g} mm/s, "
                f"{found.acceleration_mm_per_s2:g} mm/s², steps of {found.step_mm:.4g} mm",
            )
        for advice in checkup.advice():
            self._note("settings", *advice)

    def _tell_homing(self, checkup: StageDiagnostics) -> None:
        settings = self._config.stage
        trouble = checkup.problem()
        if trouble is not None:
            self._fail("homing", *trouble)
        else:
            state = f" ({checkup.state})"
            how = "on --yes, or when you agree" if settings.homing == "ask" else "without asking"
            self._pass("homing", f"not homed, as after every start{state}; a run homes it {how}")

    def _tell_latency(self, stage: SerialStage) -> None:
        times = stage.answer_times
        usual, worst = times.usual[-1], max(sample[-1] for sample in times.samples)
        told = f"answers in {usual * 1e3:.1f} ms, at worst {worst * 1e3:.1f} ms"
        assumed = self._config.physical.command_latency_s
        timer = Path("/sys/bus/usb-serial/devices", Path(stage.description.name).name)
        if usual > _QUICK_S and (timer / "latency_timer").exists():
            self._note("latency", told, f"echo 1 | sudo tee {timer / 'latency_timer'}")
        elif stage.description.latency_s > assumed:
            fix = latency_fix(self._config, stage.description.latency_s)
            self._note(
                "latency",
                f"{told}; physical.command_latency_s is {assumed * 1e3:g} ms",
                f"{fix}, or end what loads this computer",
            )
        else:
            self._pass("latency", told)

    def _tell_slot(self, stage: SerialStage) -> None:
        physical = self._config.physical
        try:
            plan = check_stage(self._config, stage)
        except (ConfigError, StageError) as error:
            self._fail("slot", *_parts(error, "correct the config"))
            return
        longest = min(plan.stroke_mm / physical.wavelength_mm, physical.actuator_reach)
        self._pass(
            "slot",
            f"a stroke of {physical.rho_max * physical.wavelength_mm:.4g} mm takes "
            f"{plan.smallest_actuation_s * 1e3:.1f} of {physical.actuation_time_s * 1e3:g} ms; "
            f"up to {at_most(longest * physical.wavelength_mm, 4)} mm would fit "
            f"(physical.stroke = {at_most(longest, 4)})",
        )

    # -- The radio ----------------------------------------------------------------------------

    def _examine_radio(self, closing: ExitStack) -> None:
        bench = SerialBench(
            self._config, self._clock, confirm_homing=lambda: False, tell=lambda _: None
        )
        probe = bench.probe
        closing.callback(probe.close)
        try:
            probe.open()
        except (ConfigError, ProbeError) as error:
            detail, fix = _parts(error, self._cure_of_radio())
            self._fail("radio", f"{detail}{self._who_has_it()}", fix)
            self._skip("there is no radio", "sample rate", "delay", "clipping", "noise floor")
            return
        self._pass("radio", f"{probe.name} sends samples")
        floor = self._measure_floor(probe)
        health = self._measure_level(probe)
        self._tell_rate(health)
        self._tell_delay(self._measure_delays(probe))
        self._tell_clipping(health)
        self._tell_floor(floor)

    def _cure_of_radio(self) -> str:
        if self._config.probe.driver == "rtl_tcp":
            return "correct --probe (probe.address), or start the radio's server there"
        return "unplug the radio and plug it in again; SoapySDRUtil --probe tells more of it"

    def _who_has_it(self) -> str:
        if self._config.probe.driver != "rtl_tcp":
            return ""
        clients = clients_of(split_address(self._config.probe.address)[1])
        return f" ({', '.join(str(client) for client in clients)})" if clients else ""

    def _measure_floor(self, probe: SdrProbe) -> NoiseFloor | ProbeError | None:
        """The floor as a run would have it: measured, or given in the config."""
        try:
            if self._config.probe.noise_floor == "measure":
                return probe.measure_noise_floor()
        except ProbeError as error:
            return error
        return probe.noise_floor

    def _measure_level(self, probe: SdrProbe) -> ProbeHealth:
        """The health after a measurement, and once the rate is known."""
        try:
            now = self._clock.now()
            probe.request(1, now, now + _MEASURED_S)
            _awaited(probe, self._clock, now + _MEASURED_S + self._config.probe.stale_s + 1.0)
        except ProbeError:
            pass  # the health tells
        known_s = self._clock.now() + _RATE_KNOWN_S
        while not self._keeps_rate(health := probe.health()):
            is_known = not isnan(health.measured_rate_hz)
            if self._clock.now() >= known_s + is_known * _RATE_DOUBTED_S:
                break
            self._clock.sleep_until(self._clock.now() + 0.05)
        return health

    def _keeps_rate(self, health: ProbeHealth) -> bool:
        return abs(health.measured_rate_hz / self._config.probe.sample_rate_hz - 1) <= (
            _RATE_TOLERANCE
        )

    def _measure_delays(self, probe: SdrProbe) -> list[float]:
        """How long after the ends of some windows their measurements were ready."""
        settings, delays = self._config.probe, []
        length = _SHORT_S + 2 * settings.guard_s + settings.lead_s
        try:
            for slot in range(2, 2 + _DELAYS):
                # An answer comes with a block: the next window ends at another place of one.
                self._clock.sleep_until(self._clock.now() + slot * 7 % _DELAYS * _APART_S)
                now = self._clock.now()
                probe.request(slot, now, now + length)
                until = now + length + settings.stale_s + 1.0
                for found in _awaited(probe, self._clock, until):
                    if found.slot == slot and found.valid:
                        delays.append(probe.health().lateness_s)
        except ProbeError:
            pass  # what came before it counts
        return sorted(delays)

    def _tell_delay(self, delays: Sequence[float]) -> None:
        """Whether a slot's reward is there when the slot's end is decided about."""
        if len(delays) <= _DELAYS // 2:
            self._skip("too little was measured", "delay")
            return
        settings = self._config.probe
        usual, longest = median(delays), delays[-1 - _OUTLIERS]
        left = settings.guard_s + settings.lead_s
        told = (
            f"a reward is ready {usual * 1e3:.0f} ms after what it was measured of, or up to "
            f"{longest * 1e3:.0f} ms"
        )
        if longest <= left:
            self._pass("delay", f"{told}; {left * 1e3:g} ms are left for that")
            return
        fix = lead_fix(self._config, longest)
        self._note("delay", f"{told}; {left * 1e3:g} ms are left, then it is used a slot late", fix)

    def _tell_rate(self, health: ProbeHealth) -> None:
        wanted, rate = self._config.probe.sample_rate_hz, health.measured_rate_hz
        lost = ", ".join(f"{reason} {count} times" for reason, count in health.breaks.items())
        fix = "give the dongle a USB port of its own, or lower probe.sample_rate_hz"
        if health.fault:
            self._fail("sample rate", health.fault, fix)
        elif not isnan(rate) and not self._keeps_rate(health):
            told = f"{rate:,.0f} a second come, {wanted:,.0f} were asked for"
            self._fail("sample rate", told, f"set probe.sample_rate_hz to one it can; or {fix}")
        elif lost:
            self._fail("sample rate", f"samples were lost: {lost}", fix)
        else:
            measured = "" if isnan(rate) else f", {rate:,.0f} measured"
            self._pass("sample rate", f"{wanted:,.0f} a second held{measured}")

    def _tell_clipping(self, health: ProbeHealth) -> None:
        share, most = health.clipped_share, self._config.probe.clipping_share
        if isnan(share):
            self._skip("nothing was measured", "clipping")
        elif share > most:
            self._fail(
                "clipping",
                f"{share:.1%} of the samples are on the rails, {most:.1%} is the most",
                f"lower probe.gain_db (it is {self._config.probe.gain_db:g}), or move away",
            )
        else:
            self._pass(
                "clipping", f"{share:.2%} of the samples, level {health.level_dbfs:.1f} dBFS"
            )

    def _tell_floor(self, floor: NoiseFloor | ProbeError | None) -> None:
        if floor is None or isinstance(floor, ProbeError):
            why = "none is given and none was measured" if floor is None else str(floor)
            self._fail("noise floor", why, "cure the lines above, and ask again")
            return
        told = f"{floor.dbfs:.1f} dBFS"
        if isnan(floor.measured_at_s):
            self._pass("noise floor", f"{told}, as the config says")
            return
        told += ", if the transmitter was off"
        if floor.dbfs > _HIGHEST_FLOOR_DBFS:
            self._fail(
                "noise floor",
                f"{told}: that leaves a link no room",
                "switch the transmitter off while it is measured, or lower probe.gain_db",
            )
        elif floor.dbfs < _LOWEST_FLOOR_DBFS and self._config.probe.mode == "wideband":
            self._note(
                "noise floor", f"{told}: less than the converter resolves", "raise probe.gain_db"
            )
        else:
            self._pass("noise floor", told)

    # -- Telling ------------------------------------------------------------------------------

    def _pass(self, what: str, detail: str) -> None:
        self._tell(Finding(what, "pass", detail))

    def _note(self, what: str, detail: str, fix: str) -> None:
        self._tell(Finding(what, "note", detail, fix))

    def _fail(self, what: str, detail: str, fix: str) -> None:
        self.failures += 1
        self._tell(Finding(what, "FAIL", detail, fix))

    def _skip(self, why: str, *whats: str) -> None:
        for what in whats:
            self._tell(Finding(what, "skip", f"not examined: {why}"))


def _awaited(probe: SdrProbe, clock: Clock, until_s: float) -> Sequence[Measurement]:
    """The next measurements that are ready; none if that takes too long."""
    while clock.now() < until_s:
        if found := probe.collect(until_s):
            return found
        clock.sleep_until(clock.now() + 0.005)
    return ()


def _both(one: TrafficLog | None, other: TrafficLog) -> TrafficLog:
    if one is None:
        return other

    def log(direction: str, data: bytes) -> None:
        one(direction, data)
        other(direction, data)

    return log


def _left_to_the_board(config: Config) -> Config:
    return config.replace(
        stage__travel_mm="auto", stage__speed_mm_per_s="auto", stage__offset_mm=0.0
    )


def _parts(message: Exception | str, otherwise: str = "") -> tuple[str, str]:
    """Our messages say what is wrong, and after the last semicolon what to do."""
    detail, semicolon, fix = str(message).rpartition("; ")
    return (detail, fix) if semicolon else (fix, otherwise)
