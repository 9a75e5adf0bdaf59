"""Writes the tables of docs/control.md from the code.

`make docs` runs it; a test checks that the page is current.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from macontrol.control.messages import ERRORS
from macontrol.control.states import (
    FIXES,
    STATE_MEANINGS,
    State,
    outcome_rows,
    reason_rows,
)
from support.run_file_page import markdown_table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/control.md"
_SECTION = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The content of docs/control.md."""
    tables = {"states": _states(), "refusals": _refusals(), "errors": _errors()}
    return _SECTION.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n{found[3]}", _read())


def _read() -> str:
    return PAGE.read_text("utf-8")


def _states() -> str:
    meanings = [(f"`{state}`", meaning) for state, meaning in STATE_MEANINGS.items()]
    outcomes = [[f"`{action}`", *cells] for action, *cells in outcome_rows()]
    return (
        markdown_table(("state", "what the daemon does"), meanings)
        + "\n"
        + markdown_table(("", *(f"{state}" for state in State)), outcomes)
    )


def _refusals() -> str:
    rows = [
        (", ".join(f"`{action}`" for action in actions.split(", ")), states, reason, FIXES[reason])
        for actions, states, reason in reason_rows()
    ]
    return markdown_table(("action", "in", "why", "what to do"), rows)


def _errors() -> str:
    return markdown_table(("code", "meaning"), [(str(code), text) for code, text in ERRORS.items()])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} is written\n")
