"""A reader thread of a radio that is delayed once, as on a busy machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from macontrol.hal import Clock
from macontrol.hal.probes.sdr.ring import IQRing
from macontrol.hal.probes.sdr.samples import Samples


@contextmanager
def delayed_reader(seconds: float, clock: Clock) -> Iterator[threading.Event]:
    """Delay the next block of samples; the event is set when the delay begins."""
    append, delayed = IQRing.append, threading.Event()

    def slow(ring: IQRing, block: Samples, arrival_s: float) -> None:
        if not delayed.is_set():
            delayed.set()
            time.sleep(seconds)
            arrival_s = clock.now()
        append(ring, block, arrival_s)

    with patch.object(IQRing, "append", slow):
        yield delayed
