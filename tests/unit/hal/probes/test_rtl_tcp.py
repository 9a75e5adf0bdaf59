"""The rtl_tcp client against scripted servers and the virtual radio, over real sockets."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from math import log2
from typing import Any

import numpy as np
import pytest

from macontrol.config.model.errors import ConfigError, ProbeError
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Measurement
from macontrol.hal.probes.rtl_tcp.stream import Header, RtlTcpStream, parse_header, tuning_commands
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.hal.probes.sdr.ring import IQRing
from macontrol.sim.bench.emulated_probe import Site
from macontrol.sim.bench.radio import Tuning, VirtualRadio
from support.delayed_reader import delayed_reader
from support.probe_settings import probe_settings, wait_until
from support.suggestions import suggestions
from support.virtual_radio import virtual_radio

HEADER = struct.pack(">4sII", b"RTL0", 5, 29)
RATE = 1.024e6
SHARE = 0.75


@contextlib.contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that runs `talk` with its first client, then disconnects."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                talk(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        host, port = listener.getsockname()
        yield f"{host}:{port}"
    finally:
        listener.close()
        thread.join(10.0)


def stream_to(address: str, **changes: Any) -> RtlTcpStream:
    defaults: dict[str, Any] = {"address": address, "connect_timeout_s": 30.0, "silence_s": 30.0}
    return RtlTcpStream(probe_settings(**(defaults | changes)), WallClock())


def ring_of(seconds: float = 1.0) -> IQRing:
    return IQRing(RATE, capacity_s=seconds, tolerance_s=0.01)


def test_the_header_identifies_the_tuner() -> None:
    assert parse_header(HEADER) == Header(5, 29)
    assert parse_header(HEADER).tuner == "R820T"
    assert Header(99, 0).tuner == "unknown tuner"


def test_the_commands_set_frequency_rate_and_gain() -> None:
    settings = probe_settings(tuner_frequency_hz=433.67e6, gain_db=-1.5, ppm=-3)
    assert [struct.unpack(">Bi", c) for c in tuning_commands(settings)] == [
        (0x02, 2_048_000),
        (0x05, -3),
        (0x01, 433_670_000),
        (0x08, 0),
        (0x03, 1),
        (0x04, -15),
    ]


def test_the_commands_are_sent_after_the_header() -> None:
    received = bytearray()

    def talk(connection: socket.socket) -> None:
        connection.settimeout(10.0)
        connection.sendall(HEADER)
        while len(received) < 30:
            received.extend(connection.recv(100))

    with server(talk) as address:
        stream = stream_to(address)
        stream.open(threading.Event())
        wait_until(lambda: len(received) == 30)
        stream.close()
    assert bytes(received) == b"".join(tuning_commands(probe_settings()))


@pytest.mark.fault("radio-wrong-server", "radio-header-short")
@pytest.mark.parametrize(
    ("greeting", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", r"not rtl_tcp: its data begin with b'HTTP"),
        (b"R", "disconnected after 1 bytes"),
        (b"", "disconnected after 0 bytes"),
        (b"\x00" * 12, "not rtl_tcp"),
        (b"RTL1" + HEADER[4:], "not rtl_tcp"),
    ],
)
def test_a_wrong_header_is_reported(greeting: bytes, message: str) -> None:
    with (
        server(lambda c: c.sendall(greeting)) as address,
        pytest.raises(ProbeError, match=message),
    ):
        stream_to(address).open(threading.Event())


@pytest.mark.fault("radio-header-short")
def test_an_incomplete_header_is_reported_in_time() -> None:
    done = threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(HEADER[:7])
        done.wait(10.0)

    with server(talk) as address:
        started = time.monotonic()
        with pytest.raises(ProbeError, match="only 7 bytes"):
            stream_to(address, connect_timeout_s=0.6).open(threading.Event())
        assert time.monotonic() - started < 5.0
        done.set()


@pytest.mark.fault("tuner-out-of-range")
@pytest.mark.parametrize(
    ("tuner_type", "tuner_hz", "refused"),
    [
        (5, 1766e6, False),
        (5, 1.9e9, True),
        (6, 23e6, True),
        (1, 1.9e9, False),
        (2, 1e9, True),
        (4, 433.67e6, True),  # between its two ranges
        (0, 1.9e9, False),  # unknown to the server
    ],
)
def test_a_frequency_outside_the_tuner_range_is_refused_and_never_sent(
    tuner_type: int, tuner_hz: float, refused: bool
) -> None:
    sent: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        connection.sendall(struct.pack(">4sII", b"RTL0", tuner_type, 29))
        sent.append(connection.recv(100))

    with server(talk) as address:
        stream = stream_to(address, tuner_frequency_hz=tuner_hz)
        if refused:
            with pytest.raises(ConfigError, match=r"^probe\.tuner_frequency_hz: "):
                stream.open(threading.Event())
        else:
            stream.open(threading.Event())
            stream.close()
        wait_until(lambda: len(sent) == 1)
    assert (sent == [b""]) == refused


def test_a_header_can_arrive_in_parts() -> None:
    def talk(connection: socket.socket) -> None:
        for byte in HEADER:
            connection.sendall(bytes([byte]))
            time.sleep(0.002)
        connection.recv(100)

    with server(talk) as address:
        stream = stream_to(address, connect_timeout_s=5.0)
        stream.open(threading.Event())
        assert stream.header == Header(5, 29)
        stream.close()


def test_an_address_without_a_server_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ProbeError, match="no server listens"):
        stream_to(f"127.0.0.1:{port}").open(threading.Event())


@pytest.mark.fault("radio-host-unknown")
def test_an_unknown_host_is_reported() -> None:
    with pytest.raises(ProbeError, match="no connection: ") as refused:
        stream_to("no-such-host.invalid:1234").open(threading.Event())
    assert "probe.rtl_tcp.address" in refused.value.fix


def test_a_busy_server_is_reported() -> None:
    radio = virtual_radio(lambda _: 0.01)
    radio.busy = True
    with radio, pytest.raises(ProbeError, match="busy with another client"):
        stream_to(radio.address, connect_timeout_s=0.6).open(threading.Event())


def test_opening_can_be_stopped() -> None:
    radio = virtual_radio(lambda _: 0.01)
    radio.busy = True
    with radio:
        stop = threading.Event()
        threading.Timer(0.1, stop.set).start()
        with pytest.raises(ProbeError, match="closed"):
            stream_to(radio.address, connect_timeout_s=30.0).open(stop)


@pytest.mark.fault("radio-silent")
def test_a_silent_server_is_reported() -> None:
    done = threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(HEADER)
        done.wait(10.0)

    with server(talk) as address:
        stream = stream_to(address, silence_s=0.5)
        stream.open(threading.Event())
        with pytest.raises(ProbeError, match=r"no samples for 0\.5 s"):
            stream.read(ring_of(), threading.Event())
        stream.close()
        done.set()


@pytest.mark.fault("stream-cut-within-sample")
def test_samples_are_complete_for_any_segmentation_of_the_bytes() -> None:
    data = bytes(range(256)) * 8

    def talk(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(HEADER)
        rest = data
        for size in (1, 2, 3, 1, 1, 700, 5, 1001):
            connection.sendall(rest[:size])
            rest = rest[size:]
            time.sleep(0.003)
        connection.sendall(rest)

    class Collecting(IQRing):
        rows: list[list[int]]

        def append(self, block: Any, arrival_s: float) -> None:
            self.rows += block.tolist()

    ring = Collecting(RATE, capacity_s=0.1, tolerance_s=0.01)
    ring.rows = []
    with server(talk) as address:
        stream = stream_to(address)
        stream.open(threading.Event())
        with pytest.raises(ProbeError, match=r"disconnected|lost"):
            stream.read(ring, threading.Event())
        stream.close()
    assert bytes(np.array(ring.rows, np.uint8).reshape(-1)) == data


# The whole client on the virtual radio. The levels alternate with the slots, so that samples of
# another slot change the reward visibly.

SLOT_S = 0.1
HIGH, LOW, NOISE = 4e-2, 2.5e-3, 1e-3


def alternating(moment: float) -> float:
    return HIGH if int(moment / SLOT_S) % 2 == 0 else LOW


def reward(measurement: Measurement) -> float:
    assert measurement.value is not None
    return measurement.value.reward(SHARE)[0]


class Client:
    """A probe that runs slots on the virtual radio."""

    def __init__(self, radio: VirtualRadio, **changes: Any) -> None:
        base: dict[str, Any] = {
            "address": radio.address,
            "sample_rate_hz": RATE,
            "noise_floor": -30.0,
            "guard_s": 0.02,
            "settling_s": 0.3,
        }
        settings = probe_settings(**(base | changes))
        self.clock = WallClock()
        self.probe = SdrProbe(settings, RtlTcpStream(settings, self.clock), self.clock)
        self.probe.open()
        self.epoch = int(self.clock.now() / SLOT_S) + 1
        self.slot = 0
        self.starts: list[float] = []
        self.found: dict[int, Measurement] = {}
        self.faults: list[str] = []

    def run(self, slots: int) -> None:
        for _ in range(slots):
            start = (self.epoch + self.slot) * SLOT_S
            self.starts.append(start)
            self.clock.sleep_until(start)
            try:
                self.probe.request(self.slot, start, start + SLOT_S)
                self.take(self.probe.collect(start + SLOT_S))
            except ProbeError as fault:
                self.faults.append(str(fault))
            self.slot += 1

    def run_until_valid(self, wanted: int) -> None:
        """Run slots until `wanted` of them have a valid measurement."""
        first, until = self.slot, time.monotonic() + 60.0
        while sum(m.valid for slot, m in self.found.items() if slot >= first) < wanted:
            assert time.monotonic() < until, (self.found, self.probe.health())
            self.run(1)

    def take(self, found: Any) -> None:
        for measurement in found:
            assert measurement.slot not in self.found
            self.found[measurement.slot] = measurement

    def finish(self) -> None:
        until = self.clock.now() + 3.0
        while self.clock.now() < until and self.slot - 1 not in self.found:
            with contextlib.suppress(ProbeError):
                self.take(self.probe.collect(0.0))
            time.sleep(0.01)
        self.probe.close()

    def expected(self, slot: int) -> float:
        level = alternating(self.starts[slot] + SLOT_S / 2)
        return SHARE * log2((level + NOISE) / NOISE)

    def check_valid_rewards(self) -> None:
        """Check that every valid reward is the one of its own slot."""
        for measurement in self.found.values():
            if measurement.valid:
                expected = self.expected(measurement.slot)
                assert reward(measurement) == pytest.approx(expected, abs=0.15)

    def reasons(self) -> set[str]:
        return {m.reason for m in self.found.values() if not m.valid}


def radio_of(**changes: Any) -> VirtualRadio:
    return virtual_radio(alternating, **({"noise_power": NOISE, "block_bytes": 16_384} | changes))


@pytest.mark.parametrize("block_bytes", [16_384, 262_144])
def test_every_slot_gets_its_own_reward(block_bytes: int) -> None:
    with radio_of(block_bytes=block_bytes) as radio:
        client = Client(radio)
        client.run_until_valid(8)
        client.finish()
        tuning = radio.tuning
    client.check_valid_rewards()
    assert (tuning.sample_rate_hz, tuning.manual_gain, tuning.agc) == (RATE, True, False)
    assert (tuning.frequency_hz, tuning.gain_db) == (433.67e6, 20.0)


@pytest.mark.fault("radio-stalls")
@pytest.mark.parametrize("stall_s", [0.4, 2.0])
def test_a_stall_of_the_server_causes_no_stale_reward(stall_s: float) -> None:
    with radio_of() as radio:
        client = Client(radio, silence_s=5.0)
        client.run_until_valid(2)
        radio.stall(stall_s)
        client.run(round(stall_s / SLOT_S))
        client.run_until_valid(4)
        client.finish()
    client.check_valid_rewards()
    assert client.faults == []
    # Samples within probe.stale_s give a late reward; later ones give none.
    assert ("stale" in client.reasons()) == (stall_s > 1.5)


def test_a_delayed_reader_does_not_stamp_old_samples_as_recent() -> None:
    with radio_of() as radio:
        client = Client(radio)
        client.run_until_valid(2)
        with delayed_reader(1.0, client.clock) as delayed:
            client.run(12)
        client.run_until_valid(4)
        client.finish()
    assert delayed.is_set()
    client.check_valid_rewards()


@pytest.mark.fault("samples-lost")
def test_lost_samples_cause_a_gap_and_no_shift() -> None:
    with radio_of() as radio:
        client = Client(radio)
        client.run_until_valid(2)
        radio.lose(0.045)
        client.run(12)
        client.run_until_valid(4)
        client.finish()
    assert "gap" in client.reasons()
    client.check_valid_rewards()


@pytest.mark.fault("clipping")
def test_clipping_gives_no_reward() -> None:
    with radio_of() as radio:
        client = Client(radio)
        client.run_until_valid(2)
        radio.clip(0.3)
        client.run(3)
        client.run_until_valid(2)
        client.finish()
    assert "clipping" in client.reasons()
    client.check_valid_rewards()


@pytest.mark.fault("radio-drops-client", "gain-fixed")
def test_a_disconnect_is_reported_and_the_server_is_connected_again() -> None:
    with radio_of() as radio:
        client = Client(radio)
        client.run_until_valid(2)
        radio.tuning = Tuning()
        radio.drop()
        client.run(3)
        client.run_until_valid(3)
        client.finish()
        assert radio.clients == 2
        tuning = radio.tuning  # tuned again
    assert (tuning.sample_rate_hz, tuning.manual_gain, tuning.agc) == (RATE, True, False)
    assert any("disconnected" in fault or "lost" in fault for fault in client.faults)
    client.check_valid_rewards()


@pytest.mark.fault("radio-returns-busy-or-wrong")
def test_a_busy_or_wrong_server_after_a_loss_is_reported_and_connected_again() -> None:
    with radio_of() as radio:
        client = Client(radio, connect_timeout_s=0.3)
        client.run_until_valid(1)
        radio.header = b"SSH-2.0-OpenSSH"
        radio.drop()
        wait_until(lambda: "not rtl_tcp" in client.probe.health().fault)
        radio.busy = True
        wait_until(lambda: "busy with another client" in client.probe.health().fault)
        radio.busy, radio.header = False, HEADER
        wait_until(lambda: not client.probe.health().fault)
        client.epoch = int(client.clock.now() / SLOT_S) + 1 - client.slot
        client.run_until_valid(2)
        client.finish()
    client.check_valid_rewards()


@pytest.mark.fault("radio-header-slow")
def test_the_client_waits_for_a_late_header_after_another_client() -> None:
    with radio_of(rest_s=1.5) as radio:
        first = stream_to(radio.address, connect_timeout_s=8.0)
        first.open(threading.Event())
        first.close()
        client = Client(radio)
        client.run_until_valid(2)
        client.finish()
    client.check_valid_rewards()


def faults_during(client: Client, seconds: float) -> set[str]:
    """Return the faults in the health during this time; empty if there was none for a moment."""
    faults, until = set(), time.monotonic() + seconds
    while time.monotonic() < until:
        faults.add(client.probe.health().fault)
        time.sleep(0.005)
    return faults


@pytest.mark.fault("radio-returns-silent")
def test_a_header_without_samples_does_not_clear_the_fault() -> None:
    with radio_of() as radio:
        client = Client(radio, silence_s=0.3)
        client.run_until_valid(1)
        radio.stall(600.0)
        radio.drop()
        wait_until(lambda: bool(client.probe.health().fault))
        faults = faults_during(client, 1.5)
        until = time.monotonic() + 60.0
        while "no samples for 0.3 s" not in faults and time.monotonic() < until:
            faults |= faults_during(client, 0.1)
        assert radio.clients >= 2
        assert "no samples for 0.3 s" in faults
        assert "" not in faults
        radio.stall(0.0)
        wait_until(lambda: not client.probe.health().fault)
        client.finish()


class OtherRate(VirtualRadio):
    """A radio that ignores the requested sample rate."""

    rate_hz = RATE

    def _execute(self, data: bytes) -> bytes:
        left = super()._execute(data)
        self.tuning.sample_rate_hz = self.rate_hz
        return left


@pytest.mark.fault("sample-rate-unsupported")
def test_a_server_slower_than_its_rate_is_refused_with_the_rate() -> None:
    radio = OtherRate(Site(alternating, block_bytes=16_384))
    with radio:
        radio.rate_hz = 0.75 * RATE
        with pytest.raises(
            ProbeError, match=r"not at their rate: 7\d\d,\d{3} per second instead of 1,024,000"
        ):
            Client(radio, silence_s=0.5)


@pytest.mark.fault("sample-rate-wrong")
def test_a_server_faster_than_its_rate_is_reported_and_shifts_no_reward() -> None:
    radio = OtherRate(Site(alternating, noise_power=NOISE, block_bytes=16_384))
    with radio:
        client = Client(radio)
        client.run_until_valid(2)
        radio.rate_hz = radio.tuning.sample_rate_hz = 1.17 * RATE
        until = time.monotonic() + 30.0
        while "were requested" not in client.probe.health().fault:
            assert time.monotonic() < until, client.probe.health()
            client.run(1)
        client.check_valid_rewards()
        assert client.reasons() <= {"gap", "sample-rate", "settling"}
        wait_until(lambda: radio.clients == 2)
        assert "" not in faults_during(client, 1.0), (
            "an open stream without samples is still a fault"
        )
        client.probe.close()


@pytest.mark.fault("tone-lost")
def test_a_stopped_transmitter_and_a_drifted_tone_have_different_reasons() -> None:
    """In both cases the tone's band is at the noise floor; the other bands differ."""
    band = {"mode": "tone", "tone_offset_hz": RATE / 8, "noise_floor": "measure"}
    band["noise_floor_s"] = 0.5
    with virtual_radio(lambda _: LOW, noise_power=NOISE, block_bytes=8192) as radio:
        radio.transmitting = False
        client = Client(radio, **band)
        client.probe.measure_noise_floor()

        def latest() -> Measurement:
            client.run_until_valid(3)  # the last of them begins after the latest change
            return client.found[max(client.found)]

        silent = latest()
        assert (silent.valid, silent.reason) == (True, "no-signal")
        radio.transmitting = True
        received = latest()
        assert (received.reason, received.above_floor > 10) == ("", True)
        radio.detune(100e3)
        drifted = latest()
        assert drifted.above_floor < 1
        assert drifted.reason == "tone-lost"
        (((fix,),)) = suggestions(f"; {drifted.hint}")
        key, value = fix.split("=")
        assert key == "probe.tone_offset_hz"
        assert float(value) == pytest.approx(RATE / 8 + 100e3, abs=5e3)
        client.probe.close()
        again = Client(radio, **(band | {"tone_offset_hz": float(value), "noise_floor": -47.0}))
        again.run_until_valid(1)
        assert again.found[max(again.found)].above_floor > 10, "the suggested offset finds the tone"
        again.probe.close()
