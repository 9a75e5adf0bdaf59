"""Compare the daemon's wake-ups with those of a cyclictest that runs at the same time.

The daemon runs on the simulated bench in slots of 5 ms; cyclictest (Debian: rt-tests) has the same
period, scheduling class and priority. The bars are for ratios, because absolute latencies mean
little on a shared machine. Run it as root, or with a real-time priority limit (ulimit -r).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from macontrol.commands.bench.bars import (
    Bar,
    add_output_arguments,
    finish,
    show_bars,
)
from macontrol.commands.bench.children import Children, failed
from macontrol.commands.shared_arguments import positive_number
from macontrol.config.model.errors import HardwareError, MacontrolError
from macontrol.controller.host.realtime import PRIORITY
from macontrol.controller.recording.records import EventKind
from macontrol.controller.recording.runfile import Run, read_run
from macontrol.controller.runtime.loop import STALL
from macontrol.helper_process import python_module

SUMMARY = "how late the daemon wakes up, compared with cyclictest"

LATENCY_RATIO = 1.5
FEWEST_WAKE_UPS = 500
"""A p99 of fewer wake-ups could be a single one."""
DECIDE_SHARE = 0.10
RESIDENT_BYTES = 120e6
CPU_SHARE = 0.15
QUANTILES = (50.0, 99.0, 99.9)

_LONGEST_US = 100_000
_READY_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0
_POLL_INTERVAL_S = 0.2
_PAPER_SLOT_S = 0.005


@dataclass(frozen=True)
class Latencies:
    """Percentiles of latencies in microseconds."""

    count: int
    p50: float
    p99: float
    p99_9: float
    largest: float


@dataclass(frozen=True)
class Jitter:
    """The result of a run of both."""

    slot_s: float
    seconds: float
    fifo: bool
    """Whether both had SCHED_FIFO; else both had normal scheduling."""
    ours: Latencies
    cyclictest: Latencies
    decide: Latencies
    missed: int
    """Slots that the daemon did not run."""
    resident_bytes: int
    """The largest resident set."""
    cpu_share: float
    """The share of one core, all threads, while slots were run."""

    def ratios(self) -> tuple[float, float, float]:
        """Our p50, p99 and p99.9 divided by those of cyclictest."""
        ours, peer = self.ours, self.cyclictest
        return ours.p50 / peer.p50, ours.p99 / peer.p99, ours.p99_9 / peer.p99_9

    @property
    def decide_share(self) -> float:
        """The p99.9 of the decide phase as a share of the slot."""
        return self.decide.p99_9 * 1e-6 / self.slot_s


def find_cyclictest() -> str:
    """The path of cyclictest."""
    found = shutil.which("cyclictest") or shutil.which("cyclictest", path="/usr/sbin:/usr/bin")
    if found is None:
        raise HardwareError("cyclictest is not installed", "Debian: apt install rt-tests")
    return found


def fifo_is_permitted(priority: int = PRIORITY) -> bool:
    """Whether a process started from here may have SCHED_FIFO."""
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def measure_jitter(seconds: float, slot_s: float) -> Jitter:
    """Run the daemon and cyclictest at the same time."""
    cyclictest = find_cyclictest()
    fifo = fifo_is_permitted()
    with tempfile.TemporaryDirectory(prefix="macontrol-jitter-") as name:
        folder = Path(name)
        with running_daemon(folder, seconds, slot_s) as daemon:
            begin = time.monotonic()
            usage = _run_cyclictest(
                cyclictest, folder / "cyclictest.json", seconds, slot_s, fifo, daemon.pid
            )
            end = time.monotonic()
            daemon.send_signal(signal.SIGTERM)
            output, _ = daemon.communicate(timeout=_END_TIMEOUT_S)
        if daemon.returncode != 0:
            raise failed(f"the daemon (exit code {daemon.returncode})", output)
        run = read_run(folder / "run")
        peer = json.loads((folder / "cyclictest.json").read_text(encoding="utf-8"))
    return _evaluate(run, peer, usage, begin, end, fifo)


@contextmanager
def running_daemon(folder: Path, seconds: float, slot_s: float) -> Iterator[subprocess.Popen[str]]:
    """The daemon, after it has reported READY."""
    command = [*python_module("macontrol"), "--backend", "sim", "--cold", "--log", "text"]
    command += ["--name", f"jitter-{os.getpid()}", "--run", str(folder / "run")]
    command += ["--duration", f"{seconds + _READY_TIMEOUT_S:.0f}"]
    if abs(slot_s - _PAPER_SLOT_S) > 1e-9:
        # A longer slot than the paper's, with the same share of it for the actuation.
        command += ["--set", f"physical.slot_duration_s={slot_s!r}"]
        command += ["--set", f"physical.actuation_time_s={slot_s / 5!r}"]
        command += ["--set", "physical.stroke=auto"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(_POLL_INTERVAL_S)
        with Children().start(command, NOTIFY_SOCKET=str(folder / "notify")) as daemon:
            _await_ready(manager, daemon)
            yield daemon


def _await_ready(manager: socket.socket, daemon: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while daemon.poll() is None and time.monotonic() < deadline:
        try:
            if b"READY=1" in manager.recv(4096):
                return
        except TimeoutError:
            continue
    daemon.kill()
    output, _ = daemon.communicate()
    raise failed(f"the daemon (exit code {daemon.returncode})", output)


def _run_cyclictest(
    program: str, report: Path, seconds: float, slot_s: float, fifo: bool, daemon: int
) -> tuple[int, float]:
    """Run cyclictest to its end; return the resident set and the CPU share of the daemon."""
    command = [program, "--quiet", "--mlockall", "--threads=1", f"--json={report}"]
    command += [f"--interval={slot_s * 1e6:.0f}", f"--duration={max(round(seconds), 1)}"]
    command += [f"--histogram={_LONGEST_US}"]
    command += [f"--priority={PRIORITY}", "--policy=fifo"] if fifo else ["--policy=other"]
    begin, cpu_begin = time.monotonic(), _cpu_seconds(daemon)
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        resident = 0
        while process.poll() is None:
            resident = max(resident, resident_bytes_of(daemon))
            time.sleep(_POLL_INTERVAL_S)
        assert process.stderr is not None
        output = process.stderr.read()
    if process.returncode != 0 or not report.exists():
        raise HardwareError(f"cyclictest failed: {output.strip() or process.returncode}")
    share = (_cpu_seconds(daemon) - cpu_begin) / (time.monotonic() - begin)
    return max(resident, resident_bytes_of(daemon)), share


def _cpu_seconds(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes_of(pid: int) -> int:
    # Not rusage: its maximum includes the memory of the parent before the exec.
    try:
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _evaluate(
    run: Run,
    peer: Mapping[str, Any],
    usage: tuple[int, float],
    begin: float,
    end: float,
    fifo: bool,
) -> Jitter:
    slot_s = run.header.config.physical.slot_duration_s
    start = run.slots["start_s"]
    inside = (start >= begin) & (start < end)
    if not inside.any():
        raise MacontrolError("the daemon ran no slot while cyclictest ran")
    # A wake-up too late for its slot has no record of a slot: count it with its upper bound.
    stalls = [
        (event.value or 1.0) * slot_s
        for event in run.events
        if event.kind is EventKind.MISSED and event.detail == STALL
        if begin <= event.time_s < end
    ]
    slots = run.slots["slot"][inside]
    thread = peer["thread"]["0"]
    histogram = {int(k): int(v) for k, v in thread["histogram"].items()}
    return Jitter(
        slot_s=slot_s,
        seconds=end - begin,
        fifo=fifo,
        ours=latencies_of(np.concatenate([run.slots["wake_s"][inside], stalls]) * 1e6),
        cyclictest=_of_histogram(histogram, float(thread["max"]), int(thread["cycles"])),
        decide=latencies_of(run.slots["decide_s"][inside] * 1e6),
        missed=int(slots[-1] - slots[0] + 1 - len(slots)),
        resident_bytes=usage[0],
        cpu_share=usage[1],
    )


def latencies_of(times_us: NDArray[np.float64]) -> Latencies:
    p50, p99, p99_9 = np.percentile(times_us, QUANTILES, method="higher").tolist()
    return Latencies(len(times_us), p50, p99, p99_9, float(times_us.max()))


def _of_histogram(histogram: Mapping[int, int], largest: float, cycles: int) -> Latencies:
    """Percentiles of cyclictest's histogram; values beyond its scale count as the largest."""
    levels = sorted(histogram)
    counted = np.cumsum([histogram[level] for level in levels])
    count = max(cycles, int(counted[-1]) if len(counted) else 0)

    def at(quantile: float) -> float:
        index = int(np.searchsorted(counted, np.ceil(count * quantile / 100)))
        # The histogram rounds down to microseconds: take the middle of the step, never 0.
        return levels[index] + 0.5 if index < len(levels) else largest

    values: Sequence[float] = [at(quantile) for quantile in QUANTILES]
    return Latencies(count, values[0], values[1], values[2], largest)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=positive_number, default=20.0, metavar="S", help="duration (default: 20)"
    )
    parser.add_argument(
        "--slot-ms", type=positive_number, default=5.0, metavar="T", help="T_s (default: 5)"
    )
    add_output_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    jitter = measure_jitter(arguments.seconds, arguments.slot_ms * 1e-3)
    bars = bars_of(jitter)
    return finish(arguments, as_json(jitter, bars), bars, lambda at: _show(at, jitter, bars))


def bars_of(jitter: Jitter) -> list[Bar]:
    """The bars, and whether they hold."""
    p50, p99, _ = jitter.ratios()
    enough = min(jitter.ours.count, jitter.cyclictest.count) >= FEWEST_WAKE_UPS
    bars = [
        Bar(
            f"wake-up {name} at most {LATENCY_RATIO:g} times cyclictest's",
            f"{ratio:.2f}",
            ratio <= LATENCY_RATIO if meant else None,
        )
        for name, ratio, meant in (
            ("p50", p50, jitter.fifo),
            ("p99", p99, jitter.fifo and enough),
        )
    ]
    return [
        *bars,
        Bar(
            f"decide phase p99.9 below {DECIDE_SHARE:.0%} of the slot",
            f"{jitter.decide_share:.1%}",
            jitter.decide_share < DECIDE_SHARE,
        ),
        Bar(
            f"resident memory below {RESIDENT_BYTES / 1e6:.0f} MB",
            f"{jitter.resident_bytes / 1e6:.1f} MB",
            jitter.resident_bytes < RESIDENT_BYTES,
        ),
        Bar(
            f"CPU below {CPU_SHARE:.0%} of one core",
            f"{jitter.cpu_share:.1%}",
            jitter.cpu_share < CPU_SHARE,
        ),
    ]


def as_json(jitter: Jitter, bars: list[Bar]) -> dict[str, Any]:
    return {
        "unit": "microseconds",
        **asdict(jitter),
        "ratios": dict(zip(("p50", "p99", "p99_9"), jitter.ratios(), strict=True)),
        "decide_share": jitter.decide_share,
        "bars": [asdict(bar) for bar in bars],
    }


def _show(console: Console, jitter: Jitter, bars: list[Bar]) -> None:
    scheduling = "SCHED_FIFO" if jitter.fifo else "normal scheduling"
    table = Table(
        title=f"{jitter.seconds:.0f} s of {jitter.slot_s * 1e3:g} ms slots, {scheduling} (µs)",
        title_justify="left",
    )
    table.add_column("")
    for name in ("wake-ups", "p50", "p99", "p99.9", "largest"):
        table.add_column(name, justify="right")
    table.add_row("macontrol", *cells_of(jitter.ours))
    table.add_row("cyclictest", *cells_of(jitter.cyclictest))
    table.add_row("ratio", "", *(f"{ratio:.2f}" for ratio in jitter.ratios()), "")
    table.add_row("decide phase", *cells_of(jitter.decide))
    console.print(table)
    console.print(f"{jitter.missed} slots missed.", highlight=False)
    if not jitter.fifo:
        console.print("SCHED_FIFO is not permitted: the ratios are not judged. Run as root.")
    show_bars(console, bars)


def cells_of(times: Latencies) -> list[str]:
    values = (times.p50, times.p99, times.p99_9, times.largest)
    return [str(times.count), *(f"{value:,.1f}" for value in values)]
