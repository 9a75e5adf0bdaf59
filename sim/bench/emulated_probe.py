"""What every emulated probe has: a place in the virtual world, and a transmitter that it receives.

A probe's description names its emulator: a callable that makes an `EmulatedProbe` of a config and
a `Site`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from macontrol.hal import Clock

DEBIAN_BLOCK_BYTES = 262_144
"""The block size of the radio server in Debian."""
POLL_INTERVAL_S = 0.05
"""How often a server checks whether it is stopped."""


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
    noise_power: float = 1e-4
    clock: Clock = field(default_factory=_Monotonic)
    seed: int = 0
    quiet_first_s: float = 0.0
    """The transmitter is off for this time after a client of a new run has connected, so that the
    client can measure the noise floor; and longer while that run `is_preparing`."""
    is_new_run: Callable[[], bool] = lambda: False
    is_preparing: Callable[[], bool] = lambda: False
    host: str = "127.0.0.1"
    port: int = 0
    """Where a server listens; 0 is any free port."""
    link: Path | None = None
    """A name for a pseudo-terminal."""
    block_bytes: int = DEBIAN_BLOCK_BYTES


class EmulatedProbe(ABC):
    """A probe that receives a transmitter, which is off while a run measures the noise floor."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._clock = site.clock
        self._quiet_until_s: float | None = None
        self._awaits_run = False
        """Whether the client has begun a new run, which is still in preparation."""
        self._stalled_until_s = 0.0
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

    def stall(self, seconds: float) -> None:
        """Send nothing for a time."""
        self._stalled_until_s = self._clock.now() + seconds

    def _client_came(self) -> None:
        self._awaits_run = self._site.is_new_run()
        if self._quiet_until_s is None or self._awaits_run:
            self._quiet_until_s = self._clock.now() + self._site.quiet_first_s

    def is_silent(self, moment_s: float) -> bool:
        """Whether the transmitter is off."""
        self._awaits_run = self._awaits_run and self._site.is_preparing()
        quiet = self._quiet_until_s is not None and moment_s < self._quiet_until_s
        return quiet or self._awaits_run or not self.transmitting

    def _received(self, moment_s: float) -> float:
        """The power of the link at the probe; 0 while the transmitter is off."""
        return 0.0 if self.is_silent(moment_s) else max(self._site.power(moment_s), 0.0)


class EmulatedServer(EmulatedProbe):
    """A probe behind a TCP socket; it serves one client at a time."""

    def __init__(self, site: Site, name: str) -> None:
        """Listen, but do not serve yet."""
        super().__init__(site)
        self._listener = socket.create_server((site.host, site.port), backlog=1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._dropped = False
        self._rest_s = 0.0
        """After a client has disconnected, the next one waits for this time."""
        self.busy = False
        """While set, clients connect but are not served."""
        self.clients = 0

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
        self._listener.close()

    def drop(self) -> None:
        """Disconnect the client."""
        self._dropped = True

    @abstractmethod
    def _serve_client(self, client: socket.socket) -> None:
        """Serve a client until it is gone, or `_is_ended`."""

    @property
    def _is_ended(self) -> bool:
        """Whether the client is to be disconnected."""
        return self._dropped or self._stop.is_set()

    def _serve(self) -> None:
        self._listener.settimeout(POLL_INTERVAL_S)
        while not self._stop.is_set():
            if self.busy:
                self._stop.wait(POLL_INTERVAL_S)
                continue
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            with client, contextlib.suppress(OSError):  # the client has gone
                self.clients += 1
                self._dropped = False
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.settimeout(POLL_INTERVAL_S)
                self._client_came()
                self._serve_client(client)
            self._stop.wait(self._rest_s)
