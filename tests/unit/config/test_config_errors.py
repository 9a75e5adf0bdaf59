"""A config error names the file, the line, the key, and the fix."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from macontrol.config import load_config
from macontrol.config.model.errors import ConfigError
from macontrol.config.model.suggestion import did_you_mean, shortened


def refusal(tmp_path: Path, text: str | bytes) -> str:
    """The error for a file with this text, without its path."""
    file = tmp_path / "bench.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    return str(caught.value).replace(str(file), "FILE")


class TestWhere:
    def test_the_line_of_a_value(self, tmp_path: Path) -> None:
        text = "# a bench\n\n[algorithm]\neta = 1.0\nwindow = 0\n"
        assert refusal(tmp_path, text).startswith("algorithm.window = 0 (FILE, line 5): ")

    def test_the_line_of_a_dotted_key(self, tmp_path: Path) -> None:
        assert "(FILE, line 2)" in refusal(tmp_path, "\nalgorithm . window = 0")

    def test_the_line_of_an_unknown_section(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, "[algoritm]\nbeta = 2").startswith("algoritm (FILE, line 1): ")

    def test_the_line_that_is_not_utf_8(self, tmp_path: Path) -> None:
        assert "line 3 is not UTF-8" in refusal(tmp_path, b"[run]\nseed = 1\n# \xff\n")

    def test_the_line_of_a_contradiction(self, tmp_path: Path) -> None:
        text = "[physical]\nactuation_time_s = 1.0\n"
        assert refusal(tmp_path, text).startswith("physical.actuation_time_s (FILE, line 2): ")

    def test_the_line_of_an_unknown_preset(self, tmp_path: Path) -> None:
        text = refusal(tmp_path, 'preset = "papr"')
        assert text == "FILE, line 1: preset = 'papr': no such preset; did you mean paper?"
        assert refusal(tmp_path, "preset = 3").startswith("FILE, line 1: preset = 3: ")

    def test_a_preset_on_the_command_line_replaces_the_one_in_the_file(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "bench.toml"
        file.write_text('preset = "gone"')
        assert load_config(file, preset="paper") == load_config()

    def test_an_unknown_section_on_the_command_line(self) -> None:
        with pytest.raises(ConfigError) as caught:
            load_config(None, ["algoritm.beta=2"])
        assert caught.value.detail.startswith("algoritm (--set algoritm.beta=2): ")


class TestHints:
    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("[physical]\nbeta = 2", "did you mean algorithm.beta?"),
            ("beta = 2", "did you mean algorithm.beta?"),
            ("[algorithm]\nWindow = 9", "did you mean window?"),
            ("[physical]\nsector_deg = 9", "did you mean kernel.sector_deg or channel.sector_deg?"),
        ],
    )
    def test_a_key_in_the_wrong_place(self, tmp_path: Path, text: str, hint: str) -> None:
        assert hint in refusal(tmp_path, text)

    def test_a_setting_without_its_section(self) -> None:
        with pytest.raises(ConfigError) as caught:
            load_config(None, ["beta=3"])
        assert "algorithm.beta=3" in str(caught.value)

    @pytest.mark.parametrize(
        ("word", "closest"),
        [("--backed", "--backend"), ("virtual_bench", "virtual-bench"), ("Check", "check")],
    )
    def test_the_closest_word(self, word: str, closest: str) -> None:
        known = ["--backend", "virtual-bench", "check", "bench"]
        assert did_you_mean(word, known) == f"did you mean {closest}?"
        assert did_you_mean("zzz", ["a", "b"]) == "known are: a, b"

    def test_a_long_value_is_cut(self) -> None:
        assert len(shortened("x" * 10_000)) == 60
        assert shortened(16**100_000) == "a number of thousands of digits"


class TestHostile:
    @pytest.mark.fault("config-bomb")
    @pytest.mark.parametrize(
        "text",
        [
            ".".join(["a"] * 20_000) + " = 1",
            "[" + ".".join(["a"] * 20_000) + "]",
            "x = {" + ".".join(["a"] * 20_000) + " = 1}",
            ".".join(['"\u2028"'] * 20_000) + " = 1",
        ],
        ids=["key", "table", "inline", "quoted"],
    )
    def test_a_key_of_thousands_of_parts(self, tmp_path: Path, text: str) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert "line 1 has " in refusal(tmp_path, text)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000

    def test_a_comment_may_have_dots(self, tmp_path: Path) -> None:
        file = tmp_path / "bench.toml"
        file.write_text("#" + "." * 500)
        assert load_config(file) == load_config()

    @pytest.mark.fault("config-bomb")
    def test_a_seed_of_thousands_of_digits(self, tmp_path: Path) -> None:
        assert "more than 4300 digits" in refusal(tmp_path, "[run]\nseed = " + "9" * 100_000)
        seed = refusal(tmp_path, "[run]\nseed = 0x" + "f" * 100_000)
        assert seed.startswith("run.seed = a number of thousands of digits (FILE, line 2): ")
        for value in ("9" * 100_000, "0x" + "f" * 100_000):
            with pytest.raises(ConfigError) as caught:
                load_config(None, [f"run.seed={value}"])
            assert str(caught.value).startswith("run.seed = ")
            assert len(str(caught.value)) < 500

    @pytest.mark.parametrize(
        "key", ["stage.port", "probe.soapy.arguments", "probe.rtl_tcp.address"]
    )
    def test_a_nul_in_a_name(self, tmp_path: Path, key: str) -> None:
        section, _, name = key.rpartition(".")
        text = refusal(tmp_path, f'[{section}]\n{name} = "a\\u0000b:1"')
        assert text.startswith(f"{key} = 'a\\x00b:1' (FILE, line 2): ")

    def test_a_file_that_is_too_large(self, tmp_path: Path) -> None:
        file = tmp_path / "bench.toml"
        with file.open("wb") as sparse:
            sparse.truncate(10 << 30)
        with pytest.raises(ConfigError) as caught:
            load_config(file)
        assert str(10 << 30) in str(caught.value)
