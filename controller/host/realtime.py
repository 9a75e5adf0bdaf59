"""Real-time setup of the slot thread: SCHED_FIFO, locked memory, frozen GC.

Every step is best effort. A refusal of the kernel is reported together with its fix. A run in
ordinary scheduling is late more often, which is counted like any other overrun.
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
from typing import Any, NamedTuple

from macontrol.controller.host.blas import loaded_blas

PRIORITY = 50
"""The priority of threaded interrupt handlers on PREEMPT_RT: above programs, not above the disk."""

GRANT = f"sudo prlimit --pid $$ --rtprio={PRIORITY} --memlock=-1"
"""The command that permits real time for a shell and the programs started in it."""

ORDINARY_DECISION_S = 8e-3
"""Time reserved for the decision without SCHED_FIFO: other programs may run first."""

SWITCH_INTERVAL_S = 1e-4
"""The longest time a helper thread keeps the interpreter (the default of Python is 5 ms)."""

_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_PR_SET_TIMERSLACK = 29
_CAP_IPC_LOCK, _CAP_SYS_NICE = 14, 23
_PYTHON_SWITCH_INTERVAL_S = 5e-3
_KERNEL_TIMER_SLACK_NS = 50_000
_MEMORY_FIX = (
    "set LimitMEMLOCK=infinity in a service, or 'memlock unlimited' in /etc/security/limits.d for "
    "a user"
)


class _Refused(NamedTuple):
    """Why a step is refused, and the fix."""

    why: str
    fix: str
    by_limit: bool = False
    """Whether the cause is a limit of the user, which `GRANT` raises."""


@dataclass(frozen=True)
class Refusal:
    """A refusal of the kernel: what, why, and the fix."""

    what: str
    why: str
    fix: str
    by_limit: bool = False

    def __str__(self) -> str:
        return f"{self.what} refused ({self.why}): {self.fix}"


@dataclass(frozen=True)
class RealtimeReport:
    """The result of the real-time setup of the slot thread."""

    refused: tuple[Refusal, ...]
    priority: int
    """The SCHED_FIFO priority in use; 0 in ordinary scheduling."""

    @property
    def fifo(self) -> bool:
        return self.priority > 0

    @property
    def warning(self) -> str | None:
        """All refusals in one message for the log; None if there are none."""
        if not self.refused:
            return None
        outcome = "" if self.fifo else "; slots may be missed in ordinary scheduling"
        reasons = ". ".join(str(refusal) for refusal in self.refused)
        message = f"incomplete real-time setup{outcome}. {reasons}"
        return message if self.command is None else f"{message}. In a shell: {self.command}"

    @property
    def command(self) -> str | None:
        """The shell command that permits what was refused; None if there is none."""
        return GRANT if any(refusal.by_limit for refusal in self.refused) else None

    @property
    def notice(self) -> tuple[str, ...]:
        """All refusals and their fix in short lines; empty if there are none."""
        if not self.refused:
            return ()
        steps = ", ".join(refusal.what for refusal in self.refused)
        slots = "" if self.fifo else ": slots may be missed"
        refused = f"refused: {steps}{slots}"
        if self.command is None:
            return (refused,)
        return (refused, "to permit it in your shell:", f"  {self.command}")

    def as_data(self) -> dict[str, Any]:
        """Return the report for the summary of a run."""
        refused = [str(refusal) for refusal in self.refused]
        return {"priority": self.priority, "refused": refused, "notice": list(self.notice)}


def enter_realtime(priority: int = PRIORITY) -> RealtimeReport:
    """Give the calling thread real-time priority; lock memory and freeze the garbage collector.

    Call it when everything is loaded, allocated and warmed up. The collector ignores all objects
    that exist now, and no longer runs automatically (see `collect_garbage`). Threads that this
    thread starts later use ordinary scheduling.
    """
    refused: list[Refusal] = []
    steps: tuple[tuple[str, Callable[[], _Refused | None]], ...] = (
        ("SCHED_FIFO", lambda: _set_fifo(priority)),
        ("locked memory", _lock_memory),
        ("exact timers", lambda: _system_call("prctl", _PR_SET_TIMERSLACK, 1)),
        ("a frozen collector", _freeze_collector),
        ("fast thread switches", lambda: sys.setswitchinterval(SWITCH_INTERVAL_S)),
    )
    for what, step in steps:
        try:
            if found := step():
                refused.append(Refusal(what, *found))
        except (OSError, AttributeError, ValueError) as error:
            refused.append(Refusal(what, str(error), "this system does not support it"))
    threads = blas_threads()
    if threads is not None and threads > 1:
        fix = "unset OPENBLAS_NUM_THREADS and similar variables, or set them to 1"
        refused.append(Refusal("one BLAS thread", f"{threads} are in use", fix))
    return RealtimeReport(tuple(refused), realtime_priority())


def leave_realtime() -> None:
    """Undo `enter_realtime` as far as the kernel permits; raise no error."""
    steps: tuple[Callable[[], None], ...] = (
        # A user without CAP_SYS_NICE cannot clear the flag, but can leave with it set.
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
    """Return the SCHED_FIFO priority of the calling thread; 0 in any other scheduling."""
    try:
        if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_FIFO:
            return 0
        return os.sched_getparam(0).sched_priority
    except (OSError, AttributeError):
        return 0


def collect_garbage() -> None:
    """Collect the garbage since `enter_realtime`, when the loop has time.

    The collector ignores objects from before it, so this takes far less than 1 ms. Without it, as
    in a run on a virtual clock, Python collects by itself, and a full collection takes 40 ms.
    """
    if not gc.isenabled():
        gc.collect()


def blas_threads() -> int | None:
    """Return the largest thread count of the loaded BLAS libraries; None if it is unknown."""
    counts = [blas.threads for blas in loaded_blas() if blas.threads is not None]
    return max(counts, default=None)


def _set_fifo(priority: int) -> _Refused | None:
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
            return _Refused(
                "operation not permitted, although the limits permit it",
                "the kernel has CONFIG_RT_GROUP_SCHED and this control group has no real-time "
                "budget (set cpu.rt_runtime_us, or boot a kernel without it), or a container "
                "prevents it",
            )
        return _Refused(
            "the limit of real-time priorities is 0",
            f"set LimitRTPRIO={priority} in a service, or 'rtprio {priority}' in "
            "/etc/security/limits.d for a user",
            by_limit=True,
        )
    return None


def _lock_memory() -> _Refused | None:
    limit = _raise_limit(resource.RLIMIT_MEMLOCK)
    free = limit == resource.RLIM_INFINITY or _capable(_CAP_IPC_LOCK)
    # MCL_ONFAULT locks a page when it is first used. Without it, all pages of every library, arena
    # and thread stack are loaded: hundreds of megabytes that no slot uses.
    flags = _MCL_CURRENT | _MCL_ONFAULT
    if free:
        flags |= _MCL_FUTURE  # with a limit, a later allocation above it would fail
    try:
        _system_call("mlockall", flags)
    except OSError as error:
        if error.errno not in (errno.ENOMEM, errno.EPERM):
            raise
        why = f"the limit of locked memory is {limit // 1024} KiB"
        return _Refused(why if limit >= 0 else str(error.strerror), _MEMORY_FIX, by_limit=True)
    if free:
        return None
    why = f"only the memory mapped now is locked, because the limit is {limit // 1024} KiB"
    return _Refused(why, _MEMORY_FIX, by_limit=True)


def _freeze_collector() -> None:
    gc.collect()
    gc.freeze()
    gc.disable()


def _set_normal(flags: int) -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER | flags, os.sched_param(0))


def _system_call(name: str, *arguments: int) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*(ctypes.c_ulong(argument) for argument in arguments)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _raise_limit(which: int) -> int:
    """Raise a soft limit to the hard limit; return the limit in use."""
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
