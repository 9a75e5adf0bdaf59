"""The part that all emulated devices share: a port, a thread, and faults of the cable.

A device does everything in its own thread. Requests from other threads, such as faults, are
executed there the next time the device waits, so that no device needs a lock.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from macontrol.hal import Clock
from macontrol.sim.bench.boards.port import VirtualPort

_REQUEST_TIMEOUT_S = 5.0
# Enough for many minutes, so that the first line of a run is kept.
_LINES_KEPT = 100_000


class VirtualDevice(ABC):
    """One device. Start it, open `port`, and stop it with `close`; or use it in a `with`."""

    settings: dict[Any, float]
    """The settings of the device, by number or name."""

    def __init__(self, name: str, clock: Clock, link: Path | None) -> None:
        self._clock = clock
        self._wire = VirtualPort(clock, link)
        self._requests: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._closing = False
        self._hanging = False
        self._received = bytearray()
        self.lines: deque[str] = deque(maxlen=_LINES_KEPT)
        """The lines that the device has received."""
        self.blind_moves = 0
        """The number of motions commanded although the device had reported that it is not homed."""
        self.is_newly_opened = False
        """Whether no client has homed it since its port was opened."""

    @abstractmethod
    def position_at(self, moment: float) -> float:
        """The true distance of the carriage from its home position (mm)."""

    @property
    @abstractmethod
    def usable_mm(self) -> float:
        """The usable travel from the home position (mm)."""

    @property
    def port(self) -> str:
        """The name of the serial port."""
        return self._wire.name

    @property
    def is_yet_to_home(self) -> bool:
        """Whether a client has the port open and has not homed the device yet."""
        return self.is_newly_opened and self._wire.is_open

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Switch the device off."""
        self._closing = True
        self._wire.wake()
        if self._thread.ident is not None:
            self._thread.join()
        self._wire.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def unplug(self) -> None:
        """Disconnect the cable."""

        def unplug() -> None:
            self._wire.unplug()
            self._received.clear()

        self._do(unplug)

    def plug_in(self) -> None:
        """Connect the cable."""
        self._do(self._wire.plug_in)

    def send(self, data: bytes) -> None:
        """Send any bytes to the client."""
        self._do(lambda: self._transmit(data))

    def slow_down(self, by_s: float) -> None:
        """Delay every answer from now on."""

        def slow() -> None:
            self._wire.slowness_s = by_s

        self._do(slow)

    def _do(self, action: Callable[[], None]) -> None:
        """Execute an action in the device's thread and wait for it."""
        done = threading.Event()
        self._requests.append((action, done))
        self._wire.wake()
        if not done.wait(_REQUEST_TIMEOUT_S):
            raise RuntimeError(f"{self._thread.name} does not react; is it started?")

    @abstractmethod
    def _run(self) -> None:
        """The main function of the thread; it ends when `_closing` is set."""

    @abstractmethod
    def _receive(self, data: bytes) -> None:
        """Process received bytes."""

    def _transmit(self, data: bytes, delay_s: float = 0.0) -> None:
        self._wire.send(data, delay_s)

    def _opened(self) -> None:  # noqa: B027 - most devices do not notice
        """React to a client that has opened the port."""

    def _attend(self, until_s: float) -> bool:
        """Wait at most until a moment, and process bytes and requests; whether bytes arrived."""
        was_open = self._wire.is_open
        data = self._wire.wait(until_s)
        if self._wire.is_open and not was_open:
            self.is_newly_opened = True
            self._opened()
        if not self._hanging:
            self._receive(data)
        while self._requests:
            action, done = self._requests.popleft()
            try:
                action()
            finally:
                done.set()
        return bool(data)
