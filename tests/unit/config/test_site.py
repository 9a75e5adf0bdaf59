"""Warnings about the settings of a site that were measured long ago, or elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from macontrol.config import Config, load_config
from macontrol.config.checks.site import bench_text, site_warnings
from macontrol.config.model.errors import ConfigError

NOW = datetime(2026, 11, 19, tzinfo=UTC)
BENCH = {"stage": "GRBL 1.1h", "port": "usb-1"}


def config(**changes: object) -> Config:
    site = {
        "site__measured": NOW.isoformat(),
        "site__carrier_frequency_hz": 30e9,
        "site__rail_mm": load_config().rail_mm,
        "site__bench": bench_text(BENCH),
        **changes,
    }
    return load_config().replace(**site)


def test_a_fresh_measurement_of_this_bench_has_no_warning() -> None:
    assert site_warnings(config(), NOW.timestamp(), BENCH) == []
    assert site_warnings(load_config(), NOW.timestamp(), BENCH) == []


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"site__measured": (NOW - timedelta(days=31)).isoformat()}, "31 days ago"),
        ({"site__carrier_frequency_hz": 28e9}, "at 28 GHz"),
        ({"site__rail_mm": 300.0}, "rail of 300 mm"),
        ({"site__bench": "port: usb-2; stage: GRBL 1.1h"}, "another bench"),
    ],
)
def test_each_difference_is_a_warning(changes: dict[str, object], word: str) -> None:
    (warning,) = site_warnings(config(**changes), NOW.timestamp(), BENCH)
    assert word in warning
    assert "macontrol calibrate" in warning


def test_the_age_that_is_accepted_is_a_setting() -> None:
    old = (NOW - timedelta(days=31)).isoformat()
    patient = config(site__measured=old, site__max_age_days=60.0)
    assert site_warnings(patient, NOW.timestamp(), BENCH) == []


@pytest.mark.parametrize("text", ["yesterday", "2026-11-19T08:00:00"])
def test_a_time_needs_its_zone(text: str) -> None:
    with pytest.raises(ConfigError, match="time zone"):
        load_config(assignments=[f'site.measured="{text}"'])
