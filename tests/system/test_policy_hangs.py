"""A policy of a plug-in that never returns: the process ends, and says where the policy is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from macontrol.controller.recording.records import EventKind
from macontrol.controller.recording.runfile import read_run

POLICY = """
import threading
import numpy as np
from math import nan
from macontrol.controller.policies.policy import Decision

class Stuck:
    "does not return from slot 20"
    def __init__(self, inputs):
        self.start_position = inputs.start_position
    def resume(self, target): ...
    def observe(self, slot, position, reward): ...
    def withdraw(self, slot): ...
    def decide(self, slot, position):
        while slot >= 20:
            self.work()
        return Decision(position, position, False, False, nan)
    def work(self): ...

class Waits(Stuck):
    def work(self):
        threading.Event().wait()

class Computes(Stuck):
    def work(self):
        try:
            np.linalg.inv(np.random.rand(500, 500))
        except BaseException:
            pass
"""


@pytest.mark.fault("policy-hangs")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["Stuck", "Waits", "Computes"])
def test_the_process_ends_with_70(name: str, tmp_path: Path) -> None:
    (tmp_path / "lab_policy.py").write_text(POLICY)
    path = tmp_path / "run.sqlite"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "macontrol", "--backend", "sim", "--log", "json"),
            *("--policy", f"lab_policy:{name}", "--run", str(path)),
            *("--set", "timing.fault_patience_s=1", "--set", "physical.slot_duration_s=0.02"),
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path),
            "RUNTIME_DIRECTORY": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 70, done.stderr
    assert done.stderr.startswith(f"macontrol: the policy lab_policy:{name} has not returned")
    run = read_run(path)
    assert run.slots["slot"][-1] < 20
    fault, stop = run.events[-2:]
    assert (fault.kind, stop.kind) == (EventKind.POLICY_FAULT, EventKind.STOP)
    assert "lab_policy.py" in fault.detail, "where it hangs"
