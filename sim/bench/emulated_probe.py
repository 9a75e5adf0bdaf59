"""What every emulated probe has: a place in the virtual world, and a transmitter that it receives.

A probe's description names its emulator: a callable that makes an `EmulatedProbe` of a config and
a `Site`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from macontrol.hal import Clock

DEBIAN_BLOCK_BYTES = 262_144
"""The block size of Debian's `rtl_tcp`."""


class _Monotonic:
    def now(self) -> float:
        return time.monotonic()

    def sleep_until(self, moment: float) -> None:
        time.sleep(max(0.0, moment - time.monotonic()))


@dataclass(frozen=True)
class Site:
    """Where a probe is emulated. Powers are relative to a full scale of 1."""

    power: Callable[[float], float]
    """The power of the link at a moment; moments must be in order."""
    noise_power: float
    clock: Clock
    seed: int
    is_new_run: Callable[[], bool]
    is_preparing: Callable[[], bool]
    host: str = "127.0.0.1"
    port: int = 0
    """Where a server listens; 0 is any free port."""
    link: Path | None = None
    """A name for a pseudo-terminal."""
    block_bytes: int = DEBIAN_BLOCK_BYTES


class EmulatedProbe(ABC):
    """A probe that receives a transmitter, which is off while a run measures the noise floor."""

    def __init__(
        self,
        power: Callable[[float], float],
        *,
        quiet_first_s: float = 0.0,
        is_new_run: Callable[[], bool] = lambda: False,
        is_preparing: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        self._power = power
        self._quiet_first_s = quiet_first_s
        self._is_new_run = is_new_run
        self._is_preparing = is_preparing
        self._clock: Clock = _Monotonic() if clock is None else clock
        self._quiet_until_s: float | None = None
        self._awaits_run = False
        """Whether the client has begun a new run, which is still in preparation."""
        self.transmitting = True

    @property
    @abstractmethod
    def address(self) -> str:
        """Where a client finds it: HOST:PORT, or the name of a serial port."""

    @abstractmethod
    def start(self) -> None:
        """Serve in a thread."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect the client and stop."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _client_came(self) -> None:
        self._awaits_run = self._is_new_run()
        if self._quiet_until_s is None or self._awaits_run:
            self._quiet_until_s = self._clock.now() + self._quiet_first_s

    def _received(self, moment_s: float) -> float:
        """The power of the link at the probe; 0 while the transmitter is off."""
        self._awaits_run = self._awaits_run and self._is_preparing()
        quiet = self._quiet_until_s is not None and moment_s < self._quiet_until_s
        if quiet or self._awaits_run or not self.transmitting:
            return 0.0
        return max(self._power(moment_s), 0.0)
