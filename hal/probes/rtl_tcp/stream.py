"""A client of `rtl_tcp`, the server for RTL-SDR dongles, on this host or another.

The server sends a header of 12 bytes (`RTL0`, tuner type, number of gains), then unsigned bytes I,
Q continuously. Commands are five bytes long and not acknowledged. The server has one client at a
time: a second client is connected, but gets no header until the first one disconnects.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from macontrol.config.checks.rf_plan import refuse_beyond
from macontrol.config.model.address import split_address
from macontrol.config.model.errors import ConfigError, ProbeError, reason_of
from macontrol.hal.clock import Clock
from macontrol.hal.probes.rtl_tcp.settings import RtlTcpSettings
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.hal.probes.sdr.ring import IQRing

_HEADER = struct.Struct(">4sII")
_COMMAND = struct.Struct(">BI")
_MAGIC = b"RTL0"
_CHUNK_BYTES = 1 << 16
# The longest wait of a call before it checks for a stop request.
_POLL_INTERVAL_S = 0.25
_LONGEST_CONNECT_S = 4.0

FREQUENCY, SAMPLE_RATE, GAIN_MODE, GAIN, PPM, AGC = 0x01, 0x02, 0x03, 0x04, 0x05, 0x08

TUNERS = {1: "E4000", 2: "FC0012", 3: "FC0013", 4: "FC2580", 5: "R820T", 6: "R828D"}
RANGES_HZ: dict[int, tuple[tuple[float, float], ...]] = {
    1: ((52e6, 2200e6),),
    2: ((22e6, 948.6e6),),
    3: ((22e6, 1100e6),),
    4: ((146e6, 308e6), (438e6, 924e6)),
    5: ((24e6, 1766e6),),
    6: ((24e6, 1766e6),),
}
"""The frequency ranges of each tuner type."""
_LIMITS_HZ = [limit for ranges in RANGES_HZ.values() for each in ranges for limit in each]
WIDEST_HZ = min(_LIMITS_HZ), max(_LIMITS_HZ)
"""The lowest and highest frequency of any tuner."""


_R820T_DB = (
    *(
        0.0,
        0.9,
        1.4,
        2.7,
        3.7,
        7.7,
        8.7,
        12.5,
        14.4,
        15.7,
        16.6,
        19.7,
        20.7,
        22.9,
        25.4,
        28.0,
        29.7,
    ),
    *(32.8, 33.8, 36.4, 37.2, 38.6, 40.2, 42.1, 43.4, 43.9, 44.5, 48.0, 49.6),
)
_E4000_DB = (-1.0, 1.5, 4.0, 6.5, 9.0, 11.5, 14.0, 16.5, 19.0, 21.5, 24.0, 29.0, 34.0, 42.0)
_FC0012_DB = (-9.9, -4.0, 7.1, 17.9, 19.2)
GAINS_DB = {1: _E4000_DB, 2: _FC0012_DB, 5: _R820T_DB, 6: _R820T_DB}
"""The gains of each tuner type, as librtlsdr has them. Others round to their own."""
_OTHER_GAINS_DB = tuple(float(gain) for gain in range(0, 50, 2))


@dataclass(frozen=True, slots=True)
class Header:
    """The server's description of its dongle."""

    tuner_type: int
    gain_count: int

    @property
    def tuner(self) -> str:
        return TUNERS.get(self.tuner_type, "unknown tuner")


def parse_header(data: bytes) -> Header:
    """Parse the header of the server; raise ProbeError for other data."""
    if len(data) != _HEADER.size or data[:4] != _MAGIC:
        raise ProbeError(
            f"the server is not rtl_tcp: its data begin with {data[:12]!r}, not with {_MAGIC!r}"
        )
    _, tuner_type, gain_count = _HEADER.unpack(data)
    return Header(tuner_type, gain_count)


def tuning_commands(settings: RtlTcpSettings) -> Iterator[bytes]:
    """Yield the commands that tune the dongle and set a fixed gain, without AGC."""
    yield _COMMAND.pack(SAMPLE_RATE, round(settings.sample_rate_hz))
    yield _COMMAND.pack(PPM, settings.ppm & 0xFFFFFFFF)
    yield _COMMAND.pack(FREQUENCY, round(settings.tuner_frequency_hz))
    yield _COMMAND.pack(AGC, 0)
    yield _COMMAND.pack(GAIN_MODE, 1)
    yield gain_command(settings.gain_db)


def gain_command(gain_db: float) -> bytes:
    """The command that sets the gain of the tuner."""
    return _COMMAND.pack(GAIN, round(gain_db * 10) & 0xFFFFFFFF)


class RtlTcpStream:
    """The IQ stream of an `rtl_tcp` server."""

    def __init__(self, settings: RtlTcpSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._address = split_address(settings.address)
        self._socket: socket.socket | None = None
        self._is_gain_changed = False
        self.header: Header | None = None

    @property
    def name(self) -> str:
        return f"rtl_tcp://{self._settings.address}"

    @property
    def dtype(self) -> npt.DTypeLike:
        return np.uint8

    @property
    def gains_db(self) -> Sequence[float]:
        return GAINS_DB.get(self.header.tuner_type, _OTHER_GAINS_DB) if self.header else ()

    def set_gain(self, gain_db: float) -> None:
        """Note the gain; `read` sends it."""
        self._settings = self._settings.model_copy(update={"gain_db": gain_db})
        self._is_gain_changed = True

    def open(self, stop: threading.Event) -> None:
        """Connect, check the header, tune."""
        self.close()
        timeout = self._settings.connect_timeout_s
        deadline = self._clock.now() + timeout
        try:
            self._socket = connection = socket.create_connection(
                self._address, min(timeout, _LONGEST_CONNECT_S)
            )
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_POLL_INTERVAL_S)
            self.header = header = parse_header(self._read_header(connection, deadline, stop))
            ranges = RANGES_HZ.get(header.tuner_type, ())
            refuse_beyond(self._settings.tuner_frequency_hz, ranges, f"{header.tuner} tuner")
            connection.sendall(b"".join(tuning_commands(self._settings)))
        except ConnectionRefusedError:
            self.close()
            raise ProbeError(
                "no server listens at this address",
                "start rtl_tcp, or correct --probe (probe.rtl_tcp.address)",
            ) from None
        except OSError as error:
            self.close()
            raise ProbeError(
                f"no connection: {reason_of(error)}",
                "correct --probe (probe.rtl_tcp.address)",
            ) from None
        except (ConfigError, ProbeError):
            self.close()
            raise

    def _read_header(
        self, connection: socket.socket, deadline_s: float, stop: threading.Event
    ) -> bytes:
        got = b""
        while len(got) < _HEADER.size:
            if stop.is_set():
                raise ProbeError("the probe is closed")
            try:
                more = connection.recv(_HEADER.size - len(got))
            except TimeoutError:
                more = None
            if more == b"":
                raise ProbeError(f"the server disconnected after {len(got)} bytes of its header")
            got += more or b""
            if not _MAGIC.startswith(got[:4]):
                break  # this is not a header: do not wait for the rest
            if len(got) < _HEADER.size and self._clock.now() > deadline_s:
                timeout_s = self._settings.connect_timeout_s
                if got:
                    raise ProbeError(
                        f"the server sent only {len(got)} bytes of its header in {timeout_s:g} s"
                    )
                raise ProbeError(
                    f"the server accepts the connection but sends no header within {timeout_s:g} "
                    "s: it is busy with another client",
                    "close the other client",
                )
        return got

    def read(self, ring: IQRing, stop: threading.Event) -> None:
        """Append samples to the ring until `stop` is set."""
        connection, now = self._socket, self._clock.now
        if connection is None:
            raise ProbeError("the radio is not open")
        silence_s = self._settings.silence_s
        buffer = bytearray(_CHUNK_BYTES)
        view, array = memoryview(buffer), np.frombuffer(buffer, np.uint8)
        odd = 0  # 1 if the first byte of the buffer is an I whose Q has not arrived
        received_s = now()
        while not stop.is_set():
            try:
                if self._is_gain_changed:
                    self._is_gain_changed = False
                    connection.sendall(gain_command(self._settings.gain_db))
                got = connection.recv_into(view[odd:])
            except TimeoutError:
                if now() - received_s > silence_s:
                    raise ProbeError(f"no samples for {silence_s:g} s") from None
                continue
            except OSError as error:
                raise ProbeError(f"the connection was lost: {error}") from None
            received_s = now()
            if got == 0:
                raise ProbeError("the server disconnected")
            whole = (odd + got) // 2
            ring.append(array[: 2 * whole].reshape(-1, 2), received_s)
            odd = (odd + got) % 2
            if odd:
                buffer[0] = buffer[2 * whole]

    def close(self) -> None:
        """Disconnect."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()


def refuse_beyond_all_tuners(settings: RtlTcpSettings) -> None:
    """Raise ConfigError for a frequency that no RTL-SDR receives."""
    refuse_beyond(settings.tuner_frequency_hz, [WIDEST_HZ], "tuner, if it is an RTL-SDR's,")


def make_probe(settings: RtlTcpSettings, clock: Clock) -> SdrProbe:
    """A probe that measures with an rtl_tcp server."""
    return SdrProbe(settings, RtlTcpStream(settings, clock), clock)
