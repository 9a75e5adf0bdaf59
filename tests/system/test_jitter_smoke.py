"""`macontrol bench jitter`: the daemon and cyclictest together. Latencies are not tested."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from macontrol.commands.bench.jitter import Jitter, Latencies, as_json, bars_of, fifo_is_permitted
from macontrol.commands.bench.jitter import _of_histogram as of_histogram


@pytest.mark.skipif(shutil.which("cyclictest") is None, reason="needs cyclictest: rt-tests")
@pytest.mark.skipif(not fifo_is_permitted(), reason="SCHED_FIFO is not permitted here")
def test_the_daemon_and_cyclictest_are_measured_side_by_side() -> None:
    command = [sys.executable, "-m", "macontrol", "bench", "jitter", "--seconds", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ours, peer = found["ours"], found["cyclictest"]
    assert found["fifo"]
    assert ours["count"] > 400
    assert peer["count"] > 400
    for times in (ours, peer):
        assert 0 < times["p50"] <= times["p99"] <= times["p99_9"] < times["largest"] + 1
    assert found["ratios"] == {name: ours[name] / peer[name] for name in ("p50", "p99", "p99_9")}
    assert found["resident_bytes"] < 120e6


def test_without_cyclictest_the_error_names_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    from macontrol.cli import main

    assert main(["bench", "jitter", "--seconds", "1"]) == 69
    assert "apt install rt-tests" in capsys.readouterr().err


def test_percentiles_of_a_histogram_include_values_beyond_its_scale() -> None:
    found = of_histogram({10: 980, 40: 10}, largest=70_000.0, cycles=1000)
    assert (found.p50, found.p99, found.p99_9) == (10.5, 40.5, 70_000.0)


def test_bars_are_missed_one_by_one_and_ratios_need_fifo() -> None:
    late, soon = Latencies(1000, 80.0, 90.0, 100.0, 100.0), Latencies(1000, 50.0, 70.0, 80.0, 80.0)
    jitter = Jitter(
        slot_s=0.005,
        seconds=5.0,
        fifo=True,
        ours=late,
        cyclictest=soon,
        decide=Latencies(1000, 100.0, 200.0, 600.0, 700.0),
        missed=0,
        resident_bytes=100_000_000,
        cpu_share=0.2,
    )
    assert [bar.holds for bar in bars_of(jitter)] == [False, True, False, True, False]
    normal = Jitter(**{**vars(jitter), "fifo": False})
    assert [bar.holds for bar in bars_of(normal)][:2] == [None, None]
    few = Jitter(**{**vars(jitter), "ours": Latencies(60, 1.0, 1.0, 1.0, 1.0)})
    assert [bar.holds for bar in bars_of(few)][:2] == [True, None]
    assert as_json(jitter, bars_of(jitter))["ratios"]["p50"] == 1.6
