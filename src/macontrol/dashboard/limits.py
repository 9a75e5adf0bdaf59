"""Rate limits: token buckets, one per client, in memory that does not grow."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_CLIENTS = 1024


class RateLimit:
    """Permit `burst` calls of a client at once, and `per_s` calls per second after that."""

    def __init__(
        self, per_s: float, burst: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """What is left of each client's bucket, and when that was; the newest client last."""

    def permits(self, client: str) -> bool:
        """Count a call of a client; return whether it is within the limit."""
        left = self.left(client)
        allowed = left >= 1.0
        self._buckets[client] = (left - 1.0 if allowed else left, self._clock())
        self._buckets.move_to_end(client)
        if len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return allowed

    def left(self, client: str) -> float:
        """How many calls of a client are within the limit now; does not count one."""
        left, since = self._buckets.get(client, (float(self._burst), 0.0))
        return min(float(self._burst), left + (self._clock() - since) * self._per_s)
