"""The assignments that an error's fix suggests."""

from __future__ import annotations

import re

_SUGGESTION = re.compile(
    r"(?P<key>[a-z]+(?:\.[a-z0-9_]+)+) to (?:at (?:most|least) )?"
    r"(?P<value>-?\d[\d.]*(?:e[-+]?\d+)?)"
)


def suggestions(message: str) -> list[list[str]]:
    """The alternatives of a fix, each a list of `section.key=value` that belong together."""
    fix = message.rpartition("; ")[2]
    found = [
        [f"{each['key']}={each['value'].rstrip('.')}" for each in _SUGGESTION.finditer(part)]
        for part in fix.split(", or ")
    ]
    return [part for part in found if part]
