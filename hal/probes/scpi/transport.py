"""How commands reach an instrument: a TCP socket, or a VISA resource through PyVISA.

A transport sends lines and receives lines. Its memory is limited, and every wait has a deadline.
"""

from __future__ import annotations

import socket
import threading
import warnings
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from macontrol.config.model.address import split_address
from macontrol.config.model.errors import ProbeError, reason_of
from macontrol.config.model.suggestion import pip_install
from macontrol.hal.clock import Clock
from macontrol.hal.probes.scpi.settings import ScpiSettings
from macontrol.hal.registry import FoundProbes

if TYPE_CHECKING:
    from pyvisa.resources import MessageBasedResource

MOST_BYTES = 1 << 22
"""The longest answer: a trace of 100 001 points has less than half of it."""
_CHUNK_BYTES = 1 << 16
_LONGEST_CONNECT_S = 4.0
# The longest wait of a call before it checks for a stop request.
_POLL_INTERVAL_S = 0.2
_VISA_FIX = "give --probe one of the resources that `macontrol devices --scpi` lists"
_STOPPED = ProbeError("the probe is closed")
_TOO_LONG = ProbeError(
    f"the instrument sends more than {MOST_BYTES >> 20} MiB without the end of an answer",
    "use the port of the instrument for SCPI commands, and ASCII data (FORM:DATA ASC)",
)


class Transport(Protocol):
    """A connection to an instrument; every method can raise ProbeError."""

    def send(self, line: str, deadline_s: float) -> None:
        """Send a line."""

    def read(self, deadline_s: float) -> bytes | None:
        """Return the next line without its end; None if it is not complete at the deadline.

        With a deadline that has passed, what has arrived is returned.
        """

    def discard(self) -> None:
        """Forget what has arrived."""

    def close(self) -> None: ...


class SocketTransport:
    """Lines over a TCP socket."""

    def __init__(self, settings: ScpiSettings, clock: Clock, stop: threading.Event) -> None:
        self._clock = clock
        self._stop = stop
        self._received = bytearray()
        self._searched = 0
        timeout_s = min(settings.connect_timeout_s, _LONGEST_CONNECT_S)
        try:
            self._socket = socket.create_connection(split_address(settings.address), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except ConnectionRefusedError:
            raise ProbeError(
                "no instrument listens at this address",
                "correct --probe (probe.scpi.address), and enable SCPI over LAN at the instrument",
            ) from None
        except OSError as error:
            raise ProbeError(f"it cannot be reached: {reason_of(error)}") from None

    def send(self, line: str, deadline_s: float) -> None:
        left_s = max(deadline_s - self._clock.now(), 1e-3)
        try:
            self._socket.settimeout(left_s)
            self._socket.sendall(line.encode("ascii") + b"\n")
        except TimeoutError:
            raise ProbeError("the instrument takes no commands") from None
        except OSError as error:
            raise _lost(error) from None

    def read(self, deadline_s: float) -> bytes | None:
        while (end := self._received.find(b"\n", self._searched)) < 0:
            self._searched = len(self._received)
            if self._searched > MOST_BYTES:
                raise _TOO_LONG
            if self._stop.is_set():
                raise _STOPPED
            left_s = deadline_s - self._clock.now()
            if not self._receive(min(left_s, _POLL_INTERVAL_S)) and left_s <= _POLL_INTERVAL_S:
                return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        return line

    def discard(self) -> None:
        count = 0
        while self._receive(0.0):
            count += len(self._received)
            self._received.clear()
            if count > MOST_BYTES:
                raise _TOO_LONG
        self._received.clear()
        self._searched = 0

    def close(self) -> None:
        self._socket.close()

    def _receive(self, timeout_s: float) -> bool:
        """Receive what there is; False if nothing arrives within the time."""
        try:
            self._socket.settimeout(max(timeout_s, 0.0))
            data = self._socket.recv(_CHUNK_BYTES)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            raise _lost(error) from None
        if not data:
            raise ProbeError("the instrument has closed the connection")
        self._received += data
        return True


def _lost(error: OSError) -> ProbeError:
    return ProbeError(f"the connection is lost: {reason_of(error)}")


def _install() -> str:
    return pip_install("pyvisa", "pyvisa-py")


def load_pyvisa() -> Any:
    """The module pyvisa; ProbeError if it is not installed."""
    try:
        import pyvisa
    except ImportError:
        raise ProbeError(
            "a VISA resource needs PyVISA, which is not installed",
            f"{_install()}, or use --probe scpi://HOST:PORT",
        ) from None
    return pyvisa


def resource_manager(pyvisa: Any) -> Any:
    """The VISA library of this machine; ProbeError if there is none."""
    try:
        return pyvisa.ResourceManager()
    except (OSError, ValueError) as error:
        raise ProbeError(f"PyVISA finds no VISA library: {error}", _install()) from None


class VisaTransport:
    """Messages to and from a VISA resource."""

    def __init__(self, settings: ScpiSettings, clock: Clock, stop: threading.Event) -> None:
        self._clock = clock
        self._stop = stop
        self._pyvisa = pyvisa = load_pyvisa()
        self._manager = resource_manager(pyvisa)
        try:
            # In milliseconds, as all times of VISA.
            self._resource: MessageBasedResource = self._manager.open_resource(
                settings.resource, open_timeout=int(1e3 * settings.connect_timeout_s)
            )
            self._resource.write_termination = "\n"
            if "::SOCKET" in settings.resource.upper():
                self._resource.read_termination = "\n"
            else:
                # A device clear ends what the previous client has left unread.
                self._resource.clear()
        except Exception as error:  # each VISA library has its own
            with suppress(Exception):
                self._manager.close()
            raise ProbeError(f"the VISA resource cannot be opened: {error}", _VISA_FIX) from None

    def send(self, line: str, deadline_s: float) -> None:
        self._set_timeout(deadline_s)
        try:
            self._resource.write(line)
        except Exception as error:  # each VISA library has its own
            # pyvisa-py reports only here that nothing listens at the address of a socket.
            raise ProbeError(f"the VISA resource takes no commands: {error}", _VISA_FIX) from None

    def read(self, deadline_s: float) -> bytes | None:
        while not self._stop.is_set():
            self._set_timeout(deadline_s)
            try:
                line = self._resource.read_bytes(MOST_BYTES, break_on_termchar=True)
            except self._pyvisa.VisaIOError as error:
                if error.error_code != self._pyvisa.constants.StatusCode.error_timeout:
                    raise ProbeError(f"the connection is lost: {error}") from None
                if self._clock.now() >= deadline_s:
                    return None
                continue
            except Exception as error:  # each VISA library has its own
                raise ProbeError(f"the connection is lost: {error}") from None
            if len(line) >= MOST_BYTES:
                raise _TOO_LONG
            return line.rstrip(b"\n")
        raise _STOPPED

    def discard(self) -> None:
        """A resource has nothing that was not requested."""

    def close(self) -> None:
        with suppress(Exception):
            self._resource.close()
        with suppress(Exception):
            self._manager.close()

    def _set_timeout(self, deadline_s: float) -> None:
        left_s = min(deadline_s - self._clock.now(), _POLL_INTERVAL_S)
        self._resource.timeout = max(1, round(1e3 * left_s))


def connect(settings: ScpiSettings, clock: Clock, stop: threading.Event) -> Transport:
    """Connect to the instrument of the settings; `stop` ends every wait."""
    return (VisaTransport if settings.resource else SocketTransport)(settings, clock, stop)


def search() -> FoundProbes:
    """The resources that PyVISA lists; none of them is opened."""
    manager = resource_manager(load_pyvisa())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyvisa-py names packages that could find more
            found = {f"visa://{name}": "" for name in manager.list_resources("?*::INSTR")}
    finally:
        with suppress(Exception):
            manager.close()
    return FoundProbes("VISA resources", found, "none; an address on the network needs no search")


def status() -> str:
    """Whether PyVISA is installed."""
    if find_spec("pyvisa") is None:
        return f"PyVISA: not installed; USB and GPIB instruments need {_install()}"
    return "PyVISA: installed; --scpi searches for USB and GPIB instruments"
