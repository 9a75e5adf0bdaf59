"""The emulated instrument: its commands, its sweeps, its faults, and clients of others."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import log10
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from macontrol.cli import main
from macontrol.config import load_config
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.probes.scpi.settings import ScpiSettings
from macontrol.sim.bench.emulated_probe import Site
from macontrol.sim.bench.instrument import IDENTIFICATION, VirtualInstrument
from macontrol.sim.bench.virtual import VirtualBench
from support.waiting import wait_until

CLOCK = WallClock()
NOISE = 1e-4


def made(snr: float = 99.0, quiet_first_s: float = 0.0, **changes: Any) -> VirtualInstrument:
    site = Site(
        lambda _: snr * NOISE, noise_power=NOISE, clock=CLOCK, seed=1, quiet_first_s=quiet_first_s
    )
    return VirtualInstrument(ScpiSettings.model_validate(changes), site)


@pytest.fixture
def instrument() -> Iterator[VirtualInstrument]:
    with made(noise_floor=-60.0) as instrument:
        yield instrument


@contextmanager
def client_of(instrument: VirtualInstrument) -> Iterator[socket.socket]:
    host, port = instrument.address.split(":")
    with socket.create_connection((host, int(port)), timeout=20.0) as client:
        yield client


def resource_of(instrument: VirtualInstrument) -> str:
    host, port = instrument.address.split(":")
    return f"TCPIP::{host}::{port}::SOCKET"


def level_db(answer: str) -> float:
    return 10 * log10(fmean(10 ** (float(text) / 10) for text in answer.split(",")))


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("*IDN?", IDENTIFICATION),
        ("*OPC?", "1"),
        ("SYST:ERR?", '0,"No error"'),
        (":system:error:next?", '0,"No error"'),
        ("INIT:CONT?", "1"),
        ("INIT:CONT OFF;CONT?", "0"),
        ("SENS:SWE:TIME 0.5;TIME?;POIN?", "0.5;101"),
        ("FREQ:CENT 2.4E9;:FREQ:CENT?", "2.4E+09"),
        ("*ESE 1;*ESE?;*OPC;*STB?;*ESR?;*STB?", "1;32;1;0"),
        ("INIT:CONT OFF", ""),
        ("", ""),
    ],
)
def test_commands_have_answers(instrument: VirtualInstrument, line: str, answer: str) -> None:
    assert instrument.execute(line) == answer


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("BAD:CMD", -113),
        ("INITIAT", -113),
        ("*XYZ?", -113),
        ("INIT:IMM", -213),  # it sweeps continuously
        ("SWE:TIME", -109),
        ("SWE:TIME soon", -104),
        ("SWE:TIME -1", -222),
        ("SWE:TIME NaN", -222),
        ("TRAC? TRACE7", -224),
        ("FORM:DATA REAL", -224),
    ],
)
def test_a_wrong_command_is_an_error(instrument: VirtualInstrument, line: str, code: int) -> None:
    assert instrument.execute(line) == ""
    assert instrument.execute("*STB?") == "4"
    assert instrument.execute("SYST:ERR?").startswith(f"{code},")
    assert instrument.execute("SYST:ERR?") == '0,"No error"'


def test_the_queue_of_errors_is_limited(instrument: VirtualInstrument) -> None:
    for _ in range(100):
        instrument.execute("BAD")
    answers = [instrument.execute("SYST:ERR?") for _ in range(31)]
    assert answers[29:] == ['-350,"Queue overflow"', '0,"No error"']
    instrument.execute("BAD;*IDN?")
    instrument.execute("BAD")
    assert instrument.execute("SYST:ERR:ALL?").count("-113") == 2


def test_a_sweep_takes_its_time(instrument: VirtualInstrument) -> None:
    instrument.execute("INIT:CONT OFF;:SWE:TIME 0.1")
    begun_s = time.monotonic()
    assert instrument.execute("INIT:IMM;*OPC?") == "1"
    assert time.monotonic() - begun_s >= 0.1


def test_every_result_has_the_level_of_the_link(instrument: VirtualInstrument) -> None:
    instrument.execute("INIT:CONT OFF;:INIT;*WAI")
    assert level_db(instrument.execute("TRAC? TRACE1")) == pytest.approx(-40.0, abs=0.2)
    assert float(instrument.execute("CALC1:MARK1:Y?")) == pytest.approx(-40.0, abs=3.0)
    numbers = [float(text) for text in instrument.execute("CALC:DATA? SDATA").split(",")]
    powers = [a * a + b * b for a, b in zip(numbers[::2], numbers[1::2], strict=True)]
    assert 10 * log10(fmean(powers)) == pytest.approx(-40.0, abs=0.2)
    instrument.transmitting = False
    assert level_db(instrument.execute("INIT;*OPC?;:TRAC? TRACE1").split(";")[1]) == pytest.approx(
        -60.0, abs=0.2
    )


def test_a_client_comes_while_the_transmitter_is_off() -> None:
    with made(quiet_first_s=10.0) as instrument:
        with client_of(instrument) as client:
            client.sendall(b"TRAC? TRACE1\n")
            answer = client.makefile().readline()
        assert level_db(answer) == pytest.approx(-90.0, abs=0.2)
        instrument._quiet_until_s = 0.0
        assert level_db(instrument.execute("TRAC? TRACE1")) == pytest.approx(-70.0, abs=0.2)


def test_it_stalls_and_drops(instrument: VirtualInstrument) -> None:
    with client_of(instrument) as client:
        instrument.stall(0.3)
        begun_s = time.monotonic()
        client.sendall(b"*IDN?\n")
        assert client.makefile().readline().strip() == IDENTIFICATION
        assert time.monotonic() - begun_s >= 0.25
        instrument.drop()
        assert client.recv(1) == b""
    with client_of(instrument) as client:
        client.sendall(b"*OPC?\n")
        assert client.recv(10) == b"1\n"


def test_a_line_without_an_end_is_bounded(instrument: VirtualInstrument) -> None:
    with client_of(instrument) as client:
        client.sendall(b"x" * 200_000)
        client.sendall(b"\n*CLS\n*IDN?\n")
        assert client.makefile().readline().strip() == IDENTIFICATION


def test_pyvisa_is_a_client(instrument: VirtualInstrument) -> None:
    pyvisa = pytest.importorskip("pyvisa", reason="PyVISA is not installed")
    manager = pyvisa.ResourceManager("@py")
    resource = manager.open_resource(
        resource_of(instrument), read_termination="\n", write_termination="\n"
    )
    try:
        assert resource.query("*IDN?") == IDENTIFICATION
        resource.write("INIT:CONT OFF")
        assert resource.query("INIT:IMM;*OPC?") == "1"
        levels = resource.query_ascii_values("TRAC? TRACE1")
        assert len(levels) == 101
        assert fmean(levels) == pytest.approx(-40.0, abs=0.5)
        resource.write("NO:SUCH 1")
        assert resource.query("SYST:ERR?") == '-113,"Undefined header;NO:SUCH"'
    finally:
        resource.close()
        manager.close()


def test_the_client_of_a_vendor_is_a_client(instrument: VirtualInstrument) -> None:
    vendor = pytest.importorskip("RsInstrument", reason="RsInstrument is not installed")
    client = vendor.RsInstrument(
        resource_of(instrument), id_query=False, options="SelectVisa='socket'"
    )
    try:
        assert client.idn_string == IDENTIFICATION
        client.write("INIT:CONT OFF")
        client.write_with_opc("INIT:IMM", 20_000)  # polls the status byte
        assert len(client.query_bin_or_ascii_float_list("TRAC? TRACE1")) == 101
        assert client.query_float("CALC:MARK:Y?") == pytest.approx(-40.0, abs=3.0)
        with pytest.raises(vendor.StatusException, match="Undefined header"):
            client.write("NO:SUCH 1")
    finally:
        client.close()


def test_the_instrument_is_on_the_bench_of_its_config() -> None:
    config = load_config(None, ["probe.driver=scpi"], preset="lab-2g4-grbl")
    with VirtualBench(config, CLOCK, seed=3) as bench:
        assert isinstance(bench.probe, VirtualInstrument)
        powered = level_db(bench.probe.execute("TRAC? TRACE1"))
        bench.do("mute")
        muted = level_db(bench.probe.execute("TRAC? TRACE1"))
        assert muted == pytest.approx(-90.0, abs=0.2)
        assert powered > -89.0
        with pytest.raises(ValueError, match="this probe has no such fault"):
            bench.do("clip 1")
        with client_of(bench.probe) as client:
            wait_until(lambda: bench.probe.clients == 1)  # type: ignore[attr-defined]
            bench.do("drop")
            assert client.recv(1) == b""


def test_the_command_prints_how_to_use_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nothing = tmp_path / "nothing"
    nothing.touch()
    with nothing.open() as empty:
        monkeypatch.setattr(sys, "stdin", empty)
        words = ["virtual-bench", "--probe", "scpi", "--radio", "127.0.0.1:0"]
        assert main([*words, "--duration", "0.1"]) == 0
    output = capsys.readouterr().out
    assert "instrument on 127.0.0.1:" in output
    assert "--probe scpi://127.0.0.1:" in output
