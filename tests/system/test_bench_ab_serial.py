"""`macontrol bench ab` on the virtual bench: real processes, a pseudo-terminal and a socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from macontrol.controller.recording.runfile import read_run

MACONTROL = [sys.executable, "-m", "macontrol"]


def test_policies_alternate_on_one_bench(tmp_path: Path) -> None:
    port, folder = tmp_path / "stage", tmp_path / "files"
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    bench_command = [*MACONTROL, "virtual-bench", "--link", str(port), "--still", "5"]
    bench_command += ["--rtl-tcp", "127.0.0.1:0", "--seed", "3"]
    command = [*MACONTROL, "bench", "ab", "--policies", "fixed,moveucb", "--json", "--yes"]
    command += ["--backend", "serial", "--preset", "lab-2g4-grbl", "--port", str(port)]
    command += ["--block", "3", "--blocks", "2", "--out", str(folder)]
    # More time to move than the preset has, because a busy machine answers late.
    command += ["--set", "physical.actuation_time_s=0.16", "--set", "physical.slot_duration_s=0.3"]
    command += ["--set", "physical.region_length=0.5", "--set", "survey.samples=3"]
    with subprocess.Popen(
        bench_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as bench:
        assert bench.stdout is not None
        radio = bench.stdout.readline().split("radio on ")[1].split(";")[0]
        done = subprocess.run(
            [*command, "--probe", f"rtl_tcp://{radio}"],
            capture_output=True,
            text=True,
            env=environment,
            timeout=100,
            check=False,
        )
        bench.communicate("quit\n", timeout=20)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("walking the rail") == 1
    found = json.loads(done.stdout)
    assert found["rounds_counted"] == [1, 2]
    for one in found["blocks"]:
        run = read_run(one["run_file"])
        assert run.header.backend == "serial"
        assert run.header.policy == one["policy"]
        counted = run.slots["reward"][run.slots["slot"] - run.slots["slot"][0] >= 5]
        assert one["reward"] == pytest.approx(float(np.nanmean(counted)))
    assert all(one["travel_mm"] == 0.0 for one in found["blocks"] if one["policy"] == "fixed")
