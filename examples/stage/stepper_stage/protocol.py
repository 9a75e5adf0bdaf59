"""The text protocol of the sketch: README.md describes it. A corrupted line parses to None."""

from __future__ import annotations

import re
from binascii import crc_hqx
from dataclasses import dataclass

_LINE = re.compile(
    r"(?P<number>\d{1,2}) (?P<result>ok|busy|limit|unhomed|unknown)"
    r" (?P<state>idle|moving|unhomed|homing|fault) (?P<position>-?\d{1,9})(?P<facts>(?: \S+)*)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the command with this number; 0 for what a board sends when it starts."""

    number: int
    result: str
    """`ok`, or why the board refuses the command."""
    state: str
    position: int
    """In steps from home."""
    facts: tuple[str, ...] = ()
    """What follows in the answer to `info`."""

    @property
    def is_busy(self) -> bool:
        return self.state in ("moving", "homing")


def signed(body: str) -> bytes:
    """A line with its checksum and its end."""
    return b"%s*%04X\n" % (body.encode("ascii"), crc_hqx(body.encode("ascii"), 0))


def parse(line: bytes) -> Reply | None:
    """Parse a line without its end."""
    text = line.decode("ascii", "replace")
    body, _, _ = text.rpartition("*")
    found = _LINE.fullmatch(body)
    if found is None or signed(body) != line + b"\n":
        return None
    facts = tuple(found["facts"].split())
    return Reply(
        int(found["number"]), found["result"], found["state"], int(found["position"]), facts
    )
