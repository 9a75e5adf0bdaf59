"""The daemon with a stage and a detector of the virtual bench, on two pseudo-terminals."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from macontrol.controller.recording.runfile import read_run
from support.channel_errors import channel_errors

pytestmark = pytest.mark.any_user

MACONTROL = [sys.executable, "-m", "macontrol"]
SEED = 3
# More time to move than the preset has, because a busy machine answers late.
SETTINGS = ["physical.actuation_time_s=0.16", "physical.slot_duration_s=0.3"]
SETTINGS += ["physical.region_length=0.5", "survey.samples=3"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, because the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="detector-") as name:
        yield Path(name)


def test_a_run_with_a_detector_measures_the_channel(folder: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    notify, run_file = folder / "ready", folder / "run.sqlite"
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    command = [*MACONTROL, "virtual-bench", "--probe", "line", "--seed", str(SEED)]
    command += ["--link", str(folder / "stage"), "--notify", str(notify), *words]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as bench:
        try:
            assert bench.stdout is not None
            assert "detector on /dev/pts/" in bench.stdout.readline()
            printed = shlex.split(bench.stdout.readline())
            assert printed[0] == f"NOTIFY_SOCKET={notify}"
            assert printed[-1].startswith("line:///dev/pts/")
            done = subprocess.run(
                [*MACONTROL, *printed[2:], "--cold", "--slots", "40", "--run", str(run_file)],
                capture_output=True,
                text=True,
                check=False,
                env={**environment, "NOTIFY_SOCKET": str(notify)},
                stdin=subprocess.DEVNULL,
                timeout=120,
            )
        finally:
            bench.communicate("quit\n", timeout=20)
    assert done.returncode == 0, done.stderr
    errors = channel_errors(read_run(run_file), SEED)
    assert len(errors) >= 20
    # In another world, slot or noise the rewards would differ by tenths.
    assert abs(np.mean(errors)) < 0.02
    assert np.sqrt(np.mean(np.square(errors))) < 0.05
