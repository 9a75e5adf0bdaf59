"""Whatever is set, a config is either refused in words or fit to be used."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from macontrol.config import Config, load_config, preset_names, preset_text
from macontrol.config.model.errors import ConfigError

KEYS = [
    f"{section}.{key}"
    for section, field in Config.model_fields.items()
    for key in getattr(field.annotation, "model_fields", {})
]

numbers = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from([0, 1, -1, 1e-300, 1e300, 5e-324, 1e308, 10**400, 1e15, 1e-15]),
)
values = st.one_of(
    numbers.map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.text(max_size=20),
    st.lists(numbers, max_size=4).map(str),
    st.sampled_from(["auto", "ideal", "{}", "[[1]]", '"', "nan", "-inf"]),
)


@given(assignments=st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=4))
@example(assignments=[("physical.region_length", "1e15"), ("algorithm.grid_spacing", "5e-324")])
@example(assignments=[("physical.carrier_frequency_hz", "5e-324"), ("physical.stroke", "auto")])
@example(assignments=[("run.horizon", str(10**400))])
@example(assignments=[("physical.region_length", "1e-300")])
@settings(max_examples=400)
def test_it_is_refused_in_words_or_fit_to_be_used(assignments: list[tuple[str, str]]) -> None:
    given_ = [f"{key}={value}" for key, value in assignments]
    refusal, config = "", None
    try:
        config = load_config(assignments=given_)
    except ConfigError as error:
        refusal = str(error)
    if config is None:
        assert any(key.split(".")[0] in refusal for key, _ in assignments)
        return
    physical = config.physical
    assert 0 <= physical.x_0 <= physical.region_length
    assert config.algorithm.grid_spacing * (1 - 1e-9) <= physical.rho_max < math.inf
    assert 0 < physical.transmission_share < 1
    assert 2 <= config.grid_size <= 100_001
    assert config.survey.samples <= config.grid_size
    assert 0 < config.g_max < math.inf
    assert 0 <= config.noise_std < math.inf
    assert Config.model_validate(config.model_dump()) == config
    assert Config.model_validate_json(config.model_dump_json()) == config


@given(path=st.text(max_size=15), value=st.text(max_size=15))
@settings(max_examples=150)
def test_no_assignment_brings_it_down(path: str, value: str) -> None:
    with suppress(ConfigError):
        load_config(assignments=[f"{path}={value}"])


@given(
    name=st.sampled_from(preset_names()),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 30), st.binary(max_size=6)), max_size=3
    ),
)
@settings(max_examples=100)
def test_no_edit_of_a_file_brings_it_down(
    tmp_path_factory: pytest.TempPathFactory, name: str, edits: list[tuple[float, int, bytes]]
) -> None:
    """Whatever bytes take the place of others."""
    text = preset_text(name).encode()
    for place, length, new in edits:
        begin = int(place * len(text))
        text = text[:begin] + new + text[begin + length :]
    file = tmp_path_factory.getbasetemp() / "edited.toml"
    file.write_bytes(text)
    with suppress(ConfigError):
        load_config(file)
