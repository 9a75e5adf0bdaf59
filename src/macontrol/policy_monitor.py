"""Notice a policy that does not return, from a thread beside the slot loop.

Python cannot interrupt a call in another thread. So the daemon stops the stage and ends the
process. Compiled code that keeps the interpreter's lock stops this thread too: the watchdog of the
service manager remains for that.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from macontrol.config import Config
from macontrol.config.model.errors import PolicyError, StageError
from macontrol.controller.runtime.decision import DecisionPhase
from macontrol.controller.runtime.loop import SlotLoop

_TICK_S = 1.0
_JOIN_S = 30.0


class PolicyMonitor:
    """Calls `on_hang` once one decision has lasted for `limit_s`, from `__enter__` to `__exit__`.

    The time is counted in ticks of its own: a process that was suspended has not hung.
    """

    @classmethod
    def of(
        cls, config: Config, loop: SlotLoop, before_end: Callable[[PolicyError, str], None]
    ) -> PolicyMonitor:
        """A monitor that stops the stage and ends the process once the patience is over.

        `before_end` gets the error and the stack of the slot thread; it reports and records them.
        """
        patience_s = config.timing.fault_patience_s
        error = PolicyError(
            f"the policy {config.algorithm.policy} has not returned for {patience_s:g} s "
            "(timing.fault_patience_s)",
            "correct the policy: the policy-fault event has the place",
        )

        def end() -> None:
            loop.stop.request()  # if it returns after all, it commands nothing more
            try:
                with suppress(StageError):  # the slot thread is not in the stage's code
                    loop.halt()
                before_end(error, "".join(traceback.format_stack(_main_frame())))
            finally:
                os._exit(error.exit_code)

        return cls(loop.decision, patience_s, end)

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


def _main_frame() -> FrameType | None:
    """What the main thread executes, which is the slot thread."""
    return sys._current_frames().get(threading.main_thread().ident or 0)
