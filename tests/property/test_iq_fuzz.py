"""Random data from a server, in random parts: no crash, no endless wait, no invented samples."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from math import isfinite, isnan
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import Power
from macontrol.hal.probes.rtl_tcp.stream import Header, RtlTcpStream, parse_header, tuning_commands
from macontrol.hal.probes.sdr.power import clipped_share, tone, wideband
from macontrol.hal.probes.sdr.ring import IQRing
from support.probe_settings import probe_settings

HEADER = struct.pack(">4sII", b"RTL0", 5, 29)
RATE = 1000.0

silence = st.just(None)
disconnect = st.just(b"")
reset = st.just(ConnectionResetError("reset"))
pieces = st.one_of(st.binary(min_size=1, max_size=40), silence, disconnect, reset)
greetings = st.one_of(st.binary(max_size=40), st.just(HEADER), st.just(HEADER[:5]))


class StepClock:
    def __init__(self) -> None:
        self.time_s = 0.0

    def now(self) -> float:
        return self.time_s

    def sleep_until(self, moment: float) -> None:
        self.time_s = max(self.time_s, moment)


class Wire:
    """A socket whose other end sends these parts, and then nothing."""

    def __init__(self, clock: StepClock, script: list[bytes | Exception | None]) -> None:
        self.clock = clock
        self.script = script
        self.sent = b""
        self.calls = 0
        self.closed = False

    def recv(self, size: int) -> bytes:
        self.calls += 1
        assert self.calls < 10_000, "endless loop"
        piece = self.script.pop(0) if self.script else None
        if piece is None:
            self.clock.time_s += 0.25
            raise TimeoutError
        if isinstance(piece, Exception):
            raise piece
        if len(piece) > size:
            self.script.insert(0, piece[size:])
        return piece[:size]

    def recv_into(self, view: memoryview) -> int:
        got = self.recv(len(view))
        view[: len(got)] = got
        self.clock.time_s += len(got) / 2 / RATE
        return len(got)

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def setsockopt(self, *_: int) -> None: ...

    def settimeout(self, _: float) -> None: ...

    def close(self) -> None:
        self.closed = True


@pytest.mark.fault("arbitrary-radio-bytes")
@given(st.binary(max_size=64) | st.builds(lambda tail: b"RTL0" + tail, st.binary(max_size=12)))
def test_any_data_are_a_header_or_an_error(data: bytes) -> None:
    try:
        header = parse_header(data)
    except ProbeError:
        assert len(data) != 12 or data[:4] != b"RTL0"
    else:
        assert header == Header(*struct.unpack(">II", data[4:]))


@pytest.mark.fault("radio-wrong-server", "arbitrary-radio-bytes")
@given(greetings, st.lists(pieces, max_size=12), st.data())
def test_the_server_can_send_anything(
    greeting: bytes, after: list[bytes | Exception | None], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(greeting)))
    script = [part for part in (greeting[:cut], greeting[cut:]) if part] + after
    received = bytearray()
    for piece in script:
        if isinstance(piece, Exception) or piece == b"":
            break
        received += piece or b""
    clock = StepClock()
    wire = Wire(clock, list(script))
    stream = RtlTcpStream(probe_settings(), clock)
    ring = IQRing(RATE, capacity_s=1.0, tolerance_s=0.005)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_connection", lambda *_: wire)
        try:
            stream.open(threading.Event())
        except ProbeError:
            assert wire.closed
            assert wire.sent == b"", "no command is sent to a server that is not rtl_tcp"
            return
    assert received.startswith(b"RTL0")
    assert wire.sent == b"".join(tuning_commands(probe_settings()))
    with pytest.raises(ProbeError):  # the server disconnects or becomes silent
        stream.read(ring, threading.Event())
    stream.close()
    assert wire.closed
    assert ring._store.count <= len(received) // 2


delays = st.one_of(st.just(0.0), st.floats(0.0, 0.02), st.floats(-2.0, 5.0))


@pytest.mark.fault("arbitrary-radio-bytes")
@given(
    st.lists(st.tuples(st.integers(0, 300), delays, st.booleans()), min_size=1, max_size=60),
    st.lists(st.tuples(st.floats(-0.2, 1.0), st.floats(0.0, 0.5)), min_size=1, max_size=8),
)
def test_a_window_is_complete_and_in_order_or_has_no_samples(
    blocks: list[tuple[int, float, bool]], wanted: list[tuple[float, float]]
) -> None:
    """Arrival times can jump: the ring stays within its memory and invents no samples."""
    ring = IQRing(RATE, capacity_s=0.7, tolerance_s=0.01, settling_s=0.1, dtype=np.float64)
    taken, now = 0, 0.0

    def append(size: int, delay_s: float) -> None:
        nonlocal taken, now
        now += size / RATE
        rows = np.arange(taken, taken + size, dtype=float)[:, None] * [1.0, 1.0]
        with contextlib.suppress(ProbeError):
            ring.append(rows, now + delay_s)
        taken += size

    def check(age_s: float, length_s: float) -> bool:
        window = ring.window(now - age_s, now - age_s + length_s)
        if window.samples is None:
            assert window.state == "pending" or window.reason
            return False
        numbers: npt.NDArray[np.float64] = window.samples[:, 0]
        assert len(numbers) <= ring._store.capacity
        assert abs(len(numbers) - length_s * RATE) <= 2
        assert np.all(np.diff(numbers) == 1.0)
        return True

    for size, delay, broken in blocks:
        append(size, delay)
        if broken and size == 0:
            ring.restart("overflow", now)
        for age_s, length_s in wanted:
            check(age_s, length_s)
    ring.restart("gap", now, reopened=True)
    for _ in range(73):  # a rate that was wrong is trusted again after 5 s
        append(100, 0.0)
    assert check(0.25, 0.2)
    assert check(0.4, 0.2), "across the end of the memory, 0.3 s ago"


@pytest.mark.fault("arbitrary-radio-bytes")
@given(st.binary(max_size=4000), st.integers(1, 5))
def test_any_bytes_have_a_power_and_a_reward(data: bytes, repeat: int) -> None:
    samples = np.frombuffer(data * repeat, np.uint8)
    samples = samples[: len(samples) // 2 * 2].reshape(-1, 2)
    assert 0.0 <= clipped_share(samples) <= 1.0
    for reading in (wideband(samples), tone(samples, 1e6, 125e3, 20e3)):
        assert 0.0 <= reading.power <= 2.1
        assert reading.sigma_db > 0.0
        if len(samples) >= 16:
            assert isfinite(reading.sigma_db)
            reward, sigma = Power(reading.power, 1e-4, reading.sigma_db, 0.01).reward(0.8)
            assert 0.0 <= reward < 20.0
            assert isfinite(sigma)


@pytest.mark.fault("stream-cut-within-sample")
@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=40))
def test_the_segmentation_of_the_stream_has_no_effect(cut: list[bytes]) -> None:
    got: list[Any] = []

    class Collecting(IQRing):
        def append(self, block: Any, arrival_s: float) -> None:
            got.append(block.copy())
            super().append(block, arrival_s)

    clock = StepClock()
    stream = RtlTcpStream(probe_settings(), clock)
    stream._socket = Wire(clock, list(cut))  # type: ignore[assignment]
    ring = Collecting(RATE, capacity_s=1.0, tolerance_s=0.005)
    with pytest.raises(ProbeError):
        stream.read(ring, threading.Event())
    whole = b"".join(cut)
    assert np.concatenate(got).tobytes() == whole[: len(whole) // 2 * 2]
    assert isnan(ring.measured_rate_hz)
