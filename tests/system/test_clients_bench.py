"""`macontrol bench clients`: the daemon with and without clients. Latencies are not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from macontrol.commands.bench.clients import Effect, bars_of
from macontrol.commands.bench.jitter import Latencies


def test_slots_with_and_without_clients_are_told_apart() -> None:
    command = [sys.executable, "-m", "macontrol", "bench", "clients"]
    command += ["--seconds", "5", "--slot-ms", "20", "--clients", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["clients"] == 2
    assert found["blocks"] == 4
    assert found["snapshots"] > found["blocks"]
    for name in ("wake", "decide"):
        with_, without = found[f"{name}_with"], found[f"{name}_without"]
        assert min(with_["count"], without["count"]) > 10
        assert found["ratios"][f"{name}_p99"] == with_["p99"] / without["p99"]


def test_bars_need_fifo_and_enough_slots() -> None:
    soon, late = Latencies(1000, 5.0, 10.0, 20.0, 30.0), Latencies(1000, 5.0, 12.0, 20.0, 30.0)
    effect = Effect(3, True, 10, 100, late, soon, soon, soon, 0, 0)
    assert [bar.holds for bar in bars_of(effect)] == [False, True]
    assert {bar.holds for bar in bars_of(replace(effect, fifo=False))} == {None}
    few = replace(soon, count=10)
    assert {bar.holds for bar in bars_of(replace(effect, wake_without=few))} == {None}
