"""Boards that answer properly for a while, and anything at all afterwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from math import inf

from macontrol.controller.runtime.clock import VirtualClock
from support import scripted_grbl, scripted_zaber
from support.scripted_grbl import BANNER, BUILD
from support.scripted_zaber import summed

Noise = str | bytes
"""A line; or, for a Zaber device, the text of a reply that is otherwise in order."""

ZABER_REPLIES = [
    f"{verdict} {state} {flag} {data}"
    for verdict in ("OK", "RJ")
    for state in ("IDLE", "BUSY")
    for flag in ("--", "WR", "FS", "WT", "NI", "NC")
    for data in ("0", "10000", "-5", "999999999999", "BADDATA", "7.38", "02 WT WR", "")
]
"""Texts of replies: any verdict, state, flag and data there may be."""


class FuzzedLine(ABC):
    """A connection whose board is polite, or says what is in a list whatever it is asked."""

    def __init__(self, clock: VirtualClock, noise: Sequence[Noise], *, polite: bool) -> None:
        self._clock = clock
        self._noise = deque(noise)
        self._polite = polite
        self._proper: deque[bytes] = deque()
        self.sent: list[str] = []

    def turn_rude(self) -> None:
        self._polite = False
        self._proper.clear()
        self.sent.clear()

    def write(self, data: bytes, deadline_s: float = inf) -> None:
        text = self._understand(data)
        self.sent.append(text)
        if self._polite:
            self._proper.extend(self._answer(text))

    def read_line(self, deadline_s: float) -> bytes | None:
        if self._polite:
            if self._proper:
                return self._proper.popleft()
        elif self._noise and self._clock.now() < deadline_s:
            self._clock.sleep_until(self._clock.now() + 0.001)
            return self._spell(self._noise.popleft())
        self._clock.sleep_until(deadline_s)
        return None

    def close(self) -> None:  # noqa: B027 - there is nothing to let go of
        pass

    @abstractmethod
    def _understand(self, data: bytes) -> str:
        """The command in what was sent."""

    @abstractmethod
    def _answer(self, text: str) -> Iterable[bytes]:
        """What a board in order answers."""

    @abstractmethod
    def _spell(self, noise: Noise) -> bytes:
        """Noise as a line."""


class FuzzedGrbl(FuzzedLine):
    def __init__(self, clock: VirtualClock, noise: Sequence[Noise], *, polite: bool) -> None:
        super().__init__(clock, noise, polite=polite)
        self._proper.append(BANNER)

    def _understand(self, data: bytes) -> str:
        return data.decode("latin-1")

    def _answer(self, text: str) -> Iterable[bytes]:
        known: dict[str, Sequence[bytes]] = {
            "?": [scripted_grbl.status("Idle", -2.0)],
            "$I\n": BUILD,
            "$$\n": scripted_grbl.SETTINGS,
            "$H\n": [b"ok"],
        }
        return known.get(text, [b"ok", b"ok"])

    def _spell(self, noise: Noise) -> bytes:
        return noise if isinstance(noise, bytes) else noise.encode("latin-1")


class FuzzedZaber(FuzzedLine):
    def __init__(self, clock: VirtualClock, noise: Sequence[Noise], *, polite: bool) -> None:
        super().__init__(clock, noise, polite=polite)
        self._head = "@01 1 00"

    def _understand(self, data: bytes) -> str:
        device, axis, number, *words = data.decode("ascii")[1:].partition(":")[0].split()
        self._head = f"@{int(device):02d} {axis} {number}"
        return " ".join(words)

    def _answer(self, text: str) -> Iterable[bytes]:
        known = {**scripted_zaber.SETTINGS, "version": "7.38", "limit.approach.maxspeed": "76800"}
        told = known.get(text[4:], "0") if text.startswith("get ") else "0"
        return [self._spell(f"OK IDLE -- {'00' if text == 'warnings' else told}")]

    def _spell(self, noise: Noise) -> bytes:
        return noise if isinstance(noise, bytes) else summed(f"{self._head} {noise}")
