"""A trial on the simulated bench, operated through its control socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from macontrol.config.model.errors import ActionRefusedError
from macontrol.control.client import Client
from macontrol.control.places import connect
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.runfile import read_run
from support.waiting import wait_until


def can_connect(path: Path) -> bool:
    """The socket is there before its server listens."""
    try:
        connect(path, 10.0).close()
    except OSError:
        return False
    return True


COMMAND = [sys.executable, "-m", "macontrol", "bench", "ab", "--backend", "sim", "--json"]


def test_status_shows_the_block_and_stop_ends_the_trial(tmp_path: Path) -> None:
    locks, folder = tmp_path / "locks", tmp_path / "files"
    locks.mkdir(mode=0o700)
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(locks), "XDG_STATE_HOME": str(tmp_path)}
    command = [*COMMAND, "--policies", "fixed,moveucb", "--block", "2", "--blocks", "50"]
    command += ["--set=physical.slot_duration_s=0.02", "--set=physical.actuation_time_s=0.004"]
    with (
        subprocess.Popen(
            [*command, "--out", str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
        ExitStack() as closing,
    ):
        closing.callback(process.kill)
        wait_until(lambda: can_connect(locks / "sim.sock"))
        with Client(locks / "sim.sock", "test") as client:

            def is_in_second_round() -> bool:
                return bool(client.call("status")["trial"]["block"] >= 3)

            wait_until(is_in_second_round, every_s=0.05)
            wait_until(lambda: client.call("status")["state"] == "running", every_s=0.02)
            status = client.call("status")
            assert status["trial"]["blocks"] == 100
            assert status["trial"]["rounds"] == 50
            assert status["policy"] in ("fixed", "moveucb")
            assert Path(status["recording"]["run_file"]).parent == folder
            for action, parameters in (
                ("hold", {}),
                ("resume", {}),
                ("goto", {"position": 1.0}),
                ("set", {"key": "algorithm.beta", "value": 1.0}),
                ("resurvey", {}),
                ("noise_floor", {}),
            ):
                with pytest.raises(ActionRefusedError, match="a trial compares policies"):
                    client.call(action, **parameters)
            client.call("stop")
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    found = json.loads(output)
    assert len(found["rounds_counted"]) >= 1
    run = read_run(found["blocks"][-1]["run_file"])
    (stop,) = (event for event in run.events if event.kind is EventKind.ACTION)
    assert stop.detail.startswith("stop by ")
