"""A dialogue with an instrument in which every answer is assigned to its own query.

An answer that is late stays owed: it must arrive, and is thrown away, before the next query. The
last query of a measurement asks for errors. Its answer has a form that no other answer has, so it
proves that the answers before it belong to their queries.
"""

from __future__ import annotations

import re

from macontrol.config.model.errors import LateAnswerError, ProbeError
from macontrol.config.model.suggestion import shortened
from macontrol.hal.clock import Clock
from macontrol.hal.probes.scpi.transport import Transport

ASK_ERROR = "SYST:ERR?"
_ERROR = re.compile(r'([+-]?\d{1,9})\s*,\s*(".*|[A-Za-z]+ .*)')
_MOST_ERRORS = 30
_SEND_S = 1.0


class Session:
    """Commands and queries over a transport; ProbeError if it fails."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self.owed = ""
        """The query whose answer is late."""
        self.owed_since_s = 0.0

    def close(self) -> None:
        self._transport.close()

    def command(self, text: str) -> None:
        """Send a command, which has no answer."""
        self._transport.send(text, self._clock.now() + _SEND_S)

    def query(self, text: str, deadline_s: float) -> str:
        """Return the answer to a query; raise LateAnswerError at the deadline."""
        if self.owed:
            raise AssertionError(f"the answer to {self.owed} is owed")
        self._transport.discard()
        self._transport.send(text, min(self._clock.now() + _SEND_S, deadline_s))
        answer = self._transport.read(deadline_s)
        if answer is None:
            self.owed, self.owed_since_s = text, deadline_s
            raise LateAnswerError(f"no answer to {text}")
        return answer.decode("ascii", "replace").strip()

    def settle(self, deadline_s: float) -> bool:
        """Wait for the answer that is owed; return whether there is none any more."""
        if self.owed and self._transport.read(deadline_s) is not None:
            self.owed = ""
        return not self.owed

    def listen(self) -> None:
        """Throw away what was not requested; raise ProbeError if the connection is closed."""
        self._transport.discard()

    def complete(self, trigger: str, deadline_s: float) -> None:
        """Start an operation and wait until it is complete."""
        text = f"{trigger};*OPC?" if trigger else "*OPC?"
        if (answer := self.query(text, deadline_s)).lstrip("+") != "1":
            raise ProbeError(f"the answer to {text} is {shortened(answer)}, not 1")

    def check_errors(self, after: str, deadline_s: float) -> None:
        """Raise ProbeError with the instrument's own text if it has an error."""
        found = ""
        for _ in range(_MOST_ERRORS):
            answer = self.query(ASK_ERROR, deadline_s)
            match = _ERROR.fullmatch(answer)
            if match is None:
                raise ProbeError(f"the answer to {ASK_ERROR} is {shortened(answer)}")
            if int(match[1]) == 0:
                break
            found = found or answer
        if found:
            raise ProbeError(
                f"after {after} the instrument reports {shortened(found)}",
                "correct [probe.scpi], or the settings at the instrument",
            )
