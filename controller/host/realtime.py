"""Real-time setup of the slot thread: SCHED_FIFO, locked memory, frozen GC.

Every step is best effort. What the kernel refuses is reported, with what grants it; a run in
ordinary scheduling is late more often, and that is counted like any other overrun.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PRIORITY = 50
"""As threaded interrupt handlers have it on PREEMPT_RT: above all programs, not above the disk."""

GRANT = f"sudo prlimit --pid $$ --rtprio={PRIORITY} --memlock=-1"
"""Typed into a shell, it gives that shell and all it starts the right to real time."""

ORDINARY_DECISION_S = 8e-3
"""What to keep of a slot to decide in without SCHED_FIFO: others may run for milliseconds first."""

SWITCH_INTERVAL_S = 1e-4
"""How long a helper thread may keep the interpreter from the slot thread (Python's own: 5 ms)."""

_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_PR_SET_TIMERSLACK = 29
_CAP_IPC_LOCK, _CAP_SYS_NICE = 14, 23
_PYTHON_SWITCH_INTERVAL_S = 5e-3
_KERNEL_TIMER_SLACK_NS = 50_000


@dataclass(frozen=True)
class Refusal:
    """Something the kernel would not give: what, why, and what would help."""

    what: str
    why: str
    fix: str
    by_limit: bool = False
    """Whether a limit of the user is the cause, which `GRANT` raises."""

    def __str__(self) -> str:
        return f"{self.what} refused ({self.why}): {self.fix}"


@dataclass(frozen=True)
class RealtimeReport:
    """What the slot thread got of real time, and what it did not."""

    gained: tuple[str, ...]
    refused: tuple[Refusal, ...]
    priority: int
    """The SCHED_FIFO priority in force; 0 in normal scheduling."""
    locked: bool
    """Whether memory stays in RAM."""
    blas_threads: int | None
    """How many threads the busiest BLAS in the process uses; None if none was found."""

    @property
    def fifo(self) -> bool:
        return self.priority > 0

    @property
    def summary(self) -> str:
        """What was had, in one line."""
        return "real time: " + ", ".join(self.gained)

    @property
    def warning(self) -> str | None:
        """All that was refused, in one message for the log; None if there is nothing to say."""
        if not self.refused:
            return None
        outcome = "" if self.fifo else "; slots may be missed in ordinary scheduling"
        message = f"no full real time{outcome}. " + ". ".join(str(one) for one in self.refused)
        return message if self.command is None else f"{message}. In a shell: {self.command}"

    @property
    def command(self) -> str | None:
        """The command that grants what was refused; None if there is none."""
        return GRANT if any(one.by_limit for one in self.refused) else None

    @property
    def notice(self) -> tuple[str, ...]:
        """What was refused and what grants it, in short lines; none if all was granted."""
        if not self.refused:
            return ()
        lost = ", ".join(one.what for one in self.refused)
        slots = "" if self.fifo else ": slots may be missed"
        refused = f"refused: {lost}{slots}"
        if self.command is None:
            return (refused,)
        return (refused, "this command grants it to your shell:", f"  {self.command}")

    def as_data(self) -> dict[str, Any]:
        """The report for a run's summary."""
        refused = [str(one) for one in self.refused]
        return {"priority": self.priority, "refused": refused, "notice": list(self.notice)}


class _RefusedError(Exception):
    def __init__(self, why: str, fix: str, *, by_limit: bool = False) -> None:
        super().__init__(why)
        self.why, self.fix, self.by_limit = why, fix, by_limit


def enter_realtime(priority: int = PRIORITY) -> RealtimeReport:
    """Make the calling thread a real-time one; the memory and the collector are the process's.

    To be called once everything is loaded, allocated and warmed up: objects alive now are never
    looked at by the collector again, and the collector does not run by itself any more (see
    `collect_garbage`). Threads started later from here stay in normal scheduling.
    """
    gained: list[str] = []
    refused: list[Refusal] = []
    steps: tuple[tuple[str, Callable[[], str]], ...] = (
        ("SCHED_FIFO", lambda: f"SCHED_FIFO {_set_fifo(priority)}"),
        ("locked memory", _lock_memory),
        ("exact timers", _sharpen_timers),
        ("a frozen collector", _freeze_collector),
        ("quick thread switches", _shorten_switch_interval),
    )
    for what, step in steps:
        try:
            gained.append(step())
        except _RefusedError as error:
            refused.append(Refusal(what, error.why, error.fix, error.by_limit))
        except (OSError, AttributeError, ValueError) as error:
            refused.append(Refusal(what, str(error), "this system does not offer it"))
    threads = blas_threads()
    if threads is not None and threads > 1:
        fix = "unset OPENBLAS_NUM_THREADS and its like, or set them to 1"
        refused.append(Refusal("one BLAS thread", f"{threads} are in force", fix))
    elif threads is not None:
        gained.append("one BLAS thread")
    return RealtimeReport(
        gained=tuple(gained),
        refused=tuple(refused),
        priority=realtime_priority(),
        locked="memory locked" in gained,
        blas_threads=threads,
    )


def leave_realtime() -> None:
    """Undo `enter_realtime` as far as the kernel allows; raises nothing."""
    steps: tuple[Callable[[], None], ...] = (
        # Who may not clear the flag (it takes CAP_SYS_NICE) may still leave with it set.
        lambda: _set_normal(os.SCHED_RESET_ON_FORK),
        lambda: _set_normal(0),
        lambda: _system_call("munlockall"),
        lambda: _system_call("prctl", _PR_SET_TIMERSLACK, _KERNEL_TIMER_SLACK_NS),
    )
    for undo in steps:
        try:
            undo()
        except (OSError, AttributeError):
            continue
    sys.setswitchinterval(_PYTHON_SWITCH_INTERVAL_S)
    gc.unfreeze()
    gc.enable()


def realtime_priority() -> int:
    """Get the SCHED_FIFO priority of the calling thread; 0 in any other scheduling."""
    try:
        if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_FIFO:
            return 0
        return os.sched_getparam(0).sched_priority
    except (OSError, AttributeError):
        return 0


def collect_garbage() -> None:
    """Collect what became garbage since the start; for moments in which the loop has time.

    What was alive at `enter_realtime` is not looked at, so this takes well below a millisecond.
    """
    gc.collect()


def blas_threads() -> int | None:
    """Get how many threads the busiest OpenBLAS loaded here uses; None if there is none."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "openblas" in line}
    except OSError:
        return None
    counts = []
    for path in paths:
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD)
        except OSError:
            continue
        for prefix in ("scipy_openblas", "openblas"):
            for suffix in ("64_", "_64", ""):
                count = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                if count is not None:
                    counts.append(int(count()))
    return max(counts, default=None)


def _set_fifo(priority: int) -> int:
    limit = _raise_limit(resource.RLIMIT_RTPRIO)
    privileged = _capable(_CAP_SYS_NICE)
    if not privileged and 0 < limit < priority:
        priority = limit
    flags = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    try:
        os.sched_setscheduler(0, flags, os.sched_param(priority))
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        if privileged or limit > 0:
            raise _RefusedError(
                "Operation not permitted, though the limits allow it",
                "the kernel has CONFIG_RT_GROUP_SCHED and this control group no real-time budget "
                "(set cpu.rt_runtime_us, or boot a kernel without it), or a container forbids it",
            ) from None
        raise _RefusedError(
            "the limit of real-time priorities is 0",
            f"a service has LimitRTPRIO={priority}, a user 'rtprio {priority}' in "
            "/etc/security/limits.d",
            by_limit=True,
        ) from None
    return priority


def _lock_memory() -> str:
    limit = _raise_limit(resource.RLIMIT_MEMLOCK)
    free = limit == resource.RLIM_INFINITY or _capable(_CAP_IPC_LOCK)
    # On fault: a page is locked once it has been used. To pull in all of every library, arena and
    # thread stack costs hundreds of megabytes that no slot ever touches.
    flags = _MCL_CURRENT | _MCL_ONFAULT
    if free:
        flags |= _MCL_FUTURE  # with a limit, an allocation that crosses it would fail later
    try:
        _system_call("mlockall", flags)
    except OSError as error:
        if error.errno not in (errno.ENOMEM, errno.EPERM):
            raise
        raise _RefusedError(
            f"the limit of locked memory is {limit // 1024} KiB"
            if limit >= 0
            else str(error.strerror),
            "a service has LimitMEMLOCK=infinity, a user 'memlock unlimited' in "
            "/etc/security/limits.d",
            by_limit=True,
        ) from None
    if not free:
        raise _RefusedError(
            f"only what is mapped now, as the limit is {limit // 1024} KiB",
            "LimitMEMLOCK=infinity, or 'memlock unlimited' in /etc/security/limits.d",
            by_limit=True,
        )
    return "memory locked"


def _sharpen_timers() -> str:
    _system_call("prctl", _PR_SET_TIMERSLACK, 1)
    return "timer slack 1 ns"


def _freeze_collector() -> str:
    gc.collect()
    gc.freeze()
    gc.disable()
    return "collector frozen"


def _shorten_switch_interval() -> str:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return f"thread switches within {SWITCH_INTERVAL_S * 1e6:.0f} µs"


def _set_normal(flags: int) -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER | flags, os.sched_param(0))


def _system_call(name: str, *arguments: int) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*(ctypes.c_ulong(argument) for argument in arguments)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _raise_limit(which: int) -> int:
    """Raise a soft limit to the hard one, and get what it is then."""
    soft, hard = resource.getrlimit(which)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(which, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard


def _capable(capability: int) -> bool:
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
            for line in status:
                if line.startswith("CapEff:"):
                    return bool(int(line.split()[1], 16) >> capability & 1)
    except OSError:
        pass
    return False
