"""What every emulated device has: a port, a thread that lives behind it, and faults of the wire.

All that a device does, it does in its own thread. What others ask of it, as a fault, is done there
too, the next time it waits: so no device needs a lock.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Self

from macontrol.hal import Clock
from macontrol.sim.bench.boards.port import VirtualPort

_PATIENCE_S = 5.0
# Many minutes of talk, so that whoever looks at a whole run has its first line too.
_LINES_KEPT = 100_000


class VirtualDevice(ABC):
    """One device. Start it, open `port`, and stop it with `close`; or use it in a `with`."""

    def __init__(self, name: str, clock: Clock, link: Path | None) -> None:
        self._clock = clock
        self._wire = VirtualPort(clock, link)
        self._requests: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._closing = False
        self._hanging = False
        self._received = bytearray()
        self.lines: deque[str] = deque(maxlen=_LINES_KEPT)
        """The lines the device has taken up, for tests to look at."""
        self.blind_moves = 0
        """How many motions it was told to make without having been homed, though it had told so."""
        self.is_newly_opened = False
        """Whether it has not been told to home since somebody opened its port."""

    @abstractmethod
    def position_at(self, moment: float) -> float:
        """Where the carriage truly is (mm): its distance from where homing takes it."""

    @property
    @abstractmethod
    def usable_mm(self) -> float:
        """How far from where homing takes it the carriage may be sent (mm)."""

    @property
    def port(self) -> str:
        """Where to reach it."""
        return self._wire.name

    @property
    def is_yet_to_home(self) -> bool:
        """Whether somebody has its port open who has not told it to home yet."""
        return self.is_newly_opened and self._wire.is_open

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Switch it off."""
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
        """Pull the cable."""

        def unplug() -> None:
            self._wire.unplug()
            self._received.clear()

        self._do(unplug)

    def plug_in(self) -> None:
        """Put the cable back."""
        self._do(self._wire.plug_in)

    def say(self, data: bytes) -> None:
        """Put bytes on the wire, whatever they are."""
        self._do(lambda: self._transmit(data))

    def slow_down(self, by_s: float) -> None:
        """Hold back every answer from now on."""

        def slow() -> None:
            self._wire.slowness_s = by_s

        self._do(slow)

    def _do(self, action: Callable[[], None]) -> None:
        """Have the device's thread do something, and wait until it has."""
        done = threading.Event()
        self._requests.append((action, done))
        self._wire.wake()
        if not done.wait(_PATIENCE_S):
            raise RuntimeError(f"{self._thread.name} does not do what it is told: is it started?")

    @abstractmethod
    def _run(self) -> None:
        """What its thread does, until `_closing`."""

    @abstractmethod
    def _receive(self, data: bytes) -> None:
        """Take up bytes from the wire."""

    def _transmit(self, data: bytes, delay_s: float = 0.0) -> None:
        self._wire.send(data, delay_s)

    def _opened(self) -> None:  # noqa: B027 - most devices do not notice
        """Somebody has opened the port."""

    def _attend(self, until_s: float) -> bool:
        """Wait at most to a moment, and see to what comes meanwhile; whether bytes came."""
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
