"""The text for Prometheus."""

from __future__ import annotations

import re
from pathlib import Path

from macontrol.dashboard.daemons import Daemon
from macontrol.dashboard.metrics import metrics_text
from macontrol.dashboard.run_tail import BUCKETS_S
from support.scripted_daemon import SNAPSHOT

LINE = re.compile(r'([a-z_]+)(\{[a-z]+="(?:[^"\\]|\\.)*"(?:,[a-z]+="[^"]*")*\})? (\S+)')


def a_daemon(name: str = "left") -> Daemon:
    daemon = Daemon(Path(f"/nowhere/{name}.sock"))
    daemon.snapshot = SNAPSHOT
    daemon.is_connected = True
    return daemon


def values(text: str) -> dict[str, float]:
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            parts = LINE.fullmatch(line)
            assert parts, line
            found[parts[1] + (parts[2] or "")] = float(parts[3])
    return found


def test_every_line_is_a_sample_of_a_described_metric() -> None:
    text = metrics_text([a_daemon(), a_daemon("right")])
    described = dict(re.findall(r"# TYPE (\S+) (\S+)", text))
    assert set(re.findall(r"# HELP (\S+) .+", text)) == set(described)
    for sample in values(text):
        name = sample.partition("{")[0]
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        assert name in described or described.get(base) == "histogram", sample
    for name, kind in described.items():
        assert (kind == "counter") == name.endswith("_total"), name


def test_values_are_in_base_units() -> None:
    found = values(metrics_text([a_daemon()]))
    assert found['macontrol_disk_free_bytes{daemon="left"}'] == 2e6
    assert found['macontrol_slots_total{daemon="left"}'] == 5
    assert found['macontrol_events_total{daemon="left",kind="late-arrival"}'] == 3
    assert found['macontrol_reward_bits_per_second_per_hertz{daemon="left"}'] == 2.5
    assert 'macontrol_fixed_reward_bits_per_second_per_hertz{daemon="left"}' not in found


def test_histograms_are_cumulative() -> None:
    daemon = a_daemon()
    for seconds in (5e-6, 1e-5, 3e-4, 0.2, 7.0):
        daemon.tail.wake.add(seconds)
    daemon.tail.wake.add(None)
    daemon.tail.wake.add(float("nan"))
    found = values(metrics_text([daemon]))
    name = "macontrol_wakeup_duration_seconds"
    counts = [found[f'{name}_bucket{{daemon="left",le="{limit:g}"}}'] for limit in BUCKETS_S]
    assert counts == sorted(counts)
    assert counts[0] == 2
    assert counts[BUCKETS_S.index(5e-4)] == 3
    assert counts[-1] == 4
    assert found[f'{name}_bucket{{daemon="left",le="+Inf"}}'] == 5
    assert found[f'{name}_count{{daemon="left"}}'] == 5
    assert found[f'{name}_sum{{daemon="left"}}'] == 5e-6 + 1e-5 + 3e-4 + 0.2 + 7.0


def test_a_lost_daemon_has_no_stale_values() -> None:
    daemon = a_daemon()
    daemon.is_connected = False
    found = values(metrics_text([daemon]))
    assert found['macontrol_up{daemon="left"}'] == 0
    assert not [name for name in found if name.startswith("macontrol_slots_total")]


def test_a_name_is_escaped() -> None:
    text = metrics_text([a_daemon('a"b')])
    assert 'daemon="a\\"b"' in text
    values(text)
