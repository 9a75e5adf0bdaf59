"""An emulated radio for tests: the place where it stands, as keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from macontrol.sim.bench.emulated_probe import Site
from macontrol.sim.bench.radio import VirtualRadio


def virtual_radio(
    power: Callable[[float], float],
    *,
    carrier_hz: float | None = None,
    rest_s: float = 0.0,
    **site: Any,
) -> VirtualRadio:
    return VirtualRadio(Site(power, **site), carrier_hz=carrier_hz, rest_s=rest_s)
