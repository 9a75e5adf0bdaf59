"""`macontrol check` without a bench, and the diagnosis of a GRBL board."""

from __future__ import annotations

import pytest

from macontrol.cli import main
from macontrol.commands import check
from macontrol.hal.stages.grbl.diagnostics import GrblCheckup
from support.scripted_grbl import BANNER, BUILD, LOCKED, SETTINGS, status
from support.scripted_stage import stage_settings


def checkup_of(*lines: bytes, sent: bytes = b"") -> GrblCheckup:
    checkup = GrblCheckup()
    if sent:
        checkup.log(">", sent)
    for line in lines:
        checkup.log("<", line + b"\r\n")
    return checkup


class TestWithoutABench:
    def test_it_prints_what_follows_from_the_config(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["check"]) == 0
        output = capsys.readouterr().out
        assert "slots per traversal" in output
        assert "fits the slot" in output

    def test_a_decision_that_does_not_fit_is_a_config_error(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(check, "_HEADROOM", 1e9)
        assert main(["check"]) == 78
        assert "one decision takes longer" in capsys.readouterr().err

    def test_with_a_bench_that_is_one_of_its_failures(
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


class TestDiagnosis:
    def test_a_good_board(self) -> None:
        checkup = checkup_of(BANNER, LOCKED, status("Alarm"), *BUILD, *SETTINGS)
        assert checkup.board == "Grbl 1.1h.20190830"
        assert checkup.state == "locked until it is homed"
        assert checkup.trouble(stage_settings()) is None

    def test_an_alarm_is_reported_even_if_a_reset_clears_it(self) -> None:
        checkup = checkup_of(b"ALARM:9", BANNER, status("Alarm"))
        trouble = checkup.trouble(stage_settings())
        assert trouble is not None
        assert "ALARM:9, homing failed: no limit switch" in trouble.detail

    def test_a_closed_switch_of_another_axis_is_ignored(self) -> None:
        checkup = checkup_of(status("Idle", more="|Pn:YZ"))
        assert checkup.trouble(stage_settings()) is None
        trouble = checkup.trouble(stage_settings(axis="Y"))
        assert trouble is not None
        assert "the Y limit switch is closed" in trouble.detail

    def test_a_board_that_answers_only_after_a_reset(self) -> None:
        checkup = GrblCheckup()
        for byte in (b"?", b"\x18"):
            checkup.log(">", byte)
        checkup.log("<", BANNER + b"\r\n" + status("Alarm") + b"\r\n")
        trouble = checkup.trouble(stage_settings())
        assert trouble is not None
        assert "only after a reset" in trouble.detail

    def test_another_reset_is_no_trouble(self) -> None:
        checkup = checkup_of(status("Idle"), sent=b"?")
        checkup.log(">", b"\x18")
        assert checkup.trouble(stage_settings()) is None
        assert checkup.state == "idle"

    def test_a_silent_board(self) -> None:
        checkup = checkup_of()
        assert checkup.board == ""
        assert checkup.state == "unknown"
        assert checkup.advice(stage_settings()) == ()

    def test_advice_about_settings_that_are_refused(self) -> None:
        (first, *_) = checkup_of(BANNER, *BUILD, b"$1=25", b"$22=0").advice(stage_settings())
        assert first.fix == "set $1=255"
