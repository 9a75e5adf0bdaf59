"""The `[probe]` table, and the command line's short form of it."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
from pydantic import ValidationError

from macontrol.commands.shared_arguments import bench_config_from, parse_probe_option
from macontrol.config import load_config
from macontrol.config.model.address import split_address
from macontrol.config.model.errors import ConfigError, UsageError
from macontrol.hal.probes.soapy.settings import SoapySettings
from support.probe_settings import probe_settings


def test_the_defaults_measure_a_slot_of_a_lab_bench() -> None:
    assert probe_settings().least_samples == 2000


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("driver", "uhd"),
        ("address", "localhost"),
        ("address", "localhost:99999"),
        ("address", ":1234"),
        ("tuner_frequency_hz", 0.0),
        ("tuner_frequency_hz", 5e9),
        ("sample_rate_hz", 100.0),
        ("ppm", 0.5),
        ("mode", "narrow"),
        ("least_samples", 1),
        ("guard_s", 0.0),
        ("clipping_share", 1.0),
        ("noise_floor", "none"),
        ("noise_floor", 3.0),
        ("gain_db", "auto"),
        ("gian_db", 20.0),
    ],
)
def test_what_makes_no_sense_is_refused(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"uhd|Input should|is not HOST|not permitted"):
        probe_settings(**{key: value})


def test_a_tone_outside_the_received_band_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"tone_offset_hz 1.02e\+06"):
        probe_settings(mode="tone", tone_offset_hz=1.02e6)
    probe_settings(mode="wideband", tone_offset_hz=1.02e6)


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:1234", ("127.0.0.1", 1234)), ("[::1]:80", ("::1", 80)), ("pi:1", ("pi", 1))],
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", "host", "host:", "host:x", "::1:80", "h:0", "h:²"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        split_address(address)


def test_a_wrong_address_is_refused_in_plain_words() -> None:
    with pytest.raises(ConfigError, match=r"probe\.rtl_tcp\.address = 'x' \(.*\): 'x' is not"):
        load_config(None, ["probe.address=x"])


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("rtl_tcp://pi.lan:1234", ("rtl_tcp", "address", "pi.lan:1234")),
        ("rtl_tcp://pi.lan", ("rtl_tcp", "address", "pi.lan:1234")),
        ("rtl_tcp://[::1]:9/", ("rtl_tcp", "address", "[::1]:9")),
        ("soapy:driver=rtlsdr", ("soapy", "arguments", "driver=rtlsdr")),
        ("soapy:", ("soapy", "arguments", "")),
    ],
)
def test_the_probe_option(text: str, keys: tuple[str, str, str]) -> None:
    driver, key, value = keys
    assert parse_probe_option(text) == {"probe.driver": driver, f"probe.{driver}.{key}": value}


@pytest.mark.parametrize("text", ["", "rtl_tcp", "rtl_tcp://", "rtl_tcp://h:x", "uhd:", "soapy"])
def test_an_option_of_no_probe_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--probe"):
        parse_probe_option(text)


@pytest.mark.parametrize("text", ["driver=audio", 'driver=x,label="a b"', "path=C:\\dev", "é=😀"])
def test_the_arguments_of_a_soapy_radio_reach_the_config_as_they_are(text: str) -> None:
    given = {"port": None, "stage": None, "probe": f"soapy:{text}", "preset": "paper"}
    config = bench_config_from(Namespace(backend="serial", config=None, set=[], **given))
    assert isinstance(config.probe, SoapySettings)
    assert config.probe.arguments == text
