"""An emulated power detector: a pseudo-terminal that prints one number per line.

It receives noise and the link, as the emulated radio does. A reading is the power at its moment on
the calibration of `[probe.line]`, with the noise and the steps of a converter. Faults can be
injected: it stalls, is unplugged for a moment, or clips; and the transmitter can be switched off.
"""

from __future__ import annotations

from math import log10
from typing import Literal, Protocol, cast

import numpy as np

from macontrol.config import Config
from macontrol.sim.bench.boards.port import PortThread
from macontrol.sim.bench.emulated_probe import EmulatedProbe, Site

_INTERVAL_S = 0.002
# A line has at most 12 characters, of 10 bits each.
_LINE_BITS = 120


class Calibration(Protocol):
    """What the emulator uses of `[probe.line]`."""

    @property
    def baud_rate(self) -> int: ...
    @property
    def dbm_a(self) -> float: ...
    @property
    def dbm_b(self) -> float: ...
    @property
    def lowest_reading(self) -> float: ...
    @property
    def highest_reading(self) -> float: ...
    @property
    def resolution_db(self) -> float: ...
    @property
    def noise_floor(self) -> float | Literal["measure"]: ...
    def dbm(self, reading: float) -> float: ...
    def reading(self, dbm: float) -> float: ...


class VirtualDetector(PortThread, EmulatedProbe):
    """A detector whose noise floor is the config's, or the weaker point of its calibration."""

    def __init__(self, settings: Calibration, site: Site) -> None:
        PortThread.__init__(self, "virtual-detector", site.clock, site.link)
        EmulatedProbe.__init__(self, site)
        self._settings = settings
        given = settings.noise_floor
        self.floor_dbm = min(settings.dbm_a, settings.dbm_b) if given == "measure" else given
        self._step = abs(settings.reading(settings.resolution_db) - settings.reading(0.0))
        self._interval_s = max(_INTERVAL_S, _LINE_BITS / settings.baud_rate)
        self._rng = np.random.default_rng(site.seed)
        self._dropped = False
        self._clipped_until_s = 0.0

    @property
    def address(self) -> str:
        """The absolute name of the serial port."""
        return self._wire.name

    # Faults

    def drop(self) -> None:
        """Unplug it and plug it in again; without a link its port may get another name."""
        self._dropped = True
        self._wire.wake()

    def clip(self, seconds: float) -> None:
        """Print the limit of the converter for the strongest signals."""
        self._clipped_until_s = self._clock.now() + seconds

    # The thread

    def _run(self) -> None:
        due_s = self._clock.now()
        while not self._closing:
            was_open = self._wire.is_open
            self._wire.wait(due_s)
            if self._dropped:
                self._dropped = False
                self._wire.plug_in()
            elif self._wire.is_open and not was_open:
                self._client_came()
            now = self._clock.now()
            if now < due_s:
                continue
            # A detector on a busy computer leaves readings out; it does not print old ones.
            due_s = max(due_s + self._interval_s, now)
            if self._wire.is_open and now >= self._stalled_until_s:
                self._wire.send(f"{self.reading_at(now):.6g}\r\n".encode())

    def reading_at(self, moment_s: float) -> float:
        """What it prints for the power at a moment."""
        settings = self._settings
        lowest, highest = settings.lowest_reading, settings.highest_reading
        if moment_s < self._clipped_until_s:
            return max(lowest, highest, key=settings.dbm)
        snr = self._received(moment_s) / self._site.noise_power
        noise_db = settings.resolution_db * self._rng.standard_normal()
        exact = settings.reading(self.floor_dbm + 10.0 * log10(1.0 + snr) + noise_db)
        return float(min(max(round(exact / self._step) * self._step, lowest), highest))


def detector(config: Config, site: Site) -> VirtualDetector:
    """The emulator of the probe `line`."""
    return VirtualDetector(cast(Calibration, config.probe), site)
