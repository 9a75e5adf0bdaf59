"""The dialogue with a Zaber device: commands out, replies matched by number, flags checked.

Every reply carries a flag. A flag that makes the position void loses the stage, except during a
handshake or a homing, when it is expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from macontrol.config.model.errors import StageError
from macontrol.config.sections.stage import AXES
from macontrol.hal.serial.stage import SerialParts
from macontrol.hal.stages.zaber.protocol import (
    HIDING_FLAGS,
    NO_FLAG,
    STALLED,
    Alert,
    Message,
    Noise,
    Reply,
    encode,
    explain,
    is_fault,
    is_number,
    parse,
    voids_position,
    whole_number,
)
from macontrol.hal.stages.zaber.settings import ZaberSettings

ATTEMPTS = 4
SHORTEST_POLL_S = 0.002
LONGEST_POLL_S = 0.05
"""How long a motion is left alone between two questions."""
_ANSWER_S = 0.5


@dataclass(frozen=True, slots=True)
class AxisStatus:
    """What the device reported about its axis at one moment."""

    position: int
    """In microsteps."""
    busy: bool
    flags: tuple[str, ...]


class ZaberSession:
    """One axis of one device behind one connection."""

    def __init__(self, parts: SerialParts[ZaberSettings]) -> None:
        self.parts = parts
        self._port = parts.settings.port
        self._address = parts.settings.device_address
        self._clock = parts.clock
        self._connection = parts.connection
        self._position = parts.position
        self.axis_number = AXES.index(parts.settings.axis) + 1
        self.requires_checksums = False
        """Whether the device sends checksums, so that a message without one is noise."""
        self._message_id = 0

    def soon(self, deadline_s: float) -> float:
        """Until when to wait for one answer."""
        return min(deadline_s, self._clock.now() + _ANSWER_S)

    # -- Questions ----------------------------------------------------------------------------

    def post(self, text: str, deadline_s: float = inf, *, axis: int | None = None) -> None:
        """Send a command without waiting. Axis 0 is the device as a whole."""
        self._message_id = (self._message_id + 1) % 100
        addressed = self.axis_number if axis is None else axis
        data = encode(self._address, addressed, self._message_id, text)
        self._connection.write(data, deadline_s)

    def ask(self, text: str, deadline_s: float, *, axis: int | None = None) -> Reply | None:
        """Send a command and return its reply; None if none arrives by the deadline."""
        self.post(text, deadline_s, axis=axis)
        addressed = self.axis_number if axis is None else axis
        while (message := self._next_message(deadline_s)) is not None:
            asked = self._message_id, addressed
            if isinstance(message, Reply) and (message.message_id, message.axis) == asked:
                return message
            if self._clock.now() >= deadline_s:
                break
        return None

    def ask_soon(self, text: str, deadline_s: float, *, axis: int | None = None) -> Reply | None:
        """Ask, and wait for the reply as long as one answer may take."""
        return self.ask(text, self.soon(deadline_s), axis=axis)

    def get(self, name: str, deadline_s: float, *, axis: int | None = None) -> str:
        """Read a setting; ask again without a usable reply, which may have been garbled."""
        for _ in range(ATTEMPTS):
            reply = self.ask_soon(f"get {name}", deadline_s, axis=axis)
            if reply is not None and not reply.accepted:
                raise StageError(f"the device does not report its {name}: {reply.refusal}")
            if reply is not None and is_number(reply.data):
                return reply.data
            if self._clock.now() >= deadline_s:
                break
        raise StageError(f"{self._port}: the device does not report its {name}")

    def get_whole(self, name: str, deadline_s: float, *, axis: int | None = None) -> int:
        """Read a setting as a whole number."""
        return round(float(self.get(name, deadline_s, axis=axis)))

    def ask_status(self, deadline_s: float) -> AxisStatus | None:
        """Request position, motion and flags; None if no reply arrives by the deadline."""
        reply = self.ask("get pos", deadline_s)
        position = None if reply is None else whole_number(reply.data)
        if reply is None or position is None or not reply.accepted:
            return None
        flags: tuple[str, ...] = () if reply.flag == NO_FLAG else (reply.flag,)
        if reply.flag in HIDING_FLAGS:
            flags = self.ask_flags(deadline_s)
        return AxisStatus(position, reply.busy, flags)

    def ask_flags(self, deadline_s: float) -> tuple[str, ...]:
        """Request all active flags: a reply contains only the most serious one."""
        reply = self.ask_soon("warnings", deadline_s)
        if reply is None or not reply.accepted:
            raise StageError(f"{self._port}: the device does not report its flags")
        flags = tuple(reply.data.split()[1:])
        for flag in flags:
            self._check_flag(flag)
        return flags

    def stop(self, deadline_s: float) -> AxisStatus:
        """Stop, and wait until the axis is at rest; raise StageError if that fails.

        The stop is sent again only without a reply: a second stop during the deceleration may halt
        the motor abruptly, and cost it steps.
        """
        silent = 0
        while silent < ATTEMPTS and self.ask_soon("stop", deadline_s) is None:
            silent += 1
        while silent < ATTEMPTS and self._clock.now() < deadline_s:
            status = self.ask_status(self.soon(deadline_s))
            if status is not None and not status.busy:
                return status
            silent = silent + 1 if status is None else 0
            self.listen(min(deadline_s, self._clock.now() + 10 * SHORTEST_POLL_S))
        raise StageError(f"{self._port}: the device could not be stopped")

    # -- Receiving ----------------------------------------------------------------------------

    def listen(self, deadline_s: float) -> None:
        """Wait until the deadline, or until the device sends an alert that it is at rest."""
        while (message := self._next_message(deadline_s)) is not None:
            if isinstance(message, Alert) and message.axis == self.axis_number and not message.busy:
                return
            if self._clock.now() >= deadline_s:
                return

    def _next_message(self, deadline_s: float) -> Message | None:
        """Return the next message; one from another device of the chain is Noise."""
        line = self._connection.read_message(deadline_s)
        if line is None:
            return None
        message = parse(line)
        if isinstance(message, Noise):
            return message
        is_unchecked = self.requires_checksums and not message.checked
        if message.device != self._address or is_unchecked:
            return Noise(line)
        self._position.note_answer()
        if isinstance(message, Reply | Alert) and (
            message.axis == self.axis_number
            # A flag of the device as a whole may be about another axis, unless it is a fault.
            or (message.axis == 0 and is_fault(message.flag))
        ):
            self._check_flag(message.flag)
        return message

    def _check_flag(self, flag: str) -> None:
        """Lose the stage if the flag makes the position void."""
        if voids_position(flag) and not self._position.loss_is_expected:
            self.note_fault(flag)
            self._position.lose(explain(flag))

    def note_fault(self, flag: str) -> None:
        """Note a stall, which is tolerated once."""
        if flag == STALLED:
            self._position.note_fault(
                explain(STALLED), "check the rail, the cable and the load before the next start"
            )
