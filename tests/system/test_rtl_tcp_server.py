"""The client with Debian's real rtl_tcp server: its header, queues, blocks and behaviour.

Only the library below the server is replaced (fake_librtlsdr.c). Its levels alternate with the
monotonic clock, so that the time of every sample can be checked.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol.config.model.errors import ProbeError
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Measurement
from macontrol.hal.probes.rtl_tcp.stream import RtlTcpStream
from macontrol.hal.probes.sdr.power import to_complex
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.hal.probes.sdr.ring import IQRing
from support.delayed_reader import delayed_reader
from support.probe_settings import probe_settings, wait_until

pytestmark = [
    pytest.mark.any_user,
    pytest.mark.skipif(shutil.which("rtl_tcp") is None, reason="needs rtl_tcp (Debian: rtl-sdr)"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, for the stand-in library"),
    pytest.mark.skipif(shutil.which("stdbuf") is None, reason="needs stdbuf (Debian: coreutils)"),
]

PERIOD_S = 0.25
RATE = 2.048e6
SHARE = 0.8
# As in fake_librtlsdr.c: amplitudes, and the variance of its noise in I and Q, in byte steps.
HIGH, LOW, NOISE = 32.0, 8.0, 2 * (1.0 + 0.25)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("librtlsdr")
    source = Path(__file__).with_name("fake_librtlsdr.c")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    name = "librtlsdr.so.0"
    command = ["gcc", *flags, f"-Wl,-soname,{name}", "-o", str(folder / name), str(source)]
    subprocess.run(command, check=True)
    return folder


def reward(measurement: Measurement) -> float:
    assert measurement.value is not None
    return measurement.value.reward(SHARE)[0]


class Server:
    """A real rtl_tcp on a free port."""

    def __init__(self, library: Path, **environment: float) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._environment = os.environ | {
            "LD_LIBRARY_PATH": str(library),
            "FAKE_PERIOD_MS": str(PERIOD_S * 1e3),
            **{key: str(value) for key, value in environment.items()},
        }
        self.lines: list[str] = []
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            ["stdbuf", "-oL", "rtl_tcp", "-a", "127.0.0.1", "-p", str(self.port)],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()
        wait_until(self._is_listening)

    def _is_listening(self) -> bool:
        """Whether it accepts connections; its message appears a moment earlier."""
        table = Path("/proc/net/tcp").read_text().splitlines()[1:]
        return any(
            row.split()[1].endswith(f":{self.port:04X}") and row.split()[3] == "0A" for row in table
        )

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def kill(self) -> None:
        """End the server; SIGTERM only makes it drop its client."""
        self.process.kill()
        self.process.wait(10.0)
        self._reader.join(10.0)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.lines.clear()


@pytest.fixture
def server(library: Path) -> Iterator[Server]:
    server = Server(library)
    yield server
    server.kill()


class Client:
    """A probe that measures the levels of the server, one level per slot."""

    def __init__(self, address: str, **changes: Any) -> None:
        settings = probe_settings(
            address=address, **({"noise_floor": -38.0, "guard_s": 0.02} | changes)
        )
        self.clock = WallClock()
        self.stream = RtlTcpStream(settings, self.clock)
        self.probe = SdrProbe(settings, self.stream, self.clock)
        self.probe.open()
        self.levels: list[float] = []
        self.found: list[Measurement] = []
        self.collected_late: list[int] = []
        self.faults: list[str] = []

    def run_until_valid(self, wanted: int) -> None:
        first, until = len(self.levels), time.monotonic() + 60.0
        while sum(m.valid and m.slot >= first for m in self.found) < wanted:
            assert time.monotonic() < until, (self.found, self.faults, self.probe.health())
            self.run_slot()

    def run_slot(self) -> None:
        period = int(self.clock.now() / PERIOD_S) + 1
        start = period * PERIOD_S
        slot = len(self.levels)
        self.levels.append(LOW if period % 2 else HIGH)
        self.clock.sleep_until(start)
        try:
            self.probe.request(slot, start, start + PERIOD_S)
            self.clock.sleep_until(start + 0.9 * PERIOD_S)
            for measurement in self.probe.collect(start + 0.9 * PERIOD_S):
                self.found.append(measurement)
                self.collected_late.append(slot - measurement.slot)
        except ProbeError as fault:
            self.faults.append(str(fault))

    def check_valid_rewards(self, floor: float) -> None:
        for measurement in self.found:
            if measurement.valid:
                power = (self.levels[measurement.slot] ** 2 + NOISE) / 127.5**2
                expected = SHARE * log2(power / floor)
                assert reward(measurement) == pytest.approx(expected, abs=0.1)


@pytest.mark.fault("reward-late", "gain-fixed")
def test_rewards_and_noise_floor_through_the_real_server(library: Path) -> None:
    server = Server(library, FAKE_QUIET_S=3.0)
    try:
        client = Client(server.address, noise_floor="measure")
        floor = client.probe.measure_noise_floor()
        assert floor.power == pytest.approx(NOISE / 127.5**2, rel=0.02)
        time.sleep(2.0)
        client.run_until_valid(8)
        client.check_valid_rewards(floor.power)
        health = client.probe.health()
        print(f"lateness {health.lateness_s * 1e3:.1f} ms; slots late {client.collected_late}")
        assert max(client.collected_late) >= 1  # blocks of 64 ms
        assert health.measured_rate_hz == pytest.approx(RATE, rel=0.03)
        client.probe.close()
        commands = (
            "set sample rate 2048000",
            "set freq 433670000",
            "set agc mode 0",
            "set gain mode 1",
            "set gain 200",  # accepted only in manual mode
        )
        assert [line for line in server.lines if line in commands] == list(commands)
    finally:
        server.kill()


@pytest.mark.fault("sample-time")
def test_the_time_stamps_of_samples_are_right(server: Server) -> None:
    """The level changes at known times, which are compared with the stamps."""
    settings = probe_settings(address=server.address)
    stream, ring = (
        RtlTcpStream(settings, WallClock()),
        IQRing(RATE, capacity_s=4.0, tolerance_s=0.02, settling_s=0.5),
    )
    stop = threading.Event()
    stream.open(stop)
    reader = threading.Thread(target=stream.read, args=(ring, stop))
    reader.start()
    time.sleep(4.0)
    errors = []
    now = time.monotonic()
    for period in range(int((now - 3.0) / PERIOD_S), int((now - 0.5) / PERIOD_S)):
        edge = period * PERIOD_S
        window = ring.window(edge - 0.05, edge + 0.05)
        if window.samples is None:
            continue
        power = np.square(np.abs(to_complex(window.samples)))
        power = power[: len(power) // 64 * 64].reshape(-1, 64).mean(axis=1)
        before_high = power[:20].mean() > power[-20:].mean()
        threshold = (HIGH**2 + LOW**2) / 2 / 127.5**2
        at = int(np.argmax((power < threshold) if before_high else (power > threshold)))
        errors.append(at * 64 / RATE - 0.05)
    stop.set()
    reader.join(10.0)
    stream.close()
    print(f"{len(errors)} edges: {min(errors) * 1e3:.2f} to {max(errors) * 1e3:.2f} ms off")
    assert len(errors) >= 5
    assert max(map(abs, errors)) < 0.01


@pytest.mark.fault("radio-busy")
def test_the_server_is_busy_for_a_second_client(server: Server) -> None:
    first = Client(server.address)
    settings = probe_settings(address=server.address, connect_timeout_s=1.0)
    with pytest.raises(ProbeError, match="busy with another client"):
        RtlTcpStream(settings, WallClock()).open(threading.Event())
    first.run_until_valid(2)
    first.probe.close()


@pytest.mark.fault("reader-stalls")
def test_a_reader_delayed_by_two_seconds_does_not_stamp_old_samples_as_recent(
    server: Server,
) -> None:
    client = Client(server.address)
    client.run_until_valid(2)
    with delayed_reader(2.0, client.clock) as delayed:
        for _ in range(10):
            client.run_slot()
    assert delayed.is_set()
    client.run_until_valid(4)
    client.check_valid_rewards(10**-3.8)
    client.probe.close()


@pytest.mark.fault("samples-lost")
def test_lost_samples_cause_no_shift(library: Path) -> None:
    server = Server(library, FAKE_LOSE_MS=70.0)
    try:
        client = Client(server.address)
        until = time.monotonic() + 30.0
        while "gap" not in {m.reason for m in client.found}:
            assert time.monotonic() < until
            client.run_slot()
        client.run_until_valid(3)
        client.check_valid_rewards(10**-3.8)
        client.probe.close()
    finally:
        server.kill()


@pytest.mark.fault("radio-header-slow", "radio-drops-client")
def test_a_server_that_drops_its_client_is_connected_again(server: Server) -> None:
    """On SIGTERM the real server drops its client, waits for 5 s, and sends a header again."""
    client = Client(server.address)
    client.run_until_valid(1)
    dropped = time.monotonic()
    rtl_tcp = server.process  # stdbuf is replaced by rtl_tcp
    rtl_tcp.send_signal(signal.SIGTERM)
    wait_until(lambda: bool(client.probe.health().fault))
    with suppress(ProbeError):
        client.probe.collect(0.0)
    wait_until(lambda: not client.probe.health().fault)
    print(f"connected and settled again after {time.monotonic() - dropped:.1f} s")
    assert time.monotonic() - dropped > 4.0, "it no longer waits; see probe.connect_timeout_s"
    client.run_until_valid(2)
    client.check_valid_rewards(10**-3.8)
    client.probe.close()


@pytest.mark.fault("radio-restarts")
def test_a_server_that_ends_is_reported_and_connected_again_after_its_restart(
    server: Server,
) -> None:
    client = Client(server.address)
    client.run_until_valid(1)
    server.kill()
    wait_until(lambda: "no server listens" in client.probe.health().fault)
    for _ in range(2):
        client.run_slot()
    assert client.faults
    server.start()
    wait_until(lambda: not client.probe.health().fault)
    client.run_until_valid(2)
    client.check_valid_rewards(10**-3.8)
    client.probe.close()
