"""Examine the probe: radio, sample rate, delay, clipping, noise floor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from math import isnan
from statistics import median

from macontrol.config import Config
from macontrol.config.checks.measuring import lead_fix, measured_s, too_slow
from macontrol.config.model.errors import ConfigError, ProbeError
from macontrol.config.model.reward import Power
from macontrol.config.sections.sdr import SdrSettings
from macontrol.controller.host.processes import clients_of
from macontrol.doctor.report import Report
from macontrol.hal import Clock, Measurement
from macontrol.hal.capabilities import HasHealth, HasNoiseFloor, Openable, ProbeHealth, TakesTime
from macontrol.hal.noise_floor import NoiseFloor
from macontrol.hal.registry import PROBES
from macontrol.serial_bench import SerialBench

_RATE_TOLERANCE = 0.02
_LEVEL_S = 1.0
# A rate is known only after 5 s of samples.
_RATE_KNOWN_S = 5.5
# A busy computer catches up with a stall within this time; a wrong rate stays wrong.
_RATE_DOUBTED_S = 5.0
# Noise this near to full scale leaves no room for a signal; noise this low is below the resolution
# of an 8-bit converter, whose own noise is at -50 dBFS.
_HIGHEST_FLOOR_DBFS = -10.0
_LOWEST_FLOOR_DBFS = -49.0
# The delay is measured on _DELAYS short windows, of which _OUTLIERS may take longer.
_DELAYS = 16
_WINDOW_S = 0.02
_APART_S = 0.004
_OUTLIERS = 1
_POLL_INTERVAL_S = 0.005
_RATE_POLL_INTERVAL_S = 0.05
_TIME = "sweep time"
_FIX_ABOVE = "fix the lines above, and check again"


class ProbeExamination:
    """Opens the probe, measures with it, and reports what it finds."""

    def __init__(self, config: Config, clock: Clock, report: Report) -> None:
        self._config = config
        self._clock = clock
        self._report = report
        bench = SerialBench(config, clock, confirm_homing=lambda: False, report=lambda _: None)
        self._probe = bench.probe
        self._bench, self._transmitter = bench, bench.transmitter
        self._noun = PROBES[config.probe.driver].noun

    def examine(self, closing: ExitStack) -> None:
        """Open and examine the probe; it is closed when `closing` ends."""
        report = self._report
        closing.callback(self._probe.close)
        if self._transmitter is not None:
            closing.callback(self._transmitter.close)
        try:
            if isinstance(self._probe, Openable):
                self._probe.open()
        except (ConfigError, ProbeError) as error:
            self._report_unopened(error)
            return
        name = self._probe.name if isinstance(self._probe, Openable) else "the probe"
        what = f": {self._probe.identification}" if isinstance(self._probe, TakesTime) else ""
        report.passed(self._noun, f"{name} works{what}")
        floor = self._measure_floor(self._probe) if isinstance(self._probe, HasNoiseFloor) else None
        radio = self._config.probe
        if isinstance(self._probe, HasHealth) and isinstance(radio, SdrSettings):
            health = self._measure_level(self._probe, radio)
            self._report_rate(health, radio)
            self._report_delay(self._measure_delays(self._probe))
            self._report_clipping(health, radio)
        elif isinstance(self._probe, TakesTime):
            self._report_time(self._probe.measuring_time_s)
            self._report_level(floor)
        else:
            report.skipped("the probe has no samples", "sample rate", "delay", "clipping")
        if isinstance(floor, ProbeError):
            report.error("noise floor", floor, _FIX_ABOVE)
        elif isinstance(self._probe, HasNoiseFloor):
            self._report_floor(floor)
        else:
            report.skipped("the probe needs none", "noise floor")

    # -- Measuring ----------------------------------------------------------------------------

    def _measure_floor(self, probe: HasNoiseFloor) -> NoiseFloor | ProbeError | None:
        """The floor that a run would use: measured, or given in the config."""
        try:
            if self._config.probe.noise_floor == "measure":
                return self._bench.silent_floor(probe)
            if self._transmitter is not None:
                self._transmitter.on()
        except ProbeError as error:
            return error
        return probe.noise_floor

    def _measure_level(self, probe: HasHealth, radio: SdrSettings) -> ProbeHealth:
        """The health after a measurement, once the sample rate is known."""
        clock = self._clock
        with suppress(ProbeError):  # the health shows it
            self._measure_once()
        known_s = clock.now() + _RATE_KNOWN_S
        while not _keeps_rate(health := probe.health(), radio):
            is_known = not isnan(health.measured_rate_hz)
            if clock.now() >= known_s + is_known * _RATE_DOUBTED_S:
                break
            clock.sleep_until(clock.now() + _RATE_POLL_INTERVAL_S)
        return health

    def _measure_delays(self, probe: HasHealth) -> list[float]:
        """How long after the end of a window its measurement is ready, sorted."""
        settings, clock, delays = self._config.probe, self._clock, []
        length = _WINDOW_S + 2 * settings.guard_s + settings.lead_s
        try:
            for slot in range(2, 2 + _DELAYS):
                # Samples arrive in blocks: windows end at different places within a block.
                clock.sleep_until(clock.now() + slot * 7 % _DELAYS * _APART_S)
                now = clock.now()
                self._probe.request(slot, now, now + length)
                for found in self._collect(now + length + settings.stale_s + 1.0):
                    if found.slot == slot and found.valid:
                        delays.append(probe.health().lateness_s)
        except ProbeError:
            pass  # use what was measured before
        return sorted(delays)

    def _measure_once(self) -> Sequence[Measurement]:
        """The measurement of an interval that begins now; none if that takes too long."""
        now = self._clock.now()
        self._probe.request(1, now, now + _LEVEL_S)
        return self._collect(now + _LEVEL_S + self._config.probe.stale_s + 1.0)

    def _collect(self, until_s: float) -> Sequence[Measurement]:
        """The next measurements that are ready; none if that takes too long."""
        while self._clock.now() < until_s:
            if found := self._probe.collect(until_s):
                return found
            self._clock.sleep_until(self._clock.now() + _POLL_INTERVAL_S)
        return ()

    # -- Reporting ----------------------------------------------------------------------------

    def _report_unopened(self, error: ConfigError | ProbeError) -> None:
        settings = self._config.probe
        driver = PROBES[settings.driver]
        clients = clients_of(driver.server(settings)) if driver.server is not None else ()
        users = f" ({', '.join(str(client) for client in clients)})" if clients else ""
        self._report.failed(self._noun, f"{error.detail}{users}", error.fix or driver.remedy)
        is_timed = isinstance(self._probe, TakesTime)
        subjects = (_TIME, "level") if is_timed else ("sample rate", "delay", "clipping")
        self._report.skipped(f"there is no {self._noun}", *subjects, "noise floor")

    def _report_time(self, needed_s: float) -> None:
        """Whether a measurement fits into a slot."""
        if problem := too_slow(self._config, needed_s):
            self._report.failed(_TIME, problem.detail, problem.fix)
        else:
            room_s = measured_s(self._config)
            self._report.passed(
                _TIME, f"{needed_s * 1e3:.3g} ms of the {room_s * 1e3:.3g} ms that a slot has"
            )

    def _report_level(self, floor: NoiseFloor | ProbeError | None) -> None:
        """The level of one measurement, which may be at the noise floor."""
        try:
            found = self._measure_once()
        except ProbeError as error:
            self._report.error("level", error, _FIX_ABOVE)
            return
        value = found[0].value if found else None
        if isinstance(value, Power) and isinstance(floor, NoiseFloor):
            self._report.passed("level", str(replace(floor, power=value.power)))
        elif isinstance(floor, ProbeError):
            self._report.skipped("there is no noise floor", "level")
        else:
            reason = found[0].reason if found else "no answer"
            hint = found[0].hint if found else ""
            self._report.failed("level", f"nothing is measured: {reason}", hint or _FIX_ABOVE)

    def _report_rate(self, health: ProbeHealth, settings: SdrSettings) -> None:
        wanted, rate = settings.sample_rate_hz, health.measured_rate_hz
        fix = "connect the radio to a USB port of its own, or lower probe.sample_rate_hz"
        if health.fault:
            self._report.failed("sample rate", health.fault, fix)
        elif not isnan(rate) and not _keeps_rate(health, settings):
            detail = f"{rate:,.0f} samples/s arrive, {wanted:,.0f} were requested"
            fix = f"set probe.sample_rate_hz to one that the radio supports; or {fix}"
            self._report.failed("sample rate", detail, fix)
        elif health.breaks:
            lost = ", ".join(f"{reason} {count} times" for reason, count in health.breaks.items())
            self._report.failed("sample rate", f"samples were lost: {lost}", fix)
        else:
            measured = "" if isnan(rate) else f", {rate:,.0f} measured"
            self._report.passed("sample rate", f"{wanted:,.0f} samples/s{measured}")

    def _report_delay(self, delays: Sequence[float]) -> None:
        """Whether a slot's reward is ready when the slot's decision is due."""
        if len(delays) <= _DELAYS // 2:
            self._report.skipped("too few measurements", "delay")
            return
        settings = self._config.probe
        usual, longest = median(delays), delays[-1 - _OUTLIERS]
        left = settings.guard_s + settings.lead_s
        detail = (
            f"a reward is ready {usual * 1e3:.0f} ms after its samples were taken, at most "
            f"{longest * 1e3:.0f} ms"
        )
        if longest <= left:
            self._report.passed("delay", f"{detail}; the slot leaves {left * 1e3:g} ms")
            return
        self._report.note(
            "delay",
            f"{detail}; the slot leaves {left * 1e3:g} ms, so rewards are used one slot late",
            lead_fix(self._config, longest),
        )

    def _report_clipping(self, health: ProbeHealth, settings: SdrSettings) -> None:
        share, limit = health.clipped_share, settings.clipping_share
        if isnan(share):
            self._report.skipped("nothing was measured", "clipping")
        elif share > limit:
            self._report.failed(
                "clipping",
                f"{share:.1%} of the samples are clipped, the limit is {limit:.1%}",
                f"lower probe.gain_db (it is {settings.gain_db:g}), or move the transmitter away",
            )
        else:
            self._report.passed(
                "clipping", f"{share:.2%} of the samples, level {health.level_dbfs:.1f} dBFS"
            )

    def _is_wideband(self) -> bool:
        settings = self._config.probe
        return isinstance(settings, SdrSettings) and settings.mode == "wideband"

    def _report_floor(self, floor: NoiseFloor | None) -> None:
        if floor is None:
            detail = "the config gives none, and none was measured"
            self._report.failed("noise floor", detail, _FIX_ABOVE)
            return
        level = str(floor)
        if isnan(floor.measured_at_s):
            self._report.passed("noise floor", f"{level}, from the config")
        elif floor.unit == "dBFS" and floor.dbfs > _HIGHEST_FLOOR_DBFS:
            self._report.failed(
                "noise floor",
                f"{level}: no room for a signal above it",
                "switch the transmitter off while it is measured, or lower probe.gain_db",
            )
        elif floor.dbfs < _LOWEST_FLOOR_DBFS and self._is_wideband():
            self._report.note(
                "noise floor", f"{level}: below the converter's resolution", "raise probe.gain_db"
            )
        else:
            off = "if the transmitter was off"
            if self._transmitter is not None:
                off = "with the transmitter off by tx.off_command"
            self._report.passed("noise floor", f"{level}, {off}")


def _keeps_rate(health: ProbeHealth, radio: SdrSettings) -> bool:
    return abs(health.measured_rate_hz / radio.sample_rate_hz - 1) <= _RATE_TOLERANCE
