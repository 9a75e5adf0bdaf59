"""What the page shows of a run file, computed in a process of its own that then ends.

`python -m macontrol.dashboard.digest FILE [SECONDS]` prints one JSON object: thinned series of the
whole run, or of its last seconds; the posterior at some slots; in a simulated run the true map,
the fixed antenna and the oracle. The cost does not grow with the length of the run.
"""

from __future__ import annotations

import json
import os
import sys
from base64 import b64encode
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macontrol import __version__
from macontrol.config import Config
from macontrol.config.model.errors import MacontrolError
from macontrol.controller.recording.records import Event
from macontrol.controller.recording.runfile.header import RunHeader
from macontrol.controller.recording.runfile.schema import learned_reward
from macontrol.dashboard.run_reader import RunReader
from macontrol.display.event_text import event_text

FRAMES = 240
"""Slots at which the posterior is computed."""
_POINTS = 160
_BUCKETS = 1200
_LONGEST_COMPLETE = 120_000
_ROWS_PER_BLOCK = 64
_EVENTS = 300
# The true map of this many slots takes a second and 150 MB.
_LONGEST_SIMULATED = 30_000
_UNKNOWN = -32768
_COLUMNS = (
    "slot, start_s, position, target, reward, switched, transit, wake_s, actuate_s, measure_s, "
    "decide_s, on_time, invalid"
)
_SHARE = "transmission_share"
"""Another column, which files of before do not have."""

Floats = NDArray[np.float64]
Table = dict[str, Floats]


def digest(path: Path, last_s: float | None = None) -> dict[str, Any]:
    """A run, or its last seconds, as plain data."""
    reader = RunReader(path)
    header = RunHeader.from_rows(reader.header())
    config = header.config
    found: dict[str, Any] = {
        "facts": {"run": path.stem, **_facts(header, config, is_open=reader.is_being_written)},
        "settings": json.loads(header.config_json),
        "events": [
            _event(header, Event(*row))
            for _, *row in reader.events(_EVENTS)
            if isinstance(row[1], int | float)
        ],
    }
    bounds = reader.bounds()
    if bounds is None:
        return found
    first, last = bounds
    if last_s is not None:
        first = max(first, last - int(last_s / config.physical.slot_duration_s))
    columns = _COLUMNS
    if config.physical.actuation == "as-needed":
        columns = columns.replace("start_s", f"start_s, {_SHARE}")
    table, is_complete = _table(reader, first, last, columns)
    if _SHARE in table and np.isfinite(table[_SHARE]).any():
        mean_s = config.physical.slot_duration_s * (1.0 - float(np.nanmean(table[_SHARE])))
        found["facts"]["actuation_s"] = mean_s
    frame_slots = _frame_slots(table)
    found["series"] = _series(table, header)
    found["rows"] = {
        "slot": table["slot"][frame_slots].astype(int).tolist(),
        "time_s": [round(header.wall_s(float(t)), 4) for t in table["start_s"][frame_slots]],
        "position": _rounded(table["position"][frame_slots]),
        "target": _rounded(table["target"][frame_slots]),
    }
    if is_complete:
        found["summary"] = _summary(table)
    found["frames"] = _frames(reader, header, config, table, frame_slots)
    if why_no_world(header) is None and first <= last <= _LONGEST_SIMULATED:
        with suppress(MacontrolError):
            found |= _world(config, header.seed, table, frame_slots, whole=last_s is None)
    return found


def why_no_world(header: RunHeader) -> str | None:
    """Why the world of a run cannot be computed again; None if it can."""
    if header.backend != "sim":
        return "on hardware, the reward is known only where the antenna was"
    if header.version != __version__:
        return f"the run is of version {header.version}, which may simulate another world"
    if header.resumed_from is not None:
        return "the run continues an earlier one"
    return None


def _event(header: RunHeader, event: Event) -> dict[str, Any]:
    """An event of the file as the control socket has it; a damaged value is left out."""
    if not isinstance(event.value, int | float) or not isfinite(event.value):
        event = event._replace(value=None)
    found = {**event._asdict(), "time_s": header.wall_s(event.time_s)}
    return {**found, "text": event_text(event)}


def _facts(header: RunHeader, config: Config, *, is_open: bool) -> dict[str, Any]:
    physical = config.physical
    return {
        "policy": header.policy,
        "backend": header.backend,
        "name": header.stage,
        "version": header.version,
        "host": header.host,
        "pid": header.pid,
        "seed": header.seed,
        "started_s": header.started_wall_s,
        "is_open": is_open,
        "length": physical.region_length,
        "length_mm": physical.to_mm(physical.region_length),
        "wavelength_mm": physical.wavelength_mm,
        "slot_s": physical.slot_duration_s,
        "actuation_s": physical.actuation_time_s,
        "stroke": physical.rho_max,
        "x_0": physical.x_0,
        "largest": config.g_max,
        "sigma_f": None if header.sigma_f2 is None else header.sigma_f2**0.5,
        "window": config.algorithm.window,
    }


def _table(reader: RunReader, first: int, last: int, wanted: str) -> tuple[Table, bool]:
    """The slots as arrays, and whether they are all there; of a long run evenly spaced blocks."""
    is_complete = last - first < _LONGEST_COMPLETE
    if is_complete:
        rows = list(reader.all_slots(wanted, first, last))
    else:
        step = (last - first + 1) / _BUCKETS
        rows = []
        for number in range(_BUCKETS):
            begin, end = first + int(number * step), first + int((number + 1) * step) - 1
            rows += reader.slots(wanted, begin, end, rows=_ROWS_PER_BLOCK)
    names = [name.strip() for name in wanted.split(",")]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    table = {
        name: np.array([_number(value) for value in values], float)
        for name, values in zip(names, columns, strict=True)
        if name != "invalid"
    }
    table["invalid"] = np.array([value is not None for value in columns[-1]], float)
    return table, is_complete


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else np.nan


def _frame_slots(table: Table) -> NDArray[np.intp]:
    """The rows at which the posterior is computed."""
    return np.unique(np.linspace(0, len(table["slot"]) - 1, FRAMES).astype(np.intp))


def _series(table: Table, header: RunHeader) -> dict[str, Any]:
    """Each column, thinned; of the reward also the range within each interval."""
    count = len(table["slot"])
    edges = np.unique(np.linspace(0, count, min(_BUCKETS, count) + 1).astype(np.intp))
    starts, ends = edges[:-1], edges[1:] - 1
    reward = table["reward"]
    valid = np.isfinite(reward)
    total = np.add.reduceat(np.where(valid, reward, 0.0), starts)
    number = np.add.reduceat(valid.astype(float), starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / number
    low = np.minimum.reduceat(np.where(valid, reward, np.inf), starts)
    high = np.maximum.reduceat(np.where(valid, reward, -np.inf), starts)
    late_s = np.maximum.reduceat(np.nan_to_num(table["wake_s"]), starts)
    decide_s = np.maximum.reduceat(np.nan_to_num(table["decide_s"]), starts)
    return {
        "slot": table["slot"][ends].astype(int).tolist(),
        "time_s": [round(header.wall_s(float(t)), 4) for t in table["start_s"][ends]],
        "position": _rounded(table["position"][ends]),
        "target": _rounded(table["target"][ends]),
        "reward": _rounded(mean),
        "low": _rounded(low),
        "high": _rounded(high),
        "wake_s": _rounded(late_s, 7),
        "decide_s": _rounded(decide_s, 7),
    }


def _rounded(values: Floats, digits: int = 4) -> list[float | None]:
    return [round(float(v), digits) if isfinite(v) else None for v in values]


def _summary(table: Table) -> dict[str, Any]:
    """Counts and sums over all slots that were read."""
    reward, count = table["reward"], len(table["slot"])
    position = table["position"][np.isfinite(table["position"])]
    phases = {}
    for name in ("wake", "actuate", "measure", "decide"):
        values = table[f"{name}_s"][np.isfinite(table[f"{name}_s"])]
        if len(values):
            p50, p99 = np.percentile(values, [50, 99])
            phases[name] = {"p50_s": p50, "p99_s": p99, "largest_s": float(values.max())}
    is_valid = np.isfinite(reward)
    return {
        "slots": count,
        "missed": int(table["slot"][-1] - table["slot"][0] + 1 - count) if count else 0,
        "reward": float(reward[is_valid].mean()) if is_valid.any() else None,
        "travel": float(np.abs(np.diff(position)).sum()),
        "switches": int(np.nansum(table["switched"])),
        "transit": int(np.nansum(table["transit"])),
        "late_arrivals": int((table["on_time"] == 0).sum()),
        "invalid": int(table["invalid"].sum()),
        "phases": phases,
    }


def _frames(
    reader: RunReader, header: RunHeader, config: Config, table: Table, rows: NDArray[np.intp]
) -> dict[str, Any] | None:
    """The posterior and the surface at some slots; None for a policy without a posterior.

    The policy observes the samples of its window again. It decides at these slots only, which gives
    the surface.
    """
    from macontrol.controller.policies.policy import HasPosterior, HasSurface
    from macontrol.controller.policies.registry import make_policy

    if header.survey is None or len(rows) == 0:
        return None
    has_samples = header.survey.is_in_window(config, header.started_wall_s)
    try:
        policy = make_policy(config, header.survey, with_samples=has_samples)
    except MacontrolError:  # such as a policy of a plug-in that is not installed here
        return None
    if not isinstance(policy, HasPosterior):
        return None
    has_surface = isinstance(policy, HasSurface)
    for sample in header.window:
        policy.observe(*sample)
    posterior = policy.posterior
    shown = np.linspace(0, posterior.grid.size - 1, min(_POINTS, posterior.grid.size))
    points = shown.round().astype(np.intp)
    mean, deviation, surface = (np.full((len(rows), len(points)), np.nan) for _ in range(3))
    fed, reward = -1, learned_reward(config.physical.actuation)
    slots, positions = table["slot"][rows].astype(int).tolist(), table["position"][rows]
    for number, (slot, position) in enumerate(zip(slots, positions, strict=True)):
        samples = reader.query(
            f"SELECT slot, position, {reward} FROM slots WHERE slot > ? AND slot <= ? "
            "AND reward IS NOT NULL AND position IS NOT NULL ORDER BY slot DESC LIMIT ?",
            (fed, slot, config.algorithm.window),
        )
        for sample in reversed(samples):
            policy.observe(*sample)
        fed = slot
        if isfinite(position):
            policy.decide(slot, float(position))
            if isinstance(policy, HasSurface):
                surface[number] = policy.surface[points]
        mean[number] = posterior.mean[points]
        deviation[number] = np.sqrt(np.maximum(posterior.variance[points], 0.0))
    return {
        "points": _rounded(posterior.grid.points[points]),
        "mean": _packed(mean),
        "deviation": _packed(deviation),
        "acquisition": _packed(surface) if has_surface else None,
    }


def _packed(values: Floats) -> str:
    """Numbers in thousandths, as little-endian 16-bit integers in base64."""
    scaled = np.where(np.isfinite(values), np.clip(values * 1000.0, -32767, 32767), _UNKNOWN)
    return b64encode(scaled.round().astype("<i2").tobytes()).decode("ascii")


def _world(
    config: Config, seed: int, table: Table, rows: NDArray[np.intp], *, whole: bool
) -> dict[str, Any]:
    """What only a simulation knows: the true map, the fixed antenna's reward, the oracle's."""
    from macontrol.sim.research.oracle import oracle_path
    from macontrol.sim.world.channel import reward_rows

    slots = table["slot"].astype(np.intp)
    reward = reward_rows(config, seed, int(slots[-1]))
    grid = config.grid
    shown = np.linspace(0, grid.size - 1, min(_POINTS, grid.size)).round().astype(np.intp)
    edges = np.unique(np.linspace(0, len(slots), min(_BUCKETS, len(slots)) + 1).astype(np.intp))
    starts = edges[:-1]
    number = np.diff(edges)
    fixed = reward[slots - 1, grid.nearest(config.physical.x_0)]
    found: dict[str, Any] = {
        "truth": _packed(reward[slots[rows] - 1][:, shown]),
        "truth_points": _rounded(grid.points[shown]),
        "fixed": _rounded(np.add.reduceat(fixed, starts) / number),
        "fixed_mean": float(fixed.mean()),
    }
    if whole:
        path = oracle_path(reward, config)
        best = path.reward[slots - 1]
        found |= {
            "oracle": _rounded(np.add.reduceat(best, starts) / number),
            "oracle_mean": float(best.mean()),
            "oracle_position": _rounded(path.position[slots[edges[1:] - 1] - 1]),
        }
    return found


def main(words: list[str]) -> int:
    """Print the digest of a run file, or a problem; run below everything else of this machine."""
    with suppress(OSError):
        os.nice(5)
    try:
        found = digest(Path(words[0]), float(words[1]) if len(words) > 1 else None)
    except MacontrolError as error:
        found = {"problem": error.detail, "fix": error.fix}
    json.dump(found, sys.stdout, separators=(",", ":"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
