"""Reports to the service manager while slots run, sent outside the slot thread.

The slot thread only counts signs of life. A thread of its own sends the watchdog message if there
was a new one: if the slot loop hangs, the messages stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import isnan

from macontrol.controller.host.notify import Notifier
from macontrol.controller.recording.tally import Tally
from macontrol.stop_signals import StopSignals

_STATUS_INTERVAL_S = 1.0
_JOIN_S = 1.0


class ServiceReports:
    """Sends from `__enter__` to `__exit__`; without a service manager it does nothing."""

    def __init__(
        self, notifier: Notifier, signals: StopSignals, tally: Tally, warn: Callable[[str], None]
    ) -> None:
        self._notifier = notifier
        self._signals = signals
        self._tally = tally
        self._warn = warn
        self._signs = self._seen_signs = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="service-reports", daemon=True)

    def sign_of_life(self) -> None:
        """Note that the slot thread still works; for every slot."""
        self._signs += 1

    def __enter__(self) -> ServiceReports:
        if self._notifier.enabled:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        self._report_hang_up()

    def _work(self) -> None:
        watchdog_s = self._notifier.watchdog_interval_s or _STATUS_INTERVAL_S
        while not self._ended.wait(min(watchdog_s, _STATUS_INTERVAL_S)):
            signs = self._signs
            if signs != self._seen_signs:
                self._seen_signs = signs
                self._notifier.watchdog()
            self._notifier.status(status_text(self._tally))
            self._report_hang_up()

    def _report_hang_up(self) -> None:
        if self._signals.hang_ups:
            self._signals.hang_ups = 0
            self._warn(
                "SIGHUP is ignored: a service has no terminal that hangs up; "
                "`systemctl restart` reads a changed configuration"
            )


def status_text(tally: Tally) -> str:
    """One line on how the run goes."""
    reward = "" if isnan(tally.recent_reward) else f", reward {tally.recent_reward:.3f}"
    return f"slot {tally.slot}, {tally.late} late{reward}"
