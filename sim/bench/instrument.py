"""An emulated instrument: a SCPI server on a TCP socket, with a spectrum and an S21 trace.

It receives noise and the link, as the emulated radio does. A sweep takes its time, and a point of a
trace has the power at its own moment. `sim.bench.scpi_syntax` parses the commands. Faults can be
injected: it stalls, and answers late then, or disconnects; and the transmitter can be switched off.
"""

from __future__ import annotations

import socket
from collections import deque
from math import inf, log10, pi

import numpy as np
import numpy.typing as npt

from macontrol.config import Config
from macontrol.config.model.units import from_db
from macontrol.config.sections.probe import ProbeSettings
from macontrol.sim.bench.emulated_probe import POLL_INTERVAL_S, EmulatedServer, Site
from macontrol.sim.bench.scpi_syntax import ScpiError, Table, parameters_of, units_of

IDENTIFICATION = "macontrol,Virtual Instrument,0,1.0"
_FLOOR_DB = -90.0
_SWEEP_S = 0.01
_POINTS = 101
# The standard deviation of the power of a point, relative to the power.
_NOISE = 0.1
_LONGEST_LINE = 1 << 16
_MOST_ERRORS = 30


class VirtualInstrument(EmulatedServer):
    """An instrument whose noise floor is the config's, or -90 dBm (-90 dB for S21)."""

    def __init__(self, settings: ProbeSettings, site: Site) -> None:
        super().__init__(site, "virtual-instrument")
        given = settings.noise_floor
        self.floor_db = _FLOOR_DB if given == "measure" else given
        self._rng = np.random.default_rng(site.seed)
        self._errors: deque[str] = deque()
        self._table = _commands(self)
        self.reset()

    def _serve_client(self, client: socket.socket) -> None:
        received = b""
        while not self._is_ended:
            try:
                data = client.recv(4096)
            except TimeoutError:
                continue
            if not data:
                return
            *lines, received = (received + data).split(b"\n")
            if len(received) > _LONGEST_LINE:
                received = b""
                self.report(-363, "Input buffer overrun")
            for line in lines:
                if answer := self.execute(line.decode("ascii", "replace").strip()):
                    self._pause_until(self._stalled_until_s)
                    client.settimeout(5.0)
                    client.sendall(answer.encode() + b"\n")
                    client.settimeout(POLL_INTERVAL_S)

    def _pause_until(self, moment_s: float) -> None:
        while (left_s := moment_s - self._clock.now()) > 0 and not self._dropped:
            if self._stop.wait(min(left_s, POLL_INTERVAL_S)):
                return

    def execute(self, line: str) -> str:
        """Execute a line; return its answers, separated by semicolons."""
        answers = []
        for header, rest in units_of(line):
            try:
                function = self._table.function(header)
                answer = function(parameters_of(rest))
            except ScpiError as error:
                self.report(error.code, f"{error.text};{header}")
                break  # IEEE 488.2: the rest of the line is discarded
            if answer is not None:
                answers.append(answer)
        return ";".join(answers)

    # What commands do

    def reset(self) -> None:
        """*RST."""
        self.numbers = {
            "FREQ:CENT": 1e9,
            "FREQ:SPAN": 0.0,
            "BAND": 1e5,
            "SWE:TIME": _SWEEP_S,
            "SWE:POIN": float(_POINTS),
            "CALC:MARK:X": 1e9,
        }
        self.continuous = True
        self.enabled_events = 0
        """*ESE: the events that set bit 5 of the status byte."""
        self._events = 0
        self._awaits_completion = False
        self._trace: npt.NDArray[np.float64] = np.empty(0)
        self._begun_s = inf

    def report(self, code: int, text: str) -> None:
        """Add an error to the queue."""
        if len(self._errors) < _MOST_ERRORS:
            self._errors.append(f'{code},"{text}"')
        else:
            self._errors[-1] = '-350,"Queue overflow"'

    def next_error(self) -> str:
        return self._errors.popleft() if self._errors else '0,"No error"'

    @property
    def has_errors(self) -> bool:
        return bool(self._errors)

    def clear(self) -> None:
        """*CLS."""
        self._errors.clear()
        self._events, self._awaits_completion = 0, False

    def await_completion(self) -> None:
        """*OPC: set bit 0 of the events when the sweep is complete."""
        self._awaits_completion = True

    def status(self) -> int:
        """*STB?: errors are bit 2, enabled events are bit 5."""
        return 4 * bool(self._errors) + 32 * bool(self._new_events() & self.enabled_events)

    def take_events(self) -> int:
        """*ESR?, which clears them."""
        events, self._events = self._new_events(), 0
        return events

    def _new_events(self) -> int:
        is_over = self._clock.now() >= self._begun_s + self.numbers["SWE:TIME"]
        if self._awaits_completion and (self._begun_s == inf or is_over):
            self.complete()
            self._awaits_completion = False
            self._events |= 1
        return self._events

    def begin(self) -> None:
        """INIT:IMM: a sweep begins now."""
        if self.continuous:
            raise ScpiError(-213, "Init ignored")
        self._begun_s = self._clock.now()

    def complete(self) -> None:
        """Wait until the sweep is complete: an overlapped command ends here."""
        if self._begun_s == inf:
            return
        begun_s, self._begun_s = self._begun_s, inf
        self._pause_until(begun_s + self.numbers["SWE:TIME"])
        self._trace = self.powers(begun_s)

    def powers(self, begun_s: float) -> npt.NDArray[np.float64]:
        """The powers of a sweep; 1 is 0 dBm, or 0 dB."""
        points, floor = round(self.numbers["SWE:POIN"]), from_db(self.floor_db)
        moments = begun_s + self.numbers["SWE:TIME"] * np.arange(points) / points
        snr = np.array([self._received(moment) for moment in moments]) / self._site.noise_power
        noise = 1.0 + _NOISE * self._rng.standard_normal(points)
        return floor * (1.0 + snr) * np.maximum(noise, 0.1)

    def trace(self) -> npt.NDArray[np.float64]:
        """The powers of the last sweep; without INIT:CONT OFF, of one that ends now."""
        self.complete()
        if self.continuous or not len(self._trace):
            self._trace = self.powers(self._clock.now() - self.numbers["SWE:TIME"])
        return self._trace

    def trace_data(self) -> str:
        return ",".join(f"{10.0 * log10(power):.4f}" for power in self.trace())

    def marker(self) -> str:
        """The level in the middle of the trace."""
        trace = self.trace()
        return f"{10.0 * log10(trace[len(trace) // 2]):.4f}"

    def s21(self) -> str:
        powers = self.trace()
        values = np.sqrt(powers) * np.exp(1j * self._rng.uniform(0, 2 * pi, len(powers)))
        return ",".join(f"{z.real:.6E},{z.imag:.6E}" for z in values)


_NUMBERS = {
    "FREQ:CENT": ("[SENSe:]FREQuency:CENTer", 0.0, 1e12),
    "FREQ:SPAN": ("[SENSe:]FREQuency:SPAN", 0.0, 1e12),
    "BAND": ("[SENSe:]BANDwidth[:RESolution]", 1.0, 1e9),
    "SWE:TIME": ("[SENSe:]SWEep:TIME", 1e-6, 1e4),
    "SWE:POIN": ("[SENSe:]SWEep:POINts", 1.0, 100_001.0),
    "CALC:MARK:X": ("CALCulate:MARKer:X", 0.0, 1e12),
}
"""The settings that are numbers: the pattern of the command, and the limits."""


def _commands(instrument: VirtualInstrument) -> Table:
    """The commands of the instrument; a parameter that does not fit raises ScpiError."""
    table = Table()

    def enable_events(given: list[str]) -> None:
        instrument.enabled_events = round(table.number(given, 0, 255))

    def operation_complete(_: list[str]) -> str:
        instrument.complete()
        return "1"

    def set_continuous(given: list[str]) -> None:
        table.require(given, "ON", "OFF", "1", "0")
        instrument.continuous = given[0].upper() in ("ON", "1")

    def all_errors(_: list[str]) -> str:
        found = [instrument.next_error()]
        while instrument.has_errors:
            found.append(instrument.next_error())
        return ",".join(found)

    table.add("*IDN?", lambda _: IDENTIFICATION)
    table.add("*OPT?", lambda _: "0")
    table.add("*TST?", lambda _: "0")
    table.add("*RST", lambda _: instrument.reset())
    table.add("*CLS", lambda _: instrument.clear())
    table.add("*OPC?", operation_complete)
    table.add("*OPC", lambda _: instrument.await_completion())
    table.add("*WAI", lambda _: instrument.complete())
    table.add("*STB?", lambda _: str(instrument.status()))
    table.add("*ESR?", lambda _: str(instrument.take_events()))
    table.add("*ESE", enable_events)
    table.add("*ESE?", lambda _: str(instrument.enabled_events))
    table.add("*SRE", lambda _: None)
    table.add("SYSTem:ERRor[:NEXT]?", lambda _: instrument.next_error())
    table.add("SYSTem:ERRor:ALL?", all_errors)
    table.add("INITiate[:IMMediate]", lambda _: instrument.begin())
    table.add("INITiate:CONTinuous", set_continuous)
    table.add("INITiate:CONTinuous?", lambda _: "1" if instrument.continuous else "0")
    table.add("FORMat[:DATA]", lambda given: table.require(given, "ASC", "ASCII", "ASCII,0"))
    table.add("UNIT:POWer", lambda given: table.require(given, "DBM"))
    table.add("CALCulate:MARKer[:STATe]", lambda given: table.require(given, "ON", "1"))
    table.add("CALCulate:MARKer:Y?", lambda _: instrument.marker())
    table.add(
        "TRACe[:DATA]?",
        lambda given: (table.require(given, "TRACE1"), instrument.trace_data())[1],
    )
    table.add(
        "CALCulate:DATA?",
        lambda given: (table.require(given, "SDATA", "SDAT"), instrument.s21())[1],
    )
    for name in _NUMBERS:
        _add_number(table, instrument, name)
    return table


def _add_number(table: Table, instrument: VirtualInstrument, name: str) -> None:
    pattern, lowest, highest = _NUMBERS[name]

    def set_number(given: list[str]) -> None:
        instrument.numbers[name] = table.number(given, lowest, highest)

    table.add(pattern, set_number)
    table.add(f"{pattern}?", lambda _: f"{instrument.numbers[name]:.9G}")


def instrument_server(config: Config, site: Site) -> VirtualInstrument:
    """The emulator of the probe `scpi`."""
    return VirtualInstrument(config.probe, site)
