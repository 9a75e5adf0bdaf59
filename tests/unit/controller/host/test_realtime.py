"""The real-time setup: applied as far as the kernel permits; refusals are reported with a fix.

Each case runs in a separate process, because the steps change the whole process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from macontrol.controller.host.realtime import GRANT, RealtimeReport, Refusal
from macontrol.controller.runtime.clock import SPIN_S, WallClock

PRELUDE = """
import ctypes, gc, json, os, resource, sys, threading
import macontrol.controller.host.realtime as realtime
from macontrol.controller.host.realtime import *
"""

# Give up the permissions of root, and set limits that differ between machines.
UNPRIVILEGED = """
libc = ctypes.CDLL(None)
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
"""


def run_in_process(code: str) -> Any:
    """Run code that prints JSON; return the parsed output."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def has_fifo() -> bool:
    return subprocess.run(["chrt", "-f", "1", "true"], capture_output=True).returncode == 0


def test_the_collector_is_frozen_and_threads_switch_fast() -> None:
    frozen, enabled, interval = run_in_process("""
        enter_realtime()
        print(json.dumps([gc.get_freeze_count(), gc.isenabled(), sys.getswitchinterval()]))
    """)
    assert frozen > 1000
    assert not enabled
    assert interval <= 1e-3


def test_garbage_is_collected_only_where_python_does_not_collect_it_by_itself() -> None:
    before, after = run_in_process("""
        collected = []
        gc.callbacks.append(lambda phase, info: collected.append(info["generation"]))
        collect_garbage()
        before = len(collected)
        enter_realtime()
        collected.clear()
        collect_garbage()
        print(json.dumps([before, collected]))
    """)
    assert before == 0
    assert after == [2, 2]  # the start and the end of one full collection


def test_all_refusals_are_in_one_warning_with_reasons_and_fixes() -> None:
    priority, refused, warning = run_in_process(
        UNPRIVILEGED
        + """
report = enter_realtime()
print(json.dumps([report.priority, [each.what for each in report.refused], report.warning]))
"""
    )
    assert priority == 0
    assert refused[:2] == ["SCHED_FIFO", "locked memory"]
    assert warning.count("\n") == 0
    for part in (
        "ordinary scheduling",
        GRANT,
        "the limit of real-time priorities is 0",
        "LimitRTPRIO=50",
        "the limit of locked memory is 64 KiB",
        "LimitMEMLOCK=infinity",
    ):
        assert part in warning


def test_without_a_refusal_there_is_no_warning() -> None:
    report = RealtimeReport((), priority=50)
    assert report.fifo
    assert report.warning is None
    assert report.notice == ()


def test_a_refusal_with_fifo_does_not_claim_ordinary_scheduling() -> None:
    refusal = Refusal("locked memory", "no", "ask")
    report = RealtimeReport((refusal,), priority=50)
    assert report.warning == "incomplete real-time setup. locked memory refused (no): ask"


def test_only_a_limit_has_a_command_as_its_fix() -> None:
    limit = Refusal("SCHED_FIFO", "the limit is 0", "ask", by_limit=True)
    report = RealtimeReport((limit,), priority=0)
    assert report.command == GRANT
    assert report.notice[0] == "refused: SCHED_FIFO: slots may be missed"
    assert report.notice[-1].strip() == GRANT
    group = Refusal("SCHED_FIFO", "the control group has no budget", "ask")
    report = RealtimeReport((group,), priority=0)
    assert report.command is None
    assert len(report.notice) == 1


@pytest.mark.skipif(not has_fifo(), reason="SCHED_FIFO is not permitted here")
def test_only_the_slot_thread_has_fifo_and_leaving_ends_it() -> None:
    during, helper, after, collecting = run_in_process("""
        helper = []
        priority = enter_realtime(7).priority
        thread = threading.Thread(target=lambda: helper.append(realtime_priority()))
        thread.start()
        thread.join()
        leave_realtime()
        print(json.dumps([priority, helper[0], realtime_priority(), gc.isenabled()]))
    """)
    assert (during, helper, after, collecting) == (7, 0, 0, True)


@pytest.mark.skipif(not has_fifo(), reason="SCHED_FIFO is not permitted here")
def test_a_kernel_that_refuses_fifo_to_root_is_explained() -> None:
    warning = run_in_process("""
        def refuse(*arguments):
            raise PermissionError(1, "Operation not permitted")
        os.sched_setscheduler = refuse
        print(json.dumps(enter_realtime().warning))
    """)
    assert "CONFIG_RT_GROUP_SCHED" in warning


def test_unsupported_steps_are_refusals() -> None:
    warning = run_in_process("""
        del os.sched_setscheduler
        realtime._system_call = lambda *words: (_ for _ in ()).throw(OSError(38, "not there"))
        report = enter_realtime()
        leave_realtime()
        print(json.dumps(report.warning))
    """)
    assert warning.count("this system does not support it") == 3


@pytest.mark.skipif(
    os.geteuid() != 0 and resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] >= 0,
    reason="locking all memory is not permitted here",
)
def test_locking_memory_does_not_load_unused_pages() -> None:
    locked, before, after = run_in_process("""
        import numpy, scipy.linalg, pydantic
        def resident_mb():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize() / 1e6
        before = resident_mb()
        locked = "locked memory" not in [each.what for each in enter_realtime().refused]
        threads = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        print(json.dumps([locked, before, resident_mb()]), flush=True)
        os._exit(0)
    """)
    assert locked
    assert after < before + 10
    assert after < 120


@pytest.mark.parametrize("threads", [1, 2])
def test_the_thread_count_of_blas_is_read_from_the_library(threads: int) -> None:
    counted, warning = run_in_process(f"""
        os.environ["OPENBLAS_NUM_THREADS"] = "{threads}"
        import numpy
        report = enter_realtime()
        print(json.dumps([blas_threads(), report.warning or ""]))
    """)
    assert counted in (None, min(threads, os.cpu_count() or 1))
    assert ("one BLAS thread refused" in warning) == (counted is not None and counted > 1)


@pytest.mark.parametrize("spin_s", [0.0, 1e-4])
def test_the_wall_clock_never_wakes_early_and_does_not_wait_for_the_past(spin_s: float) -> None:
    clock = WallClock(spin_s)
    for wait in (0.0003, 0.002):
        moment = clock.now() + wait
        clock.sleep_until(moment)
        assert clock.now() >= moment
    before = time.monotonic()
    clock.sleep_until(before - 100.0)
    assert time.monotonic() - before < 1.0


class LateKernel:
    """A stand-in for the time module: sleeps are too long, and reading the time takes time."""

    def __init__(self, late_s: float) -> None:
        self.late_s = late_s
        self.now = 0.0
        self.awake_s = 0.0
        self.intervals: list[float] = []

    def monotonic(self) -> float:
        self.now += 1e-7
        self.awake_s += 1e-7
        return self.now

    def sleep(self, seconds: float) -> None:
        self.intervals.append(sys.getswitchinterval())
        self.now += seconds + self.late_s


@pytest.mark.parametrize("late_s", [2e-5, 9e-5, 1.5e-4])
def test_the_spin_time_follows_the_lateness_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    kernel = LateKernel(late_s)
    monkeypatch.setattr("macontrol.controller.runtime.clock.time", kernel)
    clock = WallClock(SPIN_S)
    for slot in range(1, 3000):
        clock.sleep_until(slot * 0.005)
    lateness = []
    kernel.awake_s = 0.0
    for slot in range(3000, 4000):
        clock.sleep_until(slot * 0.005)
        lateness.append(kernel.now - slot * 0.005)
    assert 0 <= max(lateness) < 3e-6
    assert kernel.awake_s / 1000 < 5e-6
    # The short switch interval applies only to sleeps of the slot thread.
    assert max(kernel.intervals) == pytest.approx(1e-4)
    assert sys.getswitchinterval() == pytest.approx(5e-3)


def test_the_spin_time_is_limited_if_the_kernel_is_very_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = LateKernel(late_s=1e-3)
    monkeypatch.setattr("macontrol.controller.runtime.clock.time", kernel)
    clock = WallClock(SPIN_S)
    for slot in range(1, 1000):
        clock.sleep_until(slot * 0.005)
    assert kernel.now == pytest.approx(999 * 0.005 + 1e-3 - SPIN_S, abs=1e-5)
