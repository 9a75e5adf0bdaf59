"""An emulated radio: an `rtl_tcp` server that sends the samples of a simulated link.

It sends unsigned 8-bit IQ in real time: a tone whose power is a function of time, and noise. It
serves one client at a time, by default in blocks of the size of Debian's server. Faults can be
injected: it stalls and sends late then, loses samples, disconnects, clips, keeps clients waiting,
or sends a wrong header; and the transmitter can be switched off or detuned.

The function is called in order for the power of each past millisecond, normally about 4 ms back,
and further back while the client does not read.
"""

from __future__ import annotations

import select
import socket
import struct
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from macontrol.config import Config
from macontrol.config.checks.rf_plan import received_hz
from macontrol.config.model.units import amplitude_from_db
from macontrol.sim.bench.emulated_probe import POLL_INTERVAL_S, EmulatedServer, Site

REFERENCE_GAIN_DB = 20.0
"""The gain at which a client sees the given powers."""

_HEADER = struct.pack(">4sII", b"RTL0", 5, 29)  # an R820T
_COMMAND = struct.Struct(">BI")
_TONE_TABLE = 4096
_NOISE_POOL = 1 << 18
_STEP_S = 1e-3
_PIECE_S = 4e-3
# Enough that the noise alone clips.
_OVERDRIVE = 1000.0
_ROUNDING_POWER = 2 / 12 / 127.5**2
"""The noise of rounding to bytes: a twelfth of a squared level, in I and in Q."""


@dataclass(slots=True)
class Tuning:
    """The settings of the client."""

    frequency_hz: float = 100e6
    sample_rate_hz: float = 2_048_000.0
    gain_db: float = REFERENCE_GAIN_DB
    manual_gain: bool = False
    agc: bool = False
    ppm: int = 0


class VirtualRadio(EmulatedServer):
    """An `rtl_tcp` server. Powers are mean |z|²; full scale is 1."""

    def __init__(self, site: Site, *, carrier_hz: float | None = None, rest_s: float = 0.0) -> None:
        """Without a carrier the tone is an eighth of the sample rate above the tuned frequency.

        The noise power is what a client sees at the reference gain; it includes the noise of
        rounding to bytes. After a client, the next one waits `rest_s` (Debian's server: 5 s).
        """
        super().__init__(site, "virtual-radio")
        self._noise_amplitude = np.float32(max(site.noise_power - _ROUNDING_POWER, 0.0) ** 0.5)
        self._carrier_hz = carrier_hz
        self._detuned_hz = 0.0
        self._block = max(1, site.block_bytes // 2)
        self._rest_s = rest_s
        self._rng = np.random.default_rng(site.seed)
        pool = self._rng.standard_normal((_NOISE_POOL, 2), np.float32) * np.float32(0.5**0.5)
        self._noise = pool.view(np.complex64)[:, 0]
        # The pool is used many times: its mean power must be exact.
        self._noise /= np.sqrt(np.mean(np.square(np.abs(self._noise))))
        self._tone_table = 0, np.empty(0, np.complex64)
        self._clipped_until_s = 0.0
        self._lost_s = 0.0
        self.header = _HEADER
        """The first bytes that a client gets."""
        self.tuning = Tuning()

    # Faults

    def lose(self, seconds: float) -> None:
        """Lose samples of this duration, as a dongle on a busy bus does."""
        self._lost_s += seconds

    def clip(self, seconds: float) -> None:
        """Make the samples of the coming seconds clip."""
        self._clipped_until_s = self._clock.now() + seconds

    def detune(self, hertz: float) -> None:
        """Shift the frequency of the transmitter, as a drifting oscillator does."""
        self._detuned_hz = hertz

    # The server

    def _serve_client(self, client: socket.socket) -> None:
        client.sendall(self.header)
        now = self._clock.now
        unparsed = b""
        rate, epoch, count, made = self.tuning.sample_rate_hz, now(), 0, 0
        block = np.empty((self._block, 2), np.uint8)
        while not self._is_ended:
            if rate != self.tuning.sample_rate_hz:
                rate, epoch, count, made = self.tuning.sample_rate_hz, now(), 0, 0
            if made == 0:
                epoch, self._lost_s = epoch + self._lost_s, 0.0
            # Compute a block piece by piece as time passes, so that it is ready when it is due.
            piece = min(self._block - made, max(1, int(_PIECE_S * rate)))
            begin = epoch + (count + made) / rate
            due = begin + piece / rate
            if made == self._block:
                due = max(epoch + (count + made) / rate, self._stalled_until_s)
            wait = min(max(0.0, due - now()), POLL_INTERVAL_S)
            if select.select([client], [], [], wait)[0]:
                more = client.recv(4096)
                if not more:
                    return
                unparsed = self._execute(unparsed + more)
            elif now() >= due and made < self._block:
                block[made : made + piece] = self.samples(begin, piece, count + made)
                made += piece
            elif now() >= due:
                self._send(client, block)
                count, made = count + made, 0

    def _send(self, client: socket.socket, block: npt.NDArray[np.uint8]) -> None:
        left = memoryview(block.tobytes())
        while left and not self._is_ended:
            try:
                left = left[client.send(left) :]
            except TimeoutError:
                continue

    def _execute(self, data: bytes) -> bytes:
        """Execute complete commands; return the remaining bytes."""
        tuning = self.tuning
        while len(data) >= _COMMAND.size:
            command, value = _COMMAND.unpack_from(data)
            data = data[_COMMAND.size :]
            signed = value - (1 << 32) if value >> 31 else value
            match command:
                case 0x01:
                    tuning.frequency_hz = float(value)
                case 0x02 if 225_000 < value <= 3_200_000:  # other rates are ignored
                    tuning.sample_rate_hz = float(value)
                case 0x03:
                    tuning.manual_gain = value == 1
                case 0x04:
                    tuning.gain_db = signed / 10
                case 0x05:
                    tuning.ppm = signed
                case 0x08:
                    tuning.agc = value != 0
        return data

    def samples(self, begin_s: float, count: int, index: int = 0) -> npt.NDArray[np.uint8]:
        """The samples from a moment on, as rows of I and Q bytes; `index` gives the phase."""
        rate = self.tuning.sample_rate_hz
        gain = amplitude_from_db(self.tuning.gain_db - REFERENCE_GAIN_DB)
        steps = ceil(count / rate / _STEP_S)
        amplitudes = np.empty(steps, np.float32)
        for k in range(steps):
            amplitudes[k] = self._received(begin_s + k * _STEP_S) ** 0.5
        edges = np.minimum(np.ceil(np.arange(steps + 1) * (_STEP_S * rate)).astype(int), count)
        z = self._tone(index, count)
        z *= np.repeat(amplitudes, np.diff(edges))
        noise = self._noise
        if count > len(noise) // 2:
            noise = np.resize(noise, 2 * count)
        start = int(self._rng.integers(len(noise) - count))
        z += noise[start : start + count] * self._noise_amplitude
        scale = gain * (_OVERDRIVE if begin_s < self._clipped_until_s else 1.0)
        levels = z.view(np.float32).reshape(-1, 2) * np.float32(127.5 * scale)
        levels += np.float32(127.5)
        return np.clip(np.rint(levels, out=levels), 0, 255, out=levels).astype(np.uint8)

    def _tone(self, index: int, count: int) -> npt.NDArray[np.complex64]:
        """The carrier after tuning, at the nearest of 4096 frequencies; 0 if out of band."""
        tuning = self.tuning
        rate = tuning.sample_rate_hz
        offset = rate / 8 if self._carrier_hz is None else self._carrier_hz - tuning.frequency_hz
        offset += self._detuned_hz
        if abs(offset) >= rate / 2:
            return np.zeros(count, np.complex64)
        turns = round(offset / rate * _TONE_TABLE)
        start = index % _TONE_TABLE
        if self._tone_table[0] != turns or len(self._tone_table[1]) < start + count:
            length = (1 + ceil(count / _TONE_TABLE)) * _TONE_TABLE
            phases = turns * np.arange(length) % _TONE_TABLE
            table = np.exp(2j * np.pi * phases / _TONE_TABLE).astype(np.complex64)
            self._tone_table = turns, table
        return self._tone_table[1][start : start + count].copy()


def radio_server(config: Config, site: Site) -> VirtualRadio:
    """The emulator of the probe `rtl_tcp`."""
    carrier_hz = received_hz(config.physical.carrier_frequency_hz, config.probe)
    return VirtualRadio(site, carrier_hz=carrier_hz)
