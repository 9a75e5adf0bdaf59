"""Propose a gain: the highest without clipping, at the strongest position found.

The stage walks the rail once, through the guard. At the position with the most signal the gains of
the radio are tried, by halving the range in which the answer is. The former gain is restored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from macontrol.alignment import Alignment, Reading
from macontrol.config import Config
from macontrol.config.model.errors import PROBE_CODE, ProbeError
from macontrol.config.sections.sdr import SdrSettings
from macontrol.controller.runtime.observation import Observation
from macontrol.doctor.report import Report
from macontrol.hal import Clock
from macontrol.hal.capabilities import HasGain

POSITIONS = 25
"""How many positions of the rail are tried, both ends included."""
# After a change of the gain, samples of the former one still arrive.
_SETTLING_S = 0.5
_ATTEMPTS = 5
# On the rail the gain is lowered by this as often as something clips.
_LOWER_DB = 6.0
# "Without clipping": this part of the share that makes a measurement invalid.
_PART_OF_LIMIT = 0.1
_SUBJECT = "gain"
_NO_ANSWER = ProbeError("no measurement arrives", "see what `macontrol check` reports")


@dataclass(frozen=True)
class Strongest:
    """The position with the most signal."""

    position: float
    strength_db: float
    """The level, less the gain at which it was measured."""


class GainSweep:
    """Finds the gain. `show` gets a line about each step."""

    def __init__(
        self,
        config: Config,
        alignment: Alignment,
        probe: HasGain,
        clock: Clock,
        keep_on: Callable[[], bool],
        show: Callable[[str], None],
    ) -> None:
        self._config = config
        self._alignment = alignment
        self._probe = probe
        self._clock = clock
        self._keep_on = keep_on
        self._show = show
        self._settling_s = max(config.probe.settling_s, _SETTLING_S)
        limit = config.probe.clipping_share if isinstance(config.probe, SdrSettings) else 0.0
        self._limit = _PART_OF_LIMIT * limit
        self._former_db = probe.gain_db
        self._has_signal: bool | None = None
        """Whether a signal was above the noise floor; None if the floor is unknown."""

    @property
    def positions(self) -> list[float]:
        """Where the rail is tried, evenly."""
        length = self._config.physical.region_length
        return [length * number / (POSITIONS - 1) for number in range(POSITIONS)]

    @property
    def duration_s(self) -> float:
        """How long it takes, about."""
        read_s = self._alignment.reading_s
        walk_s = 1.5 * self._config.traversal_slots * self._config.physical.slot_duration_s
        tries = len(self._probe.gains_db).bit_length() + 1
        return walk_s + POSITIONS * 2 * read_s + tries * (self._settling_s + 2 * read_s)

    def run(self, report: Report) -> None:
        """Sweep, report the outcome, and restore the former gain."""
        former = self._former_db
        try:
            found = self._strongest()
            if self._has_signal is False:
                report.failed(
                    _SUBJECT, "no signal is above the noise floor", "switch the transmitter on"
                )
            elif found is not None:
                self._alignment.go_to(found.position, show=lambda reading: None)
                self._propose(self._highest(), found, former, report)
        except ProbeError as error:
            report.error(_SUBJECT, error, "fix the radio: `macontrol check` examines it")
        finally:
            if self._probe.gain_db != former:
                self._set(former)  # and wait: the radio is closed soon, and would not get it
        if not self._keep_on():
            report.skipped("stopped", _SUBJECT)

    def _strongest(self) -> Strongest | None:
        """Walk the rail; None if it was stopped."""
        best: Strongest | None = None
        for position in self.positions:
            self._alignment.go_to(position, show=lambda reading: None)
            if not self._keep_on():
                return None
            share, level = self._measured()
            while share > self._limit and (lower := self._below(_LOWER_DB)) is not None:
                self._set(lower)
                share, level = self._measured()
            strength = level - self._probe.gain_db
            if best is None or strength > best.strength_db:
                best = Strongest(position, strength)
        return best

    def _highest(self) -> float | None:
        """The highest gain without clipping here; None if even the lowest one clips."""
        gains = sorted(self._probe.gains_db)
        clear, clipping = -1, len(gains)  # indices: known to be clear, known to clip
        while clipping - clear > 1 and self._keep_on():
            middle = (clear + clipping) // 2
            self._set(gains[middle])
            share, level = self._measured()
            self._show(f"gain {gains[middle]:g} dB: level {level:.1f} dBFS, {share:.2%} clipped")
            if share <= self._limit:
                clear = middle
            else:
                clipping = middle
        return gains[clear] if clear >= 0 else None

    def _propose(
        self, gain_db: float | None, found: Strongest, former: float, report: Report
    ) -> None:
        if not self._keep_on():
            return
        where = f"at {found.position:.3f} wavelengths, the strongest of {POSITIONS} positions"
        if gain_db is None:
            report.failed(
                _SUBJECT,
                f"even the lowest gain clips {where}",
                "put an attenuator before the radio, or move the transmitter away",
            )
            return
        detail = f"{gain_db:g} dB is the highest without clipping, {where}"
        if gain_db == former:
            report.passed(_SUBJECT, f"{detail}; it is the gain in use")
            return
        table, _, key = self._probe.gain_key.rpartition(".")
        report.note(
            _SUBJECT,
            f"{detail}; the gain in use is {former:g} dB",
            f"set it, and check again, as the noise floor changes with it:\n\n[{table}]\n"
            f"{key} = {float(gain_db)!r}\n",
        )

    def _below(self, step_db: float) -> float | None:
        """The highest gain that is at least so much below the present one."""
        gains = sorted(self._probe.gains_db)
        index = bisect_right(gains, self._probe.gain_db - step_db) - 1
        if index >= 0:
            return gains[index]
        return gains[0] if gains and gains[0] < self._probe.gain_db else None

    def _set(self, gain_db: float) -> None:
        with PROBE_CODE:
            self._probe.set_gain(gain_db)
        self._clock.sleep_until(self._clock.now() + self._settling_s)

    def _measured(self) -> tuple[float, float]:
        """The clipped share and the level (dB) here."""
        reading: Reading | None = None
        for _ in range(_ATTEMPTS):
            if not self._keep_on():
                return 0.0, -inf
            reading = self._alignment.read()
            if reading.seen is not None:
                level, share = reading.seen.signal.level_db, reading.seen.signal.clipped_share
                self._note_signal(reading.seen)
                if level is not None and share is not None:
                    return share, level
        if reading is not None and reading.problem:
            raise ProbeError(reading.problem)
        raise _NO_ANSWER

    def _note_signal(self, seen: Observation) -> None:
        """Note whether there is a signal: the noise floor is known at the former gain only."""
        if seen.valid and isfinite(seen.above_floor) and self._probe.gain_db == self._former_db:
            self._has_signal = bool(self._has_signal) or seen.above_floor >= 1


def gains_of(probe: object) -> Sequence[float]:
    """The gains that a probe can be set to; none if it has no settable gain."""
    return probe.gains_db if isinstance(probe, HasGain) else ()
