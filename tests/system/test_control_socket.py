"""The control socket of a real daemon: who may act, what is recorded, what clients can break."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import macontrol
from macontrol.config.model.errors import ActionRefusedError, NoDaemonError, UsageError
from macontrol.control.messages import METHODS, MOST_CLIENTS
from macontrol.control.states import State
from macontrol.controller.recording.events import EventKind
from support.operated import MACONTROL, Operated, simulated
from support.resident import resident_mb
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
ROOT = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """A daemon for tests that leave it as it is."""
    with simulated(tmp_path_factory.mktemp("shared")) as daemon:
        yield daemon


@pytest.fixture
def places(shared: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(shared.locks))


def command(daemon: Operated, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MACONTROL, *words], capture_output=True, text=True, env=daemon.environment, timeout=60
    )


class TestActions:
    def test_they_are_recorded_with_time_slot_and_origin(self, tmp_path: Path) -> None:
        with simulated(tmp_path) as daemon:
            client = daemon.client
            client.call("hold")
            daemon.await_state(State.HOLDING)
            client.call("goto", position_mm=daemon.status()["position_mm"] + 1.0)
            client.call("resume")
            client.call("set", key="algorithm.beta", value=2.5)
            wait_until(lambda: daemon.status()["events"].get("action") == 4)
            client.call("stop")
            run = daemon.end()
        assert run is not None
        events = [event for event in run.events if event.kind is EventKind.ACTION]
        names = ["hold", "goto", "resume", "set algorithm.beta", "stop"]
        assert [event.detail.split(" by ")[0] for event in events] == names
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True)
        origin = f"{user.stdout.strip()} (pid {os.getpid()}, test)"
        assert {event.detail.split(" by ")[1] for event in events} == {origin}
        assert [event.value for event in events][3] == 2.5
        assert run.events[-1].kind is EventKind.STOP

    def test_a_new_survey_gives_a_new_policy_with_the_settings_of_the_operator(
        self, tmp_path: Path
    ) -> None:
        with simulated(tmp_path) as daemon:
            daemon.client.call("set", key="algorithm.beta", value=2.5)
            daemon.client.call("resurvey")
            daemon.await_state(State.SURVEYING)
            status = daemon.await_state(State.RUNNING)
            daemon.await_status(lambda status: status["events"]["survey"] == 2)
            assert status["settings"]["algorithm.beta"]["value"] == 2.5
            assert status["survey"] is None
            run = daemon.end()
        assert run is not None
        first, second = (e for e in run.events if e.kind is EventKind.SURVEY)
        assert first.detail == second.detail  # "100 samples, sigma_f": all positions have a reward
        walked = {round(x, 6) for x in run.slots["position"]}
        assert {round(x, 6) for x in run.header.config.survey_positions} <= walked
        # A run that continues this one starts from the second survey.
        again = run.header.resurvey
        assert again is not None
        assert again.survey.sigma_f2(run.header.config) ** 0.5 == second.value != first.value
        assert 0 < again.slot < second.slot

    @pytest.mark.parametrize(
        ("method", "parameters"),
        [
            ("goto", {"position": -0.01}),
            ("goto", {"position": 6.1}),
            ("goto", {"position": 1.7e308}),
            ("goto", {"position_mm": -1.7e308}),
            ("goto", {"position": 1.0, "position_mm": 1.0}),
            ("goto", {}),
            ("set", {"key": "algorithm.beta", "value": -1.0}),
            ("set", {"key": "algorithm.beta", "value": 1e300}),
            ("set", {"key": "algorithm.window", "value": 10.0}),
            ("set", {"key": "physical.stroke", "value": 10.0}),
            ("set", {"key": "algorithm.beta"}),
        ],
    )
    def test_what_is_out_of_range_is_refused(
        self, shared: Operated, method: str, parameters: dict[str, Any]
    ) -> None:
        before = shared.status()["events"].get("action")
        with pytest.raises(UsageError) as refused:
            shared.client.call(method, **parameters)
        assert refused.value.fix
        assert shared.status()["events"].get("action") == before


def test_the_python_interface_has_every_action(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simulated(tmp_path) as daemon:
        monkeypatch.setenv("RUNTIME_DIRECTORY", str(daemon.locks))
        with macontrol.connect() as own, macontrol.connect("sim") as watcher:
            assert own.name == "sim"
            events = watcher.events()
            snapshots = own.snapshots(10)
            assert next(snapshots)["name"] == "sim"
            thread = ThreadPoolExecutor(1).submit(list, events)
            outcomes = [own.hold(), own.resume(), own.goto(2.9), own.goto(mm=29.0), own.resume()]
            outcomes += [own.set("algorithm.beta", 2.0), own.noise_floor(), own.resurvey()]
            wait_until(lambda: own.status()["events"].get("action") == len(outcomes))
            outcomes.append(own.stop())
            assert set(outcomes) == {"accepted"}
            seen = [event for event in thread.result(60) if event["kind"] == "action"]
            assert len(seen) == len(outcomes)
            with pytest.raises(UsageError):
                own.goto(1.0, mm=1.0)


class TestPosterior:
    def test_it_is_that_of_the_policy(self, shared: Operated, places: None) -> None:
        with macontrol.connect("sim") as daemon:
            found, status = daemon.posterior(), daemon.status()
        rail = status["rail"]
        np.testing.assert_allclose(
            found.position, np.linspace(0, rail["length"], rail["points"]), atol=1e-6
        )
        assert found.acquisition is not None
        assert len(found.mean) == len(found.deviation) == len(found.acquisition)
        assert (found.deviation > 0).all()
        assert found.slot > 0

    def test_a_policy_without_one_refuses(self, tmp_path: Path) -> None:
        with (
            simulated(tmp_path, "--set=algorithm.policy=fixed") as daemon,
            pytest.raises(ActionRefusedError),
        ):
            daemon.client.call("posterior")


class TestSubscription:
    def test_snapshots_and_events_arrive(self, tmp_path: Path) -> None:
        with simulated(tmp_path) as daemon, daemon.connect() as watcher:
            watcher.call("subscribe", rate=10, events=True)
            daemon.client.call("hold")
            seen = []
            for method, parameters in watcher.notifications():
                seen.append((method, parameters))
                if method == "event" and parameters["kind"] == "action":
                    break
            daemon.client.call("stop")
            rest = list(watcher.notifications())  # until the daemon ends
            times = [p["time_s"] for m, p in [*seen, *rest] if m == "snapshot"]
            assert times == sorted(set(times))
            assert rest[-1][1]["state"] == State.STOPPING
            assert [p["kind"] for m, p in rest if m == "event"][-1] == "stop"

    def test_a_client_that_reads_nothing_loses_snapshots_and_then_its_connection(
        self, shared: Operated
    ) -> None:
        with shared.connect("slow") as slow:
            slow.call("subscribe", rate=10)
            for _ in range(5000):  # the server stops to read while its answers are not read
                try:
                    slow._socket.settimeout(0.2)
                    slow._socket.sendall(b'{"jsonrpc":"2.0","id":1,"method":"status"}\n')
                except OSError:
                    break
            clients = shared.status()["clients"]
            wait_until(lambda: shared.status()["clients"] < clients)
        assert resident_mb(shared.server_pid) < 40


class TestServer:
    def test_its_death_is_reported_once_and_the_run_continues(self, tmp_path: Path) -> None:
        with simulated(tmp_path) as daemon:
            slot, first = daemon.status()["slot"], daemon.server_pid
            os.kill(first, signal.SIGKILL)
            with pytest.raises(NoDaemonError):
                daemon.client.call("status")
            daemon.client.close()
            daemon.client = daemon.connect()  # the socket is the same: this waits for the new one
            assert daemon.server_pid != first
            status = daemon.await_status(lambda status: status["slot"] > slot + 10)
            assert status["events"]["control"] == 1
            run = daemon.end()
        assert run is not None
        (event,) = (e for e in run.events if e.kind is EventKind.CONTROL)
        assert "-9" in event.detail

    def test_it_ends_with_a_killed_daemon(self, tmp_path: Path) -> None:
        with simulated(tmp_path) as daemon:
            server = daemon.server_pid
            daemon.process.kill()
            wait_until(lambda: not Path(f"/proc/{server}").exists())
            assert daemon.path.exists()
            # The socket of the dead daemon is replaced.
        with simulated(tmp_path) as daemon:
            assert daemon.path.name == "sim.sock"
            daemon.client.call("stop")
            daemon.end()
            assert not daemon.path.exists()

    @pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
    def test_a_signal_to_all_processes_of_a_service_does_not_end_it(
        self, shared: Operated, number: int
    ) -> None:
        os.kill(shared.server_pid, number)
        assert shared.status()["slot"] > 0


class TestPermission:
    def test_only_the_user_may_connect(self, shared: Operated) -> None:
        mode = shared.path.stat().st_mode
        assert stat.S_IMODE(mode) == 0o600

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
    def test_another_user_is_refused(self, tmp_path: Path) -> None:
        with simulated(tmp_path) as daemon:
            for folder in (daemon.locks, *daemon.locks.parents):
                if folder.owner() == "root" and folder != Path("/"):
                    folder.chmod(folder.stat().st_mode | 0o055)
            child = os.fork()
            if child == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                with socket.socket(socket.AF_UNIX) as plain:
                    os._exit(plain.connect_ex(str(daemon.path)))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.EACCES


class TestCommands:
    def test_each_action_has_a_command(self, tmp_path: Path) -> None:
        with simulated(tmp_path) as daemon:
            for words in (
                ["hold"],
                ["goto", "25mm", "sim"],
                ["goto", "2.5"],
                ["set", "beta=2"],
                ["resume", "sim"],
                ["noise-floor"],
                ["resurvey"],
                ["stop"],
            ):
                done = command(daemon, *words)
                assert done.returncode == 0, done.stderr
            daemon.end()
            assert command(daemon, "status").returncode == 69

    def test_status_as_json_is_the_snapshot(self, shared: Operated) -> None:
        done = command(shared, "status", "--json")
        assert json.loads(done.stdout).keys() == shared.status().keys()

    def test_status_names_the_bench_and_the_state(self, shared: Operated) -> None:
        shown = command(shared, "status", "sim").stdout
        assert "running" in shown
        assert str(shared.process.pid) in shown

    def test_watching_ends_with_the_daemon(self, tmp_path: Path) -> None:
        with (
            simulated(tmp_path) as daemon,
            subprocess.Popen(
                [*MACONTROL, "status", "--watch"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=daemon.environment,
            ) as watch,
        ):
            assert watch.stdout is not None
            assert any("running" in line for line in watch.stdout)  # events can come before
            daemon.client.call("stop")
            assert watch.wait(60) == 69

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (["hold", "elsewhere"], 69),
            (["goto", "far"], 64),
            (["goto", "77"], 64),
            (["goto", "nan"], 64),
            (["set", "beta"], 64),
            (["set", "beta=x"], 64),
            (["set", "window=3"], 64),
        ],
    )
    def test_a_wrong_word_is_refused(self, shared: Operated, words: list[str], code: int) -> None:
        assert command(shared, *words).returncode == code

    def test_a_daemon_with_too_many_clients_is_not_taken_for_none(self, tmp_path: Path) -> None:
        with simulated(tmp_path) as daemon, ExitStack() as others:
            for _ in range(MOST_CLIENTS):
                client = others.enter_context(socket.socket(socket.AF_UNIX))
                client.connect(str(daemon.path))
            done = command(daemon, "status")
        assert done.returncode == NoDaemonError.exit_code
        assert str(daemon.path) in done.stderr

    def test_several_daemons_have_names(self, shared: Operated, tmp_path: Path) -> None:
        with simulated(tmp_path, "--name", "left") as left:
            link = shared.locks / left.path.name
            link.hardlink_to(left.path)
            try:
                assert len(command(shared, "status").stdout.splitlines()) == 2
                refused = command(shared, "hold")
                assert refused.returncode == 64
                assert "left" in refused.stderr
                assert "sim" in refused.stderr
                assert command(shared, "hold", "left").returncode == 0
                left.await_state(State.HOLDING)
                assert shared.status()["state"] == State.RUNNING
            finally:
                link.unlink()


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs/control.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with simulated(tmp_path) as daemon:
        done = subprocess.run(
            [sys.executable, "-c", code, daemon.path], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        daemon.await_status(lambda status: status["events"].get("action") == 2)
        run = daemon.end()
    assert run is not None
    names = [e.detail.split(" by ")[0] for e in run.events if e.kind is EventKind.ACTION]
    assert names == ["goto", "resume"]
    assert 1.5 in np.round(run.slots["position"], 9)


class TestMessages:
    """Over a plain socket, as a client in another language speaks."""

    @pytest.fixture
    def line(self, shared: Operated) -> Iterator[Any]:
        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(30)
            plain.connect(str(shared.path))
            with plain.makefile("rwb") as stream:
                yield stream

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            (b"{", -32700),
            (b"\xff\xfe", -32700),
            (b'{"jsonrpc":"2.0","id":1,"method":"goto","params":{"position":NaN}}', -32700),
            (b"[" * 8000, -32700),
            (b"[]", -32600),
            (b"7", -32600),
            (b'[{"jsonrpc":"2.0","id":1,"method":"status"}]', -32600),
            (b'{"id":1,"method":"status"}', -32600),
            (b'{"jsonrpc":"2.0","id":{},"method":"status"}', -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"__init__"}', -32601),
            (b'{"jsonrpc":"2.0","id":1,"method":"hold","params":[1]}', -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"hold","params":{"x":1}}', -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"goto","params":{"position":"1"}}', -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"goto","params":{"position":true}}', -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"goto","params":{"position":1e999}}', -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"rate":11}}', -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"api":2}}', -32004),
        ],
    )
    def test_each_wrong_request_has_its_code(self, line: Any, text: bytes, code: int) -> None:
        line.write(text + b"\n")
        line.flush()
        assert json.loads(line.readline())["error"]["code"] == code

    def test_a_line_without_end_closes_the_connection(self, line: Any) -> None:
        line.write(b"x" * 8192)
        line.flush()
        assert json.loads(line.readline())["error"]["code"] == -32700
        assert line.readline() == b""

    def test_a_notification_has_no_answer(self, line: Any) -> None:
        line.write(
            b'{"jsonrpc":"2.0","method":"status"}\n{"jsonrpc":"2.0","id":"b","method":"hello"}\n'
        )
        line.flush()
        answer = json.loads(line.readline())
        assert answer["id"] == "b"
        assert answer["result"]["methods"] == list(METHODS)
