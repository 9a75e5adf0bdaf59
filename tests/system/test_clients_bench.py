"""`macontrol bench clients` and `dashboard`. Latencies are not tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from macontrol.commands.bench import dashboard
from macontrol.commands.bench.browsed import Browsed
from macontrol.commands.bench.clients import Effect, bars_of
from macontrol.commands.bench.dashboard import Flood, Measured, Share
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


def test_the_dashboard_is_measured_with_pages_and_a_flood() -> None:
    pytest.importorskip("tornado", reason="the extra `web` is not installed")
    command = [sys.executable, "-m", "macontrol", "bench", "dashboard", "--json"]
    command += ["--seconds", "4", "--slot-ms", "20", "--pages", "2", "--requests", "200"]
    environment = {**os.environ, "PATH": ""}  # no browser: test_dashboard.py has one
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=110, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["effect"]["clients"] == 2
    assert found["effect"]["snapshots"] > 5
    assert 10 < found["resident_mb"] < 200
    assert found["browsed"] is None
    flood = found["flood"]
    assert flood["requests"] == 200
    assert 50 < flood["answered"] < 200
    assert (flood["actions"], flood["errors"]) == (0, 0)
    assert min(flood[name]["slots"] for name in ("flooded", "busy", "neither")) > 0
    skipped = [bar["statement"] for bar in found["bars"] if "skipped" in bar["measured"]]
    assert len(skipped) == 2


def test_bars_of_the_dashboard() -> None:
    soon = Latencies(1000, 5.0, 10.0, 20.0, 30.0)
    effect = Effect(3, True, 10, 100, soon, soon, soon, soon, 0, 0)
    rest = Share(1.0, 0, 200)
    good = Measured(effect, 40.0, Browsed(0.5, 9.0), Flood(100, 80, 0, 0, rest, rest, rest))
    assert {bar.holds for bar in dashboard.bars_of(good)} == {True}
    acted = replace(good.flood, actions=1)
    bad = Measured(effect, 81.0, Browsed(1.6, 4.0), acted)
    assert [bar.holds for bar in dashboard.bars_of(bad)] == [True, True, False, False, False, False]
    unseen = dashboard.bars_of(replace(good, browsed=None))
    assert [bar.holds for bar in unseen].count(None) == 2
