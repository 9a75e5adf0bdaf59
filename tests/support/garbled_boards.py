"""Boards that answer correctly for a while, and with noise afterwards."""

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
"""A line; or, for a Zaber device, the text of an otherwise correct reply."""

ZABER_REPLIES = [
    f"{verdict} {state} {flag} {data}"
    for verdict in ("OK", "RJ")
    for state in ("IDLE", "BUSY")
    for flag in ("--", "WR", "FS", "WT", "NI", "NC")
    for data in ("0", "10000", "-5", "999999999999", "BADDATA", "7.38", "02 WT WR", "")
]
"""Texts of replies with all kinds of verdicts, states, flags and data."""


class FuzzedLine(ABC):
    """A connection whose board answers correctly, or sends the lines of a list."""

    def __init__(self, clock: VirtualClock, noise: Sequence[Noise], *, correct: bool) -> None:
        self._clock = clock
        self._noise = deque(noise)
        self._correct = correct
        self._answers: deque[bytes] = deque()
        self.sent: list[str] = []

    def send_noise(self) -> None:
        self._correct = False
        self._answers.clear()
        self.sent.clear()

    def write(self, data: bytes, deadline_s: float = inf) -> None:
        text = self._command_in(data)
        self.sent.append(text)
        if self._correct:
            self._answers.extend(self._answer(text))

    def read_message(self, deadline_s: float) -> bytes | None:
        if self._correct:
            if self._answers:
                return self._answers.popleft()
        elif self._noise and self._clock.now() < deadline_s:
            self._clock.sleep_until(self._clock.now() + 0.001)
            return self._line(self._noise.popleft())
        self._clock.sleep_until(deadline_s)
        return None

    def close(self) -> None:  # noqa: B027 - there is nothing to close
        pass

    @abstractmethod
    def _command_in(self, data: bytes) -> str:
        """The command in the bytes that were sent."""

    @abstractmethod
    def _answer(self, text: str) -> Iterable[bytes]:
        """What a working board answers."""

    @abstractmethod
    def _line(self, noise: Noise) -> bytes:
        """Noise as a line."""


class FuzzedGrbl(FuzzedLine):
    def __init__(self, clock: VirtualClock, noise: Sequence[Noise], *, correct: bool) -> None:
        super().__init__(clock, noise, correct=correct)
        self._answers.append(BANNER)

    def _command_in(self, data: bytes) -> str:
        return data.decode("latin-1")

    def _answer(self, text: str) -> Iterable[bytes]:
        known: dict[str, Sequence[bytes]] = {
            "?": [scripted_grbl.status("Idle", -2.0)],
            "$I\n": BUILD,
            "$$\n": scripted_grbl.SETTINGS,
            "$H\n": [b"ok"],
        }
        return known.get(text, [b"ok", b"ok"])

    def _line(self, noise: Noise) -> bytes:
        return noise if isinstance(noise, bytes) else noise.encode("latin-1")


class FuzzedZaber(FuzzedLine):
    def __init__(self, clock: VirtualClock, noise: Sequence[Noise], *, correct: bool) -> None:
        super().__init__(clock, noise, correct=correct)
        self._head = "@01 1 00"

    def _command_in(self, data: bytes) -> str:
        device, axis, number, *words = data.decode("ascii")[1:].partition(":")[0].split()
        self._head = f"@{int(device):02d} {axis} {number}"
        return " ".join(words)

    def _answer(self, text: str) -> Iterable[bytes]:
        known = {**scripted_zaber.SETTINGS, "version": "7.38", "limit.approach.maxspeed": "76800"}
        value = known.get(text[4:], "0") if text.startswith("get ") else "0"
        return [self._line(f"OK IDLE -- {'00' if text == 'warnings' else value}")]

    def _line(self, noise: Noise) -> bytes:
        return noise if isinstance(noise, bytes) else summed(f"{self._head} {noise}")
