"""The part that all emulated devices share: a port, a thread, and faults of the cable.

A device does everything in its own thread. Methods for other threads, such as faults, are executed
there the next time the device waits (`in_own_thread`), so that no device needs a lock.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from macontrol.hal import Clock
from macontrol.sim.bench.boards.port import PortThread

_REQUEST_TIMEOUT_S = 5.0
# Enough for many minutes, so that the first line of a run is kept.
_LINES_KEPT = 100_000

P = ParamSpec("P")
D = TypeVar("D", bound="VirtualDevice")


def in_own_thread(method: Callable[Concatenate[D, P], None]) -> Callable[Concatenate[D, P], None]:
    """Execute a method in the thread of the device, and wait for it."""

    @wraps(method)
    def request(device: D, /, *args: P.args, **kwargs: P.kwargs) -> None:
        done = threading.Event()
        device._requests.append((lambda: method(device, *args, **kwargs), done))
        device._wire.wake()
        if not done.wait(_REQUEST_TIMEOUT_S):
            raise RuntimeError(f"{device._thread.name} does not react; is it started?")

    return request


class VirtualDevice(PortThread, ABC):
    """One device. Start it, open `port`, and stop it with `close`; or use it in a `with`."""

    settings: dict[Any, float]
    """The settings of the device, by number or name."""

    def __init__(self, name: str, clock: Clock, link: Path | None) -> None:
        super().__init__(name, clock, link)
        self._requests: deque[tuple[Callable[[], None], threading.Event]] = deque()
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

    @in_own_thread
    def unplug(self) -> None:
        """Disconnect the cable."""
        self._wire.unplug()
        self._received.clear()

    @in_own_thread
    def plug_in(self) -> None:
        """Connect the cable."""
        self._wire.plug_in()

    @in_own_thread
    def send(self, data: bytes) -> None:
        """Send any bytes to the client."""
        self._transmit(data)

    @in_own_thread
    def slow_down(self, by_s: float) -> None:
        """Delay every answer from now on."""
        self._wire.slowness_s = by_s

    @abstractmethod
    def _run(self) -> None:
        """The main function of the thread; it ends when `_closing` is set."""

    def _receive(self, data: bytes) -> None:
        """Process received bytes, in the order of their arrival."""
        self._received += data

    def _transmit(self, data: bytes, delay_s: float = 0.0) -> None:
        self._wire.send(data, delay_s)

    def _opened(self) -> None:
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
