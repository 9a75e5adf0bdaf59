"""Metrics of all daemons in the text format of Prometheus, in base units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

from macontrol import __version__
from macontrol.dashboard.daemons import Daemon
from macontrol.dashboard.run_tail import BUCKETS_S, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_MEGA = 1e6
# Name, path in a snapshot, meaning.
_GAUGES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("reward_bits_per_second_per_hertz", ("reward", "recent"), "Moving average of the reward."),
    ("fixed_reward_bits_per_second_per_hertz", ("reward", "fixed"), "Mean of a fixed antenna."),
    ("position_wavelengths", ("position",), "Position of the antenna."),
    ("target_wavelengths", ("target",), "Position of the target."),
    ("snr_decibels", ("probe", "snr_db"), "Signal-to-noise ratio of the recent reward."),
    ("level_dbfs", ("probe", "level_dbfs"), "Level of the received signal."),
    ("noise_floor", ("probe", "noise_floor"), "Noise floor, in the unit of the probe."),
    ("disk_free_bytes", ("system", "disk_free_mb"), "Free space on the disk of the run file."),
    ("temperature_celsius", ("system", "temperature_c"), "Temperature of the processor."),
    ("records_pending", ("recording", "pending"), "Records that are not in the run file yet."),
    ("control_clients", ("clients",), "Connected clients of the control socket."),
)
_COUNTERS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("slots_total", ("counts", "slots"), "Slots of the run."),
    ("missed_slots_total", ("counts", "missed"), "Slots that began while the loop was busy."),
    ("switches_total", ("counts", "switches"), "Changes of the target."),
    ("travel_wavelengths_total", ("counts", "travel"), "Distance travelled."),
    ("rewards_total", ("counts", "rewards"), "Slots with a reward."),
    ("records_lost_total", ("recording", "lost"), "Records that never reach the run file."),
)


def metrics_text(daemons: Iterable[Daemon]) -> str:
    """All metrics, as Prometheus reads them."""
    found = list(daemons)
    lines = [
        *_head("build_info", "gauge", "The version of macontrol."),
        f'macontrol_build_info{{version="{_escaped(__version__)}"}} 1',
        *_head("up", "gauge", "Whether the daemon answers."),
        *(f"macontrol_up{_labels(d)} {int(d.is_answering)}" for d in found),
    ]
    for kind, table in (("gauge", _GAUGES), ("counter", _COUNTERS)):
        for name, path, meaning in table:
            values = [(d, _value(d.snapshot, path)) for d in found if d.is_connected]
            lines += _head(name, kind, meaning)
            lines += [f"macontrol_{name}{_labels(d)} {v}" for d, v in values if v is not None]
    lines += _head("events_total", "counter", "Events of the run, by kind.")
    for daemon in found:
        counts = (daemon.snapshot or {}).get("events")
        if daemon.is_connected and isinstance(counts, dict):
            for kind, count in sorted(counts.items()):
                if _is_number(count):
                    lines.append(f"macontrol_events_total{_labels(daemon, kind=kind)} {count}")
    for name, meaning in (
        ("wakeup", "How late the loop woke up for its slots, since the dashboard sees the run."),
        ("decision", "The time to observe and to decide, since the dashboard sees the run."),
    ):
        lines += _head(f"{name}_duration_seconds", "histogram", meaning)
        for daemon in found:
            histogram = daemon.tail.wake if name == "wakeup" else daemon.tail.decide
            lines += _histogram(f"macontrol_{name}_duration_seconds", daemon, histogram)
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP macontrol_{name} {meaning}", f"# TYPE macontrol_{name} {kind}"]


def _histogram(name: str, daemon: Daemon, histogram: Histogram) -> Iterator[str]:
    total = 0
    for limit, count in zip(BUCKETS_S, histogram.counts, strict=False):
        total += count
        yield f"{name}_bucket{_labels(daemon, le=f'{limit:g}')} {total}"
    total += histogram.counts[-1]
    yield f"{name}_bucket{_labels(daemon, le='+Inf')} {total}"
    yield f"{name}_sum{_labels(daemon)} {histogram.total_s!r}"
    yield f"{name}_count{_labels(daemon)} {total}"


def _value(snapshot: object, path: tuple[str, ...]) -> float | None:
    for key in path:
        snapshot = snapshot.get(key) if isinstance(snapshot, dict) else None
    if not _is_number(snapshot):
        return None
    return snapshot * _MEGA if path[-1].endswith("_mb") else snapshot


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _labels(daemon: Daemon, **more: str) -> str:
    labels = {"daemon": daemon.name, **more}
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
