"""Real time is had as far as the kernel gives it; the rest is said once, with the remedy.

Each case runs in a process of its own: the steps change the whole process.
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

# Gives up what root may do, and limits that differ between machines.
UNPRIVILEGED = """
libc = ctypes.CDLL(None)
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
"""


def in_a_process(code: str) -> Any:
    """Run code that prints JSON; get what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def may_have_fifo() -> bool:
    return subprocess.run(["chrt", "-f", "1", "true"], capture_output=True).returncode == 0


def test_the_collector_rests_and_threads_switch_quickly() -> None:
    frozen, enabled, interval = in_a_process("""
        enter_realtime()
        print(json.dumps([gc.get_freeze_count(), gc.isenabled(), sys.getswitchinterval()]))
    """)
    assert frozen > 1000
    assert not enabled
    assert interval <= 1e-3


def test_a_refusal_is_one_warning_with_reasons_and_remedies() -> None:
    priority, locked, warning = in_a_process(
        UNPRIVILEGED
        + """
report = enter_realtime()
print(json.dumps([report.priority, report.locked, report.warning]))
"""
    )
    assert (priority, locked) == (0, False)
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


def test_with_everything_given_there_is_nothing_to_warn_of() -> None:
    report = RealtimeReport(("SCHED_FIFO 50",), (), priority=50, locked=True, blas_threads=1)
    assert report.fifo
    assert report.warning is None
    assert report.summary == "real time: SCHED_FIFO 50"


def test_a_refusal_beside_fifo_does_not_claim_normal_scheduling() -> None:
    refusal = Refusal("locked memory", "no", "ask")
    report = RealtimeReport((), (refusal,), priority=50, locked=False, blas_threads=1)
    assert report.warning == "no full real time. locked memory refused (no): ask"


def test_a_limit_has_a_command_that_raises_it_and_another_cause_has_none() -> None:
    limit = Refusal("SCHED_FIFO", "the limit is 0", "ask", by_limit=True)
    report = RealtimeReport((), (limit,), priority=0, locked=True, blas_threads=1)
    assert report.command == GRANT
    assert report.notice[0] == "refused: SCHED_FIFO: slots may be missed"
    assert report.notice[-1].strip() == GRANT
    group = Refusal("SCHED_FIFO", "the control group has no budget", "ask")
    report = RealtimeReport((), (group,), priority=0, locked=True, blas_threads=1)
    assert report.command is None
    assert len(report.notice) == 1
    assert RealtimeReport((), (), priority=50, locked=True, blas_threads=1).notice == ()


@pytest.mark.skipif(not may_have_fifo(), reason="SCHED_FIFO is not permitted here")
def test_fifo_is_the_slot_threads_alone_and_ends_with_leaving() -> None:
    during, helper, after, collecting = in_a_process("""
        helper = []
        priority = enter_realtime(7).priority
        thread = threading.Thread(target=lambda: helper.append(realtime_priority()))
        thread.start()
        thread.join()
        leave_realtime()
        print(json.dumps([priority, helper[0], realtime_priority(), gc.isenabled()]))
    """)
    assert (during, helper, after, collecting) == (7, 0, 0, True)


@pytest.mark.skipif(not may_have_fifo(), reason="SCHED_FIFO is not permitted here")
def test_a_kernel_that_refuses_fifo_to_root_is_explained() -> None:
    warning = in_a_process("""
        def refuse(*arguments):
            raise PermissionError(1, "Operation not permitted")
        os.sched_setscheduler = refuse
        print(json.dumps(enter_realtime().warning))
    """)
    assert "CONFIG_RT_GROUP_SCHED" in warning


def test_what_the_system_does_not_know_is_no_crash() -> None:
    warning = in_a_process("""
        del os.sched_setscheduler
        realtime._system_call = lambda *words: (_ for _ in ()).throw(OSError(38, "not there"))
        report = enter_realtime()
        leave_realtime()
        print(json.dumps(report.warning))
    """)
    assert warning.count("this system does not offer it") == 3


@pytest.mark.skipif(
    os.geteuid() != 0 and resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] >= 0,
    reason="locking all memory is not permitted here",
)
def test_locking_memory_does_not_pull_in_what_is_never_used() -> None:
    locked, before, after = in_a_process("""
        import numpy, scipy.linalg, pydantic
        def resident_mb():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize() / 1e6
        before = resident_mb()
        locked = enter_realtime().locked
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
def test_blas_threads_are_counted_in_the_library_itself(threads: int) -> None:
    counted, told = in_a_process(f"""
        os.environ["OPENBLAS_NUM_THREADS"] = "{threads}"
        import numpy
        report = enter_realtime()
        print(json.dumps([report.blas_threads, report.warning or ""]))
    """)
    assert counted in (None, min(threads, os.cpu_count() or 1))
    assert ("one BLAS thread refused" in told) == (counted is not None and counted > 1)


@pytest.mark.parametrize("spin_s", [0.0, 1e-4])
def test_the_wall_clock_never_wakes_early_and_passes_what_is_over(spin_s: float) -> None:
    clock = WallClock(spin_s)
    for wait in (0.0003, 0.002):
        moment = clock.now() + wait
        clock.sleep_until(moment)
        assert clock.now() >= moment
    before = time.monotonic()
    clock.sleep_until(before - 100.0)
    assert time.monotonic() - before < 1.0


class LateKernel:
    """Stands in for the time module: sleeps take longer than asked, and looking takes time."""

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
def test_spinning_follows_the_kernels_lateness(
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
    # Asleep, the slot thread gets the interpreter back soon; awake, nobody asks it for it.
    assert max(kernel.intervals) == pytest.approx(1e-4)
    assert sys.getswitchinterval() == pytest.approx(5e-3)


def test_spinning_has_an_end_where_the_kernel_is_very_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = LateKernel(late_s=1e-3)
    monkeypatch.setattr("macontrol.controller.runtime.clock.time", kernel)
    clock = WallClock(SPIN_S)
    for slot in range(1, 1000):
        clock.sleep_until(slot * 0.005)
    assert kernel.now == pytest.approx(999 * 0.005 + 1e-3 - SPIN_S, abs=1e-5)
