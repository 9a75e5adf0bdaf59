"""Parts of the control socket that need no daemon: places, messages, limits, the quiet time."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from macontrol.config import Config
from macontrol.config.model.errors import NoDaemonError
from macontrol.config.model.slot_timing import SlotTiming
from macontrol.control import connection, live_run
from macontrol.control.client import open_client
from macontrol.control.connection import MOST_UNREAD, Bucket, Connection
from macontrol.control.lines import Lines, unpack
from macontrol.control.live_run import LiveRun, pack
from macontrol.control.places import connect, listen, sockets, stem_of
from macontrol.controller.host.instance import lock_directory
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event


class Time:
    """A clock in place of the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class TestPlaces:
    def test_names_become_short_file_names(self) -> None:
        assert stem_of("sim") == "sim"
        assert stem_of("/dev/ttyUSB0") == "dev%2FttyUSB0"
        long = [stem_of(f"/dev/serial/by-id/usb-{'x' * 100}-port{n}") for n in range(2)]
        assert long[0] != long[1]
        assert all(len(stem) <= 60 for stem in long)

    def test_a_socket_in_a_deep_folder_is_reached(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / ("d" * 100) / "run"
        folder.mkdir(parents=True)
        monkeypatch.setenv("RUNTIME_DIRECTORY", str(folder))
        listener, path = listen("sim")
        with listener:
            assert sockets() == ([path], [])
            connect(path, 5.0).close()

    def test_that_of_a_dead_daemon_is_replaced_and_that_of_a_living_one_is_not(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
        dead, path = listen("sim")
        dead.close()
        assert path.exists()
        with listen("sim")[0] as living:
            assert living.getsockname() == str(path)
            second, other = listen("sim")
            with second:
                assert other.name == f"sim~{os.getpid()}.sock"
                assert len(sockets()[0]) == 2

    def test_the_own_folder_of_a_user_is_private(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if os.geteuid() == 0:
            monkeypatch.setattr(os, "geteuid", lambda: 1000)
        folder = lock_directory({"XDG_RUNTIME_DIR": str(tmp_path)})
        assert folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_without_a_daemon_the_error_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
        listen("sim")[0].close()  # a stale socket is no daemon
        with pytest.raises(NoDaemonError):
            open_client(None, "test")


class TestLimits:
    def test_a_bucket_refills(self, monkeypatch: pytest.MonkeyPatch) -> None:
        time = Time()
        monkeypatch.setattr(connection, "time", time)
        bucket = Bucket(per_s=10, most=3)
        assert [bucket.take() for _ in range(4)] == [True, True, True, False]
        time.sleep(0.1)
        assert [bucket.take() for _ in range(2)] == [True, False]
        time.sleep(100)
        assert [bucket.take() for _ in range(4)] == [True, True, True, False]

    def test_a_client_that_does_not_read_loses_snapshots_and_events_and_then_is_over(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        time = Time()
        monkeypatch.setattr(connection, "time", time)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            client = Connection(ours, "me", 1)
            client.subscribe(10.0, events=True)
            events = [{"text": "x" * 1000}] * 100
            for _ in range(100):
                time.sleep(0.02)
                client.offer_snapshot(b"s" * 10_000 + b"\n")
                client.offer_events(events, 0)
            assert len(client._out) < MOST_UNREAD
            assert not client.is_over
            time.sleep(10.1)
            assert client.is_over
            # Once it reads, it gets the number of those that it has missed.
            received = b""
            theirs.settimeout(1)
            while client._out:
                client.flush()
                received += theirs.recv(1 << 20)
            client.offer_events([], 0)
            received += theirs.recv(1 << 20)
            messages = [json.loads(m) for m in received.splitlines() if m.startswith(b"{")]
            arrived = sum(message["method"] == "event" for message in messages)
            dropped = sum(m["params"]["events"] for m in messages if m["method"] == "dropped")
            assert arrived + dropped == 10_000
            assert dropped > 5_000

    def test_snapshots_come_at_the_rate_of_each_client(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        time = Time()
        monkeypatch.setattr(connection, "time", time)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            client = Connection(ours, "me", 1)
            client.subscribe(2.0, events=False)
            for _ in range(100):  # the daemon sends ten per second, for another client
                client.offer_snapshot(b"s\n")
                time.sleep(0.1)
            assert len(theirs.recv(1000).splitlines()) in (20, 21)

    def test_events_that_nobody_wants_are_not_kept(self, paper: Config) -> None:
        run = live(paper)
        event = Event(1, 0.0, EventKind.WARNING, "x")
        run.submit(event)
        assert not run.events
        run.wants_events = True
        for _ in range(2000):
            run.submit(event)
        assert len(run.events) + run.dropped == 2000
        assert len(run.events) <= 500


class TestLink:
    def test_a_message_arrives_in_parts(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            lines = Lines(theirs)
            ours.send(b'{"a":1}\n{"b"')
            assert lines.read() == [{"a": 1}]
            ours.send(b":2}\n")
            assert lines.read() == [{"b": 2}]
            ours.close()
            assert lines.read() == []
            assert lines.is_closed

    def test_it_refuses_what_the_other_end_does_not_take(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            lines = Lines(ours)
            sent = 0
            while lines.send({"x": "y" * 100_000}):
                sent += 1
                assert sent < 1000
            assert lines.unsent < 5_000_000

    def test_packed_numbers_have_seven_digits(self) -> None:
        import numpy as np

        numbers = np.random.default_rng(1).normal(size=601)
        np.testing.assert_allclose(unpack(pack(numbers)) or [], numbers, rtol=1e-6)
        assert unpack(pack(None)) is None


class TestQuietTime:
    @pytest.mark.parametrize("phase", [0.0, 0.3, 0.9, 1.2, 2.0, 3.0, 4.0, 4.9])
    def test_it_is_while_the_probe_measures(
        self, paper: Config, monkeypatch: pytest.MonkeyPatch, phase: float
    ) -> None:
        time, run = Time(), live(paper)
        monkeypatch.setattr(live_run, "time", time)
        timing = SlotTiming(5e-3, 1.1e-3, 4.5e-3)
        run.phase, run.loop = None, cast(Any, SimpleNamespace(timing=timing))
        run.last = cast(Any, SimpleNamespace(start_s=900.0))
        time.now = 1000.0 + phase * 1e-3
        run.await_quiet()
        within = (time.now - 900.0) % 5e-3
        assert 1.1e-3 < within < 4.0e-3
        assert time.now - 1000.0 - phase * 1e-3 <= 5e-3

    def test_before_the_slots_nothing_is_awaited(
        self, paper: Config, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        time = Time()
        monkeypatch.setattr(live_run, "time", time)
        live(paper).await_quiet()
        assert time.now == 1000.0


def live(config: Config) -> LiveRun:
    parts = [cast(Any, None)] * 5
    return LiveRun(config, *parts)
