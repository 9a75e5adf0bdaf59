"""Metrics of daemons in the text format of Prometheus, in base units.

The values are those of a snapshot (docs/control.md), and two histograms. The dashboard serves the
text of all daemons of a machine, and a daemon can write its own to a file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Protocol, TypeGuard

from macontrol import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 1.0)

_SCALES = {"_mb": 1e6, "_mm": 1e-3}
"""Ends of keys in a snapshot, and the unit in base units."""
# Name, path in a snapshot, meaning.
_GAUGES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("reward_bits_per_second_per_hertz", ("reward", "recent"), "Moving average of the reward."),
    ("fixed_reward_bits_per_second_per_hertz", ("reward", "fixed"), "Mean of a fixed antenna."),
    ("position_meters", ("position_mm",), "Position of the antenna."),
    ("target_meters", ("target_mm",), "Position of the target."),
    ("snr_decibels", ("probe", "snr_db"), "Signal-to-noise ratio of the recent reward."),
    ("level_dbfs", ("probe", "level_dbfs"), "Level of the received signal."),
    ("noise_floor", ("probe", "noise_floor"), "Noise floor, in the unit of the probe (dB)."),
    ("disk_free_bytes", ("system", "disk_free_mb"), "Free space on the disk of the run file."),
    ("temperature_celsius", ("system", "temperature_c"), "Temperature of the processor."),
    ("records_pending", ("recording", "pending"), "Records that are not in the run file yet."),
    ("control_clients", ("clients",), "Connected clients of the control socket."),
)
_COUNTERS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("slots_total", ("counts", "slots"), "Slots of the run."),
    ("missed_slots_total", ("counts", "missed"), "Slots that began while the loop was busy."),
    ("switches_total", ("counts", "switches"), "Changes of the target."),
    ("travel_meters_total", ("counts", "travel_mm"), "Distance travelled."),
    ("rewards_total", ("counts", "rewards"), "Slots with a reward."),
    ("records_lost_total", ("recording", "lost"), "Records that never reach the run file."),
)
_HISTOGRAMS = (
    ("wakeup_duration_seconds", "wake", "How late the loop woke up for its slots."),
    ("decision_duration_seconds", "decide", "The time to observe and to decide."),
)


@dataclass
class Histogram:
    """Counts of durations up to each limit of BUCKETS_S, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: object) -> None:
        if isinstance(seconds, float) and isfinite(seconds):
            self.counts[bisect_left(BUCKETS_S, seconds)] += 1
            self.total_s += seconds


class Durations(Protocol):
    """The histograms of a daemon, since its source sees it."""

    wake: Histogram
    decide: Histogram


class Source(Protocol):
    """A daemon whose metrics are shown."""

    name: str
    snapshot: dict[str, Any] | None

    @property
    def is_connected(self) -> bool:
        """Whether the snapshot is the daemon's present state."""
        ...

    @property
    def is_answering(self) -> bool: ...
    @property
    def tail(self) -> Durations: ...


def metrics_text(sources: Iterable[Source]) -> str:
    """All metrics, as Prometheus reads them."""
    found = list(sources)
    lines = [
        *_head("build_info", "gauge", "The version of macontrol."),
        f'macontrol_build_info{{version="{_escaped(__version__)}"}} 1',
        *_head("up", "gauge", "Whether the daemon runs and answers."),
        *(f"macontrol_up{_labels(one)} {int(one.is_answering)}" for one in found),
    ]
    for kind, table in (("gauge", _GAUGES), ("counter", _COUNTERS)):
        for name, path, meaning in table:
            values = [(one, _value(one.snapshot, path)) for one in found if one.is_connected]
            lines += _head(name, kind, meaning)
            lines += [f"macontrol_{name}{_labels(one)} {v!r}" for one, v in values if v is not None]
    lines += _head("events_total", "counter", "Events of the run, by kind.")
    for one in found:
        counts = (one.snapshot or {}).get("events")
        if one.is_connected and isinstance(counts, dict):
            for kind, count in sorted(counts.items()):
                if _is_number(count):
                    lines.append(f"macontrol_events_total{_labels(one, kind=kind)} {count}")
    for name, which, meaning in _HISTOGRAMS:
        lines += _head(name, "histogram", meaning)
        for one in found:
            lines += _histogram(f"macontrol_{name}", one, getattr(one.tail, which))
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP macontrol_{name} {meaning}", f"# TYPE macontrol_{name} {kind}"]


def _histogram(name: str, source: Source, histogram: Histogram) -> Iterator[str]:
    total, counts = 0, list(histogram.counts)
    for limit, count in zip(BUCKETS_S, counts, strict=False):
        total += count
        yield f"{name}_bucket{_labels(source, le=f'{limit:g}')} {total}"
    total += counts[-1]
    yield f"{name}_bucket{_labels(source, le='+Inf')} {total}"
    yield f"{name}_sum{_labels(source)} {histogram.total_s!r}"
    yield f"{name}_count{_labels(source)} {total}"


def _value(snapshot: object, path: tuple[str, ...]) -> float | None:
    for key in path:
        snapshot = snapshot.get(key) if isinstance(snapshot, dict) else None
    if not _is_number(snapshot):
        return None
    scale = _SCALES.get(path[-1][-3:])
    return snapshot if scale is None else snapshot * scale


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _labels(source: Source, **more: str) -> str:
    labels = {"daemon": source.name, **more}
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
