"""The reports of the emulated GRBL board: banner, build, settings, status.

There are two dialects, GRBL 1.1h and grblHAL.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Dialect: TypeAlias = Literal["grbl", "grblhal"]

BANNERS: dict[Dialect, str] = {
    "grbl": "\r\nGrbl 1.1h ['$' for help]",
    "grblhal": "\r\nGrblHAL 1.1f ['$' or '$HELP' for help]",
}
HELP = "[HLP:$$ $# $G $I $N $x=val $Nx=line $J=line $SLP $C $X $H ~ ! ? ctrl-x]"

DEFAULT_SETTINGS: dict[int, float] = {
    **{0: 10, 1: 255, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 10: 1, 11: 0.01, 12: 0.002, 13: 0},
    **{20: 1, 21: 1, 22: 1, 23: 0, 24: 600, 25: 3000, 26: 25, 27: 2, 30: 1000, 31: 0, 32: 0},
    **{100: 80, 101: 80, 102: 80, 110: 6000, 111: 6000, 112: 6000},
    **{120: 500, 121: 500, 122: 500, 130: 100, 131: 100, 132: 100},
}
"""A belt-driven rail of 100 mm with a switch at its positive end."""

_WHOLE = frozenset({0, 1, 2, 3, 4, 5, 6, 10, 13, 20, 21, 22, 23, 26, 30, 31, 32})


def build(dialect: Dialect, *, single_axis_homing: bool) -> list[str]:
    """The answer to `$I`."""
    option = "H" if single_axis_homing else ""
    if dialect == "grbl":
        return ["[VER:1.1h.20190830:]", f"[OPT:V{option},15,128]"]
    return [
        "[VER:1.1f.20260817:]",
        f"[OPT:VNM{option}L+,100,1024,3,0]",
        "[AXS:3:XYZ]",
        "[NEWOPT:ENUMS,RT+,HOME,TC,SED]",
        "[FIRMWARE:grblHAL]",
    ]


def setting(dialect: Dialect, number: int, value: float) -> str:
    """A line of the answer to `$$`."""
    if dialect == "grblhal" and 100 <= number < 110:
        return f"${number}={value:.5f}"
    return f"${number}={value:.0f}" if number in _WHOLE else f"${number}={value:.3f}"


class StatusReports:
    """The answers to `?`; every 10th to 30th has offsets (WCO) or overrides (Ov)."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._offsets_in = self._overrides_in = 0

    def report(
        self,
        state: str,
        positions_mm: tuple[float, float, float],
        *,
        speed_mm_per_s: float,
        planned: int,
        switch_is_closed: bool,
    ) -> str:
        fields = [state, "MPos:{:.3f},{:.3f},{:.3f}".format(*positions_mm)]
        if self._dialect == "grblhal":
            fields.append(f"Bf:{100 - planned},1023")
        fields.append(f"FS:{speed_mm_per_s * 60:.0f},0")
        if switch_is_closed:
            fields.append("Pn:X")
        busy = state.startswith(("Home", "Run", "Hold", "Jog"))
        overrides_are_due = self._overrides_in == 0
        if self._dialect == "grblhal" and overrides_are_due:
            self._offsets_in = max(self._offsets_in, 1)
        if self._offsets_in > 0:
            self._offsets_in -= 1
        else:
            self._offsets_in = 29 if busy else 9
            if overrides_are_due:
                self._overrides_in = 1
            fields.append("WCO:0.000,0.000,0.000")
        if self._overrides_in > 0:
            self._overrides_in -= 1
        else:
            self._overrides_in = 19 if busy else 9
            fields.append("Ov:100,100,100" + ("|A:" if self._dialect == "grblhal" else ""))
        return f"<{'|'.join(fields)}>"
