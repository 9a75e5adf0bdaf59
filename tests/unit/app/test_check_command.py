"""`macontrol check` without a bench."""

from __future__ import annotations

import pytest

from macontrol.cli import main
from macontrol.commands import check


class TestWithoutABench:
    def test_it_tells_what_follows(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["check"]) == 0
        output = capsys.readouterr().out
        assert "slots per traversal" in output
        assert "fits the slot" in output

    def test_a_decision_that_does_not_fit_is_a_wrong_config(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(check, "_HEADROOM", 1e9)
        assert main(["check"]) == 78
        assert "one decision takes longer" in capsys.readouterr().err

    def test_with_a_bench_that_is_one_line_of_many(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(check, "_HEADROOM", 1e9)
        words = ["--backend", "serial", "--port", "/dev/none", "--probe", "rtl_tcp://127.0.0.1:9"]
        assert main(["check", *words]) == 69
        output = capsys.readouterr().out
        assert "FAIL  decision     algorithm: one decision takes longer" in output
        assert "3 of the above must be fixed" in output

    @pytest.mark.parametrize(
        ("lo", "tuner_hz"), [("none", 2399.75e6), ("2379.75e6", 20e6)], ids=["above", "below"]
    )
    def test_a_frequency_beyond_every_rtl_sdr_is_refused(
        self, lo: str, tuner_hz: float, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["check", "--preset", "lab-2g4-grbl", "--set", f"probe.converter_lo_hz={lo}"]
        words += ["--set", f"probe.tuner_frequency_hz={tuner_hz}"]
        assert main(words) == 78
        assert "22 MHz to 2200 MHz" in capsys.readouterr().err
        assert main([*words, "--set", "probe.driver=soapy"]) == 0, "another radio may receive it"
