"""Whether the settings of a site were measured long ago, or elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from macontrol.config.schema import Config

_DAY_S = 86400.0
_CARRIER_TOLERANCE, _RAIL_TOLERANCE = 1e-3, 1e-2
_FIX = "`macontrol calibrate` measures the site again"


def bench_text(identity: Mapping[str, str]) -> str:
    """The identity of a bench as one line, as `site.bench` has it."""
    line = "; ".join(f"{part}: {text}" for part, text in sorted(identity.items()))
    return "".join(sign for sign in line if sign.isprintable())[:900]


def site_warnings(
    config: Config, now_s: float, identity: Mapping[str, str] | None = None
) -> list[str]:
    """Why the measured settings of a config may not fit any more, at a time in s since 1970.

    Without the identity of the bench, that part is not compared.
    """
    return [f"{text}; {_FIX}" for text in _doubts(config, now_s, identity)]


def _doubts(config: Config, now_s: float, identity: Mapping[str, str] | None) -> Iterator[str]:
    site, physical = config.site, config.physical
    if not site.measured:
        return
    age_days = (now_s - datetime.fromisoformat(site.measured).timestamp()) / _DAY_S
    if age_days > site.max_age_days:
        yield (
            f"the site was measured {age_days:.0f} days ago, and site.max_age_days = "
            f"{site.max_age_days:g}"
        )
    carrier_hz = site.carrier_frequency_hz
    if carrier_hz and abs(physical.carrier_frequency_hz / carrier_hz - 1) > _CARRIER_TOLERANCE:
        yield (
            f"the site was measured at {carrier_hz / 1e9:.6g} GHz, and "
            f"physical.carrier_frequency_hz is {physical.carrier_frequency_hz / 1e9:.6g} GHz"
        )
    if site.rail_mm and abs(physical.rail_mm / site.rail_mm - 1) > _RAIL_TOLERANCE:
        yield (
            f"the site was measured on a rail of {site.rail_mm:.5g} mm, and this one has "
            f"{physical.rail_mm:.5g} mm"
        )
    if identity is not None and site.bench and bench_text(identity) != site.bench:
        yield f"the site was measured with another bench ({site.bench})"
