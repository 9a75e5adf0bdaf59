"""Notice a policy that does not return, from a thread beside the slot loop.

Python cannot interrupt a call in another thread. So the daemon stops the stage and ends the
process. Compiled code that keeps the interpreter's lock stops this thread too: the watchdog of the
service manager remains for that.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType

from macontrol.controller.runtime.decision import DecisionPhase

_TICK_S = 1.0
_JOIN_S = 30.0


class PolicyMonitor:
    """Calls `on_hang` once one decision has lasted for `limit_s`, from `__enter__` to `__exit__`.

    The time is counted in ticks of its own: a process that was suspended has not hung.
    """

    def __init__(
        self, decision: DecisionPhase, limit_s: float, on_hang: Callable[[], None]
    ) -> None:
        self._decision = decision
        self._limit_s = limit_s
        self._on_hang = on_hang
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="policy-monitor", daemon=True)

    def __enter__(self) -> PolicyMonitor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_JOIN_S)  # if the policy returns at last, `on_hang` has begun

    def _work(self) -> None:
        tick_s = min(_TICK_S, self._limit_s)
        seen, lasted_s = 0, 0.0
        while not self._ended.wait(tick_s):
            begun = self._decision.begun
            is_same = begun == seen and self._decision.ended < begun
            lasted_s = lasted_s + tick_s if is_same else 0.0
            seen = begun
            if lasted_s > self._limit_s:
                self._on_hang()
                return


def main_frame() -> FrameType | None:
    """What the main thread executes, which is the slot thread."""
    return sys._current_frames().get(threading.main_thread().ident or 0)
