"""What a stepper board reveals during its handshake, for `macontrol check`."""

from __future__ import annotations

from collections.abc import Sequence

from macontrol.hal.diagnostics import Diagnosis
from macontrol.hal.serial.framing import LineBuffer
from stepper_stage.protocol import Reply, parse
from stepper_stage.settings import StepperSettings


class StepperDiagnostics:
    """Implements `StageDiagnostics`."""

    def __init__(self, settings: StepperSettings) -> None:
        self._buffer = LineBuffer()
        self._last: Reply | None = None
        self._facts: tuple[str, ...] = ()

    def log(self, direction: str, data: bytes) -> None:
        if direction == "<":
            self._buffer.feed(data)
            while (line := self._buffer.take()) is not None:
                if (reply := parse(line)) is not None:
                    self._last, self._facts = reply, reply.facts or self._facts

    @property
    def board(self) -> str:
        if self._last is None:
            return ""
        return " ".join(("stepper board", *self._facts[1::-1]))

    @property
    def state(self) -> str:
        return self._last.state if self._last else ""

    def problem(self) -> Diagnosis | None:
        if self.state != "fault":
            return None
        return Diagnosis(
            "its last homing did not find or release the switch, or a move has pressed it",
            "check the rail, the switch and its wires, then home it",
        )

    def advice(self) -> Sequence[Diagnosis]:
        return ()
