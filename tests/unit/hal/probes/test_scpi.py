"""The SCPI probe with an instrument behind a real TCP socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from math import log10
from typing import TypeAlias

import pytest

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import Power
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Measurement
from macontrol.hal.capabilities import HasHealth, HasNoiseFloor, Openable, TakesTime
from macontrol.hal.probes.scpi import probe as probe_module
from macontrol.hal.probes.scpi.commands import command_set
from macontrol.hal.probes.scpi.probe import ScpiProbe
from macontrol.hal.probes.scpi.settings import ScpiSettings, parse_option
from macontrol.hal.probes.scpi.transport import MOST_BYTES
from support.waiting import wait_until

Answer: TypeAlias = Callable[[socket.socket], None] | str
CLOCK = WallClock()


class Instrument:
    """Answers each query with a line, or with what a function of the socket does."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.received: list[str] = []
        self.errors: list[str] = []
        self.clients = 0
        self.answers: dict[str, Answer] = {
            "*IDN?": "Example,SA1,0,1.0",
            "INIT:IMM;*OPC?": "1",
            "TRAC? TRACE1": "-30,-40",
            "CALC:MARK:Y?": "-2.5E+01",
            "CALC:DATA? SDATA": "0.3,0.4,0,0.5",
        }
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.clients += 1
            with client:
                try:
                    self._talk(client)
                except OSError:
                    continue

    def _talk(self, client: socket.socket) -> None:
        lines = client.makefile("r", encoding="ascii", newline="\n")
        for line in lines:
            command = line.strip()
            self.received.append(command)
            answer = self.answers.get(command)
            if command == "SYST:ERR?" and answer is None:
                answer = self.errors.pop(0) if self.errors else '0,"No error"'
            if callable(answer):
                answer(client)
            elif answer is not None:
                client.sendall(answer.encode() + b"\n")
            elif "?" in command:
                self.errors.append('-113,"Undefined header"')


def made(instrument: Instrument, **changes: object) -> ScpiProbe:
    given = {"address": instrument.address, "settling_s": 0.05, "noise_floor": -60.0, **changes}
    return ScpiProbe(ScpiSettings.model_validate(given), CLOCK)


@contextmanager
def switched_on() -> Iterator[Instrument]:
    instrument = Instrument()
    try:
        yield instrument
    finally:
        instrument.close()


@contextmanager
def opened(**changes: object) -> Iterator[tuple[Instrument, ScpiProbe]]:
    with switched_on() as instrument:
        probe = made(instrument, **changes)
        try:
            probe.open()
            yield instrument, probe
        finally:
            probe.close()


def measure(probe: ScpiProbe, slot: int = 1, seconds: float = 0.3) -> Measurement:
    now = time.monotonic()
    probe.request(slot, now, now + seconds)
    until, found = now + 10.0, list[Measurement]()
    while not found and time.monotonic() < until:
        found += probe.collect(time.monotonic() + 0.2)
    (measurement,) = found
    assert measurement.slot == slot
    return measurement


def level_of(measurement: Measurement) -> float:
    assert isinstance(measurement.value, Power), measurement
    return 10 * log10(measurement.value.power)


def after(seconds: float, text: str) -> Answer:
    def answer(client: socket.socket) -> None:
        time.sleep(seconds)
        client.sendall(text.encode() + b"\n")

    return answer


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({}, 10 * log10((1e-3 + 1e-4) / 2)),
        ({"commands": "marker"}, -25.0),
        ({"commands": "s21"}, 10 * log10(0.25)),
        ({"commands": "custom", "read": "CALC:MARK:Y?"}, -25.0),
        ({"commands": "custom", "read": "CALC:DATA? SDATA", "unit": "linear"}, 10 * log10(0.3)),
    ],
)
def test_the_level_is_the_linear_mean(changes: dict[str, str], level: float) -> None:
    with opened(**changes) as (_, probe):
        measurement = measure(probe)
        assert level_of(measurement) == pytest.approx(level)
        assert isinstance(measurement.value, Power)
        assert measurement.value.noise == pytest.approx(1e-6)
        assert measurement.value.sigma_db >= 0.1
        assert measurement.above_floor > 1


def test_the_capabilities_of_the_probe() -> None:
    with opened() as (_, probe):
        for capability in (Openable, HasHealth, HasNoiseFloor, TakesTime):
            assert isinstance(probe, capability)
        assert probe.identification == "Example,SA1,0,1.0"
        assert 0 < probe.measuring_time_s < 5.0


def test_the_unit_of_the_noise_floor_is_that_of_the_result() -> None:
    with opened(commands="s21", noise_floor="measure", noise_floor_s=0.1) as (_, probe):
        floor = probe.measure_noise_floor()
        assert str(floor) == "-6.0 dB"


def test_it_is_set_up_and_checked_for_errors() -> None:
    given = {"frequency_hz": 2.4e9, "bandwidth_hz": 1e5, "sweep_s": 0.02, "setup": ["DISP OFF"]}
    with opened(**given) as (instrument, _):
        wanted = ["*CLS", "*IDN?", "INIT:CONT OFF", "FORM:DATA ASC", "FREQ:SPAN 0", "UNIT:POW DBM"]
        wanted += ["FREQ:CENT 2400000000", "BAND 100000", "SWE:TIME 0.02", "DISP OFF"]
        wanted += 2 * ["INIT:IMM;*OPC?", "TRAC? TRACE1"]
        assert [line for line in instrument.received if line != "SYST:ERR?"] == wanted


@pytest.mark.fault("instrument-refuses")
def test_a_refused_set_up_is_an_error_with_the_instruments_text() -> None:
    with switched_on() as instrument:
        probe = made(instrument, setup=["NO:SUCH"])
        texts = count()
        instrument.answers["SYST:ERR?"] = lambda client: client.sendall(
            b'-113,"Undefined header;NO:SUCH"\n' if next(texts) == 5 else b'0,"No error"\n'
        )
        with pytest.raises(ProbeError, match=r"after NO:SUCH .*-113,\"Undefined header") as refusal:
            probe.open()
        assert refusal.value.fix
        with pytest.raises(ProbeError):
            probe.request(1, 0.0, 1.0)
        probe.close()


def test_the_noise_floor_is_the_mean_of_several_sweeps() -> None:
    levels = count()
    with opened(noise_floor="measure", noise_floor_s=0.3) as (instrument, probe):
        assert measure(probe).reason == "no-noise-floor"
        instrument.answers["TRAC? TRACE1"] = lambda client: client.sendall(
            b"-58\n" if next(levels) % 2 else b"-62\n"
        )
        floor = probe.measure_noise_floor()
        assert floor.dbfs == pytest.approx(10 * log10((10**-5.8 + 10**-6.2) / 2), abs=0.3)
        assert floor.unit == "dBm"
        instrument.answers["TRAC? TRACE1"] = "-60"
        assert measure(probe, 2).reason == "no-signal"
        instrument.answers["TRAC? TRACE1"] = "-30"
        assert measure(probe, 3).reason == ""
        with pytest.raises(ProbeError, match="not plausible"):
            probe.measure_noise_floor()


def test_slots_during_the_noise_floor_have_that_reason() -> None:
    with opened(noise_floor_s=2.0) as (instrument, probe):
        instrument.answers["INIT:IMM;*OPC?"] = after(0.02, "1")
        floor = threading.Thread(target=probe.measure_noise_floor)
        instrument.answers["TRAC? TRACE1"] = "-60"
        floor.start()
        wait_until(lambda: probe._floor_interval_s[1] > CLOCK.now())
        slots = count(1)
        try:  # on a busy machine a measurement can be too late, and then says so
            wait_until(lambda: measure(probe, next(slots), 0.1).reason == "noise-floor")
        finally:
            floor.join()


@pytest.mark.parametrize(
    "text", ["9.91E37", "9.9E37", "NaN", "inf", "hello", "", "1e400", "-30,,-30", "#3123abc", "5e3"]
)
def test_a_result_that_is_not_a_number_has_a_reason(text: str) -> None:
    with opened() as (instrument, probe):
        instrument.answers["TRAC? TRACE1"] = text
        measurement = measure(probe)
        assert (measurement.value, measurement.reason) == (None, "not-a-number")
        instrument.answers["TRAC? TRACE1"] = "-30"
        assert measure(probe, 2).valid


def test_an_odd_number_of_parts_is_not_a_number() -> None:
    with opened(commands="s21") as (instrument, probe):
        instrument.answers["CALC:DATA? SDATA"] = "1,2,3"
        assert measure(probe).reason == "not-a-number"


@pytest.mark.fault("instrument-late")
def test_a_late_sweep_is_stale_at_once_and_never_another_slots() -> None:
    with opened() as (instrument, probe):
        instrument.answers["INIT:IMM;*OPC?"] = after(0.6, "1")
        begun_s = time.monotonic()
        assert measure(probe, 1, 0.2).reason == "stale"
        assert time.monotonic() - begun_s < 0.55
        instrument.answers["INIT:IMM;*OPC?"] = "1"
        instrument.answers["TRAC? TRACE1"] = "-20"
        wait_until(lambda: not probe.health().fault and measure(probe, 2).valid)
        assert level_of(measure(probe, 3)) == pytest.approx(-20.0)
        assert instrument.clients == 1


@pytest.mark.fault("instrument-late")
def test_a_late_result_is_thrown_away() -> None:
    with opened() as (instrument, probe):
        instrument.answers["TRAC? TRACE1"] = after(0.6, "-10")
        assert measure(probe, 1, 0.2).reason == "stale"
        instrument.answers["TRAC? TRACE1"] = "-20"
        wait_until(lambda: measure(probe, 2).valid)
        assert level_of(measure(probe, 3)) == pytest.approx(-20.0)
        assert instrument.clients == 1


@pytest.mark.fault("instrument-silent")
def test_silence_is_stale_then_a_fault_then_a_new_connection() -> None:
    with opened(stale_s=0.2) as (instrument, probe):
        instrument.answers["INIT:IMM;*OPC?"] = lambda client: None
        assert measure(probe, 1, 0.2).reason == "stale"
        wait_until(lambda: bool(probe.health().fault))
        with pytest.raises(ProbeError, match=r"\*OPC\?"):
            probe.request(2, 0.0, 1.0)
        instrument.answers["INIT:IMM;*OPC?"] = "1"
        probe._stop.wait(0.1)
        wait_until(lambda: not probe.health().fault, 90)
        time.sleep(0.1)
        assert measure(probe, 3).valid
        assert probe.health().reopened >= 1


@pytest.mark.fault("instrument-answers-shifted")
def test_an_unsolicited_answer_never_becomes_a_value() -> None:
    with opened() as (instrument, probe):
        instrument.answers["INIT:IMM;*OPC?"] = lambda client: client.sendall(b"1\n-1\n")
        instrument.answers["TRAC? TRACE1"] = after(0.05, "-30")
        first = measure(probe, 1)
        # The probe discards it before the query, or notices that the answers are shifted.
        assert first.reason == "stale" or level_of(first) == pytest.approx(-30.0)


@pytest.mark.fault("instrument-answers-shifted")
def test_shifted_answers_are_a_fault() -> None:
    with opened() as (instrument, probe):
        # The result arrives as the answer to *OPC?; an extra 1 comes before it.
        instrument.answers["TRAC? TRACE1"] = lambda client: client.sendall(b"1\n")
        instrument.answers["SYST:ERR?"] = "-30,-40"
        assert measure(probe).reason == "stale"
        assert "SYST:ERR?" in probe.health().fault


@pytest.mark.fault("arbitrary-instrument-bytes")
def test_an_error_with_a_number_of_thousands_of_digits_is_a_fault() -> None:
    with opened() as (instrument, probe):
        instrument.answers["SYST:ERR?"] = "9" * 5000 + ',"No error"'
        assert measure(probe).reason == "stale"
        assert "SYST:ERR?" in probe.health().fault


@pytest.mark.fault("instrument-error")
def test_an_error_of_a_sweep_is_a_fault_with_the_instruments_text() -> None:
    with opened() as (instrument, probe):
        instrument.errors = ['-230,"Data corrupt or stale"']
        assert measure(probe).reason == "stale"
        assert "Data corrupt" in probe.health().fault
        wait_until(lambda: not probe.health().fault)
        time.sleep(0.1)
        assert measure(probe, 2).valid


def close_in_the_middle(client: socket.socket) -> None:
    client.sendall(b"-30,-3")
    client.shutdown(socket.SHUT_RDWR)


@pytest.mark.fault("instrument-lost")
def test_a_closed_connection_is_a_fault_until_it_is_back() -> None:
    with opened() as (instrument, probe):
        instrument.answers["TRAC? TRACE1"] = close_in_the_middle
        assert measure(probe).reason == "stale"
        assert "closed the connection" in probe.health().fault
        instrument.answers["TRAC? TRACE1"] = "-30"
        wait_until(lambda: not probe.health().fault)
        time.sleep(0.1)
        assert level_of(measure(probe, 2)) == pytest.approx(-30.0)


def flood(client: socket.socket) -> None:
    """Megabytes without the end of a line."""
    for _ in range(3 * MOST_BYTES >> 16):
        client.sendall(b"1" * (1 << 16))


def drip(client: socket.socket) -> None:
    """A byte of a number every 10 ms, for a long time."""
    for _ in range(300):
        time.sleep(0.01)
        client.sendall(b"1")


@pytest.mark.fault("arbitrary-instrument-bytes")
@pytest.mark.parametrize("hostile", [flood, drip])
@pytest.mark.parametrize("query", ["INIT:IMM;*OPC?", "TRAC? TRACE1", "SYST:ERR?"])
def test_endless_answers_end_in_a_fault(hostile: Answer, query: str) -> None:
    with opened(stale_s=0.2) as (instrument, probe):
        instrument.answers[query] = hostile
        assert measure(probe).reason == "stale"
        wait_until(lambda: bool(probe.health().fault), 20)
        begun_s = time.monotonic()
        probe.close()
        assert time.monotonic() - begun_s < 5.0


def lines(client: socket.socket) -> None:
    """Many answers to one query."""
    for _ in range(400):
        client.sendall(b"-30\n" * 10_000)


@pytest.mark.fault("arbitrary-instrument-bytes")
def test_a_flood_that_nobody_requested_is_a_fault() -> None:
    with opened() as (instrument, probe):
        instrument.answers["TRAC? TRACE1"] = lines
        wait_until(lambda: measure_or_none(probe) is None)


def measure_or_none(probe: ScpiProbe) -> Measurement | None:
    try:
        return measure(probe)
    except ProbeError:
        return None


@pytest.mark.fault("instrument-unreachable")
def test_an_instrument_that_does_not_listen_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    probe = ScpiProbe(ScpiSettings(address=address), CLOCK)
    with pytest.raises(ProbeError, match="no instrument listens") as refusal:
        probe.open()
    assert "--probe" in refusal.value.fix
    probe.close()


@pytest.mark.fault("instrument-unreachable")
def test_a_server_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "_ANSWER_S", 0.3)
    with switched_on() as instrument:
        instrument.answers["*IDN?"] = lambda client: None
        probe = made(instrument)
        with pytest.raises(ProbeError, match=r"no answer to \*IDN\?") as refusal:
            probe.open()
        assert "SCPI port" in refusal.value.fix
        probe.close()


@pytest.mark.fault("instrument-unreachable")
def test_a_silent_server_can_be_closed_while_it_is_opened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        probe = ScpiProbe(ScpiSettings(address=address), CLOCK)
        threading.Timer(0.2, probe.close).start()
        begun_s = time.monotonic()
        with pytest.raises(ProbeError):
            probe.open()
        assert time.monotonic() - begun_s < 4.0


def test_the_option_names_an_address_or_a_resource() -> None:
    assert parse_option("scpi://sa.lab") == {"address": "sa.lab:5025", "resource": ""}
    assert parse_option("scpi://[::1]:5026/") == {"address": "[::1]:5026", "resource": ""}
    assert parse_option("visa://GPIB0::20::INSTR") == {"resource": "GPIB0::20::INSTR"}
    assert parse_option("rtl_tcp://x") is None
    for wrong in ("scpi://", "scpi://a:b", "visa://"):
        with pytest.raises(ValueError, match="as in"):
            parse_option(wrong)


@pytest.mark.parametrize(
    "changes",
    [
        {"commands": "custom"},
        {"commands": "custom", "read": "A?;B?"},
        {"read": "A?"},
        {"unit": "dB"},
        {"trigger": "READ?"},
        {"setup": ["*IDN?"]},
        {"address": "nowhere"},
        {"setup": ["SWE:TIME 20 µs"]},
    ],
)
def test_contradictory_settings_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"query|effect|HOST:PORT|character"):
        ScpiSettings.model_validate(changes)


def test_a_marker_is_placed_at_the_frequency() -> None:
    settings = ScpiSettings.model_validate({"commands": "marker", "frequency_hz": 1.5e9})
    assert "CALC:MARK:X 1500000000" in command_set(settings).setup
