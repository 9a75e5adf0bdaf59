"""Bringing a lost stage back while the loop keeps its ears open.

To reconnect and home takes many seconds. It is done by a thread of its own; the slot thread waits
for it, but hears a signal and tells the service manager that it is alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from macontrol.controller.guard import Guard

_LOOK_EVERY_S = 0.1


def recover_stage(
    guard: Guard,
    deadline_s: float,
    *,
    is_stopped: Callable[[], bool],
    on_wait: Callable[[], None],
) -> bool:
    """Whether the stage was brought back; False if the run was stopped meanwhile.

    What the stage raises is raised here.
    """
    raised: list[BaseException] = []

    def work() -> None:
        try:
            guard.recover(deadline_s)
        except BaseException as error:
            raised.append(error)

    worker = threading.Thread(target=work, name="stage-recovery", daemon=True)
    worker.start()
    while True:
        worker.join(_LOOK_EVERY_S)
        if not worker.is_alive():
            break
        on_wait()
        if is_stopped():
            return False
    if raised:
        raise raised[0]
    return True
