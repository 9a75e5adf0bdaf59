"""Metrics as Prometheus' own parser reads them, the file of a run, and the Grafana dashboard."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families as parse

from macontrol import __version__
from macontrol.cli import main
from macontrol.config import load_config
from macontrol.config.model.errors import ConfigError
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.runfile import read_run
from macontrol.metrics import BUCKETS_S, Histogram, metrics_text
from macontrol.metrics_file import MetricsFile, SlotDurations
from support.waiting import wait_until

GRAFANA = Path(__file__).parents[3] / "systemd" / "grafana-macontrol.json"
SNAPSHOT: dict[str, Any] = {
    "reward": {"recent": 2.5, "fixed": None},
    "position_mm": 12.5,
    "target_mm": 20,
    "probe": {"snr_db": 11.0, "noise_floor": -60.5, "level_dbfs": None},
    "system": {"disk_free_mb": 2.0, "temperature_c": 51.5},
    "recording": {"pending": 3, "lost": 0},
    "counts": {"slots": 50, "missed": 2, "switches": 4, "travel_mm": 250.0, "rewards": 48},
    "events": {"start": 1, "late-arrival": 3},
}


@dataclass
class OneDaemon:
    """What the dashboard and the file of metrics show."""

    name: str = "left"
    snapshot: dict[str, Any] | None = field(default_factory=lambda: SNAPSHOT)
    is_connected: bool = True
    is_answering: bool = True
    tail: SlotDurations = field(default_factory=SlotDurations)


def families(text: str) -> dict[str, Metric]:
    found = list(parse(text))
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


def value(text: str, name: str, **labels: str) -> float:
    """The value of one sample."""
    found = [
        sample.value
        for family in parse(text)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    assert len(found) == 1, (name, labels)
    return float(found[0])


def test_values_are_in_base_units() -> None:
    text = metrics_text([OneDaemon()])
    expected = {
        "up": 1, "position_meters": 0.0125, "target_meters": 0.02, "disk_free_bytes": 2e6,
        "reward_bits_per_second_per_hertz": 2.5, "noise_floor": -60.5, "slots_total": 50,
        "missed_slots_total": 2, "travel_meters_total": 0.25, "rewards_total": 48,
        "temperature_celsius": 51.5, "records_pending": 3, "records_lost_total": 0,
    }  # fmt: skip
    for name, number in expected.items():
        assert value(text, f"macontrol_{name}", daemon="left") == pytest.approx(number), name
    assert value(text, "macontrol_events_total", daemon="left", kind="late-arrival") == 3
    assert value(text, "macontrol_build_info", version=__version__) == 1
    assert families(text)["macontrol_level_dbfs"].samples == []  # unknown is no value


def test_every_family_has_a_type_a_meaning_and_a_name_of_the_conventions() -> None:
    found = families(metrics_text([OneDaemon(), OneDaemon("right")]))
    for name, one in found.items():
        assert one.documentation, name
        assert one.type in ("gauge", "counter", "histogram"), name
        assert re.fullmatch(r"macontrol_[a-z_]+", name)
        assert not re.search(r"_(ms|us|mm|mb|kb|km)$", name)
    assert {s.labels["daemon"] for s in found["macontrol_up"].samples} == {"left", "right"}


def test_a_histogram_counts_each_duration_once() -> None:
    daemon, durations = OneDaemon(), (5e-6, 1e-5, 3e-4, 0.2, 7.0)
    for seconds in (*durations, None, float("nan")):
        daemon.tail.wake.add(seconds)
    text, name = metrics_text([daemon]), "macontrol_wakeup_duration_seconds"
    for limit in BUCKETS_S:
        expected = sum(seconds <= limit for seconds in durations)
        assert value(text, f"{name}_bucket", daemon="left", le=f"{limit:g}") == expected
    assert value(text, f"{name}_bucket", daemon="left", le="+Inf") == 5
    assert value(text, f"{name}_count", daemon="left") == 5
    assert value(text, f"{name}_sum", daemon="left") == sum(durations)
    assert value(text, "macontrol_decision_duration_seconds_count", daemon="left") == 0


def test_a_lost_daemon_has_no_stale_values_and_a_name_is_escaped() -> None:
    odd = 'a"b\\c\nd'
    text = metrics_text([OneDaemon(odd, is_connected=False, is_answering=False)])
    assert value(text, "macontrol_up", daemon=odd) == 0
    assert families(text)["macontrol_slots"].samples == []


def test_a_run_writes_its_metrics(tmp_path: Path) -> None:
    file, run = tmp_path / "macontrol.prom", tmp_path / "run.sqlite"
    words = ["--backend", "sim", "--preset", "demo", "--slots", "40", "--name", "metrics-test"]
    seen: list[str] = []

    def watch() -> None:
        wait_until(file.exists)
        seen.append(file.read_text("utf-8"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert main([*words, "--run", str(run), "--set", f"run.metrics_file={file}"]) == 0
    watcher.join()
    assert value(seen[0], "macontrol_up", daemon="metrics-test") == 1
    end = file.read_text("utf-8")
    assert value(end, "macontrol_up", daemon="metrics-test") == 0
    slots = read_run(run).slots
    for name, column in (("wakeup", "wake_s"), ("decision", "decide_s")):
        family = f"macontrol_{name}_duration_seconds"
        assert value(end, f"{family}_count", daemon="metrics-test") == len(slots["slot"]) == 40
        total = float(slots[column].sum())
        assert value(end, f"{family}_sum", daemon="metrics-test") == pytest.approx(total)
    assert [one.name for one in tmp_path.iterdir() if "part" in one.name] == []


def test_the_file_is_renewed_and_a_failure_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, snapshot = tmp_path / "folder" / "a.prom", dict(SNAPSHOT)
    monkeypatch.setattr(
        "macontrol.metrics_file.Snapshots", lambda run: SimpleNamespace(make=lambda: dict(snapshot))
    )
    snapshot["recording"] = {"run_file": None}
    reports: list[tuple[EventKind, str]] = []
    run: Any = SimpleNamespace(options=SimpleNamespace(name="left"))
    metrics = MetricsFile(file, run, lambda *report: reports.append(report), interval_s=0.01)
    with metrics:
        wait_until(lambda: len(reports) > 0)
        file.parent.mkdir()
        wait_until(file.exists)
        snapshot["position_mm"] = 77.0
        wait_until(lambda: 'macontrol_position_meters{daemon="left"} 0.077' in file.read_text())
    assert [kind for kind, _ in reports] == [EventKind.WARNING]
    assert value(file.read_text("utf-8"), "macontrol_up", daemon="left") == 0


def test_a_name_that_node_exporter_ignores_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load_config(assignments=[f"run.metrics_file={tmp_path}/metrics.txt"])


def test_every_metric_of_the_grafana_dashboard_exists() -> None:
    text = GRAFANA.read_text("utf-8")
    board = json.loads(text)
    daemon = OneDaemon()
    daemon.tail.wake.add(1e-3)
    existing = {sample.name for one in parse(metrics_text([daemon])) for sample in one.samples} | {
        f"{one.name}{'_total' * (one.type == 'counter')}" for one in parse(metrics_text([daemon]))
    }
    expressions = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
    used = {name for one in expressions for name in re.findall(r"macontrol_\w+", one)}
    assert used <= existing
    assert len(used) > 12
    assert set(re.findall(r"macontrol_\w+", board["templating"]["list"][1]["query"])) <= existing
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == "${source}"
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_the_histogram_of_a_run_keeps_its_size() -> None:
    histogram = Histogram()
    for number in range(10_000):
        histogram.add(number * 1e-5)
    assert len(histogram.counts) == len(BUCKETS_S) + 1
    assert sum(histogram.counts) == 10_000
