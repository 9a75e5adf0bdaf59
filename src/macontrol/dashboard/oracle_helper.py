"""The oracle of a simulated run that is still running, computed in a process of its own.

`python -m macontrol.dashboard.oracle_helper FILE` reads slot numbers, one per line, and answers
each with one JSON object: the best trajectory for the slots so far, up to that slot or as far as
it came in a limited time. It ends with its input. Memory does not grow with the run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from macontrol.config.model.errors import DataError, MacontrolError
from macontrol.controller.recording.runfile.header import RunHeader
from macontrol.dashboard.digest import why_no_world
from macontrol.dashboard.run_reader import RunReader

SHOWN_S = 660.0
"""The page draws ten minutes."""
_STRETCH_S = 0.5
_MOST_STRETCHES = 1400
_STEP_S = 0.5
"""The longest computation between two answers."""


class _Oracle:
    """The oracle of a run file."""

    def __init__(self, path: Path) -> None:
        from macontrol.sim.research.oracle_so_far import OracleSoFar
        from macontrol.sim.world.channel import reward_blocks

        header = RunHeader.from_rows(RunReader(path).header())
        if (reason := why_no_world(header)) is not None:
            raise DataError(reason)
        config = header.config
        slot_s = config.physical.slot_duration_s
        stretch_slots = max(1, round(_STRETCH_S / slot_s))
        self._oracle = OracleSoFar(
            config,
            reward_blocks(config, header.seed),
            stretch_slots=stretch_slots,
            stretches=min(round(SHOWN_S / (stretch_slots * slot_s)) + 1, _MOST_STRETCHES),
        )

    def answer(self, slot: int) -> dict[str, Any]:
        """The oracle up to this slot, or as far as the time allows."""
        self._oracle.advance(slot, _STEP_S)
        if self._oracle.slot == 0:
            return {"slot": 0, "wanted": slot}
        found = self._oracle.best()
        return {
            "slot": found.slot,
            "wanted": slot,
            "mean": found.earned / found.slot,
            "net": found.value / found.slot,
            "ends": found.ends,
            "position": [round(value, 4) for value in found.position],
            "reward": [round(value, 4) for value in found.reward],
        }


def main(words: list[str]) -> int:
    """Answer until the end of the input."""
    try:
        oracle = _Oracle(Path(words[0]))
    except MacontrolError as error:
        print(json.dumps({"problem": error.detail}), flush=True)
        return 0
    for line in sys.stdin:
        print(json.dumps(oracle.answer(int(line)), separators=(",", ":")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
