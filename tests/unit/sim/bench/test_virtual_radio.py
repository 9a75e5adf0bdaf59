"""The virtual radio implements rtl_tcp, and its samples have the given power."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from macontrol.hal.probes.sdr.power import tone, wideband
from macontrol.sim.bench.radio import VirtualRadio
from support.virtual_radio import virtual_radio
from support.waiting import wait_until

RATE = 2_048_000


@pytest.fixture
def radio() -> Iterator[VirtualRadio]:
    with virtual_radio(lambda _: 1e-2, noise_power=1e-3, block_bytes=4096) as radio:
        yield radio


def connect(radio: VirtualRadio) -> socket.socket:
    host, _, port = radio.address.partition(":")
    client = socket.create_connection((host, int(port)), 60.0)
    client.settimeout(60.0)
    return client


def receive(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def db(samples: npt.NDArray[np.uint8]) -> float:
    return wideband(samples).dbfs


def test_the_header_is_that_of_an_r820t(radio: VirtualRadio) -> None:
    with connect(radio) as client:
        assert struct.unpack(">4sII", receive(client, 12)) == (b"RTL0", 5, 29)


def test_it_sends_in_real_time_at_the_set_rate(radio: VirtualRadio) -> None:
    with connect(radio) as client:
        receive(client, 12)
        client.sendall(struct.pack(">BI", 2, 250_000))
        wait_until(lambda: radio.tuning.sample_rate_hz == 250_000)
        receive(client, 20_000)
        started = time.monotonic()
        receive(client, 1_000_000)  # two seconds, apart from earlier samples
        assert 1.2 < time.monotonic() - started < 15.0


def test_commands_may_arrive_in_pieces(radio: VirtualRadio) -> None:
    with connect(radio) as client:
        commands = struct.pack(">BIBIBIBIBi", 1, 868_000_000, 3, 1, 4, 297, 8, 0, 5, -7)
        for k in range(0, len(commands), 3):
            client.sendall(commands[k : k + 3])
        wait_until(lambda: radio.tuning.ppm == -7)
    tuning = radio.tuning
    assert (tuning.frequency_hz, tuning.gain_db, tuning.manual_gain) == (868e6, 29.7, True)


def test_a_rate_that_no_dongle_has_is_ignored(radio: VirtualRadio) -> None:
    with connect(radio) as client:
        client.sendall(struct.pack(">BIBI", 2, 10_000_000, 5, 1))
        wait_until(lambda: radio.tuning.ppm == 1)
    assert radio.tuning.sample_rate_hz == RATE


def test_power_noise_and_gain(radio: VirtualRadio) -> None:
    assert db(radio.samples(0.0, 200_000)) == pytest.approx(-19.59, abs=0.1)
    radio.tuning.gain_db = 14.0
    assert db(radio.samples(0.0, 200_000)) == pytest.approx(-25.59, abs=0.1)
    radio.tuning.gain_db = 20.0
    radio.transmitting = False
    assert db(radio.samples(0.0, 200_000)) == pytest.approx(-30.0, abs=0.2)


def test_the_power_is_exact_to_a_millisecond() -> None:
    radio = virtual_radio(lambda t: 0.1 if t >= 5.01 else 0.0, noise_power=1e-3)
    samples = radio.samples(5.0, 40_960)
    assert db(samples[: 10 * 2048]) == pytest.approx(-30.0, abs=0.2)
    assert db(samples[11 * 2048 :]) == pytest.approx(-9.96, abs=0.1)
    radio.close()


def test_the_tone_is_at_the_offset_of_the_carrier() -> None:
    radio = virtual_radio(lambda _: 1e-2, carrier_hz=433.92e6, noise_power=1e-4)
    radio.tuning.frequency_hz = 433.67e6
    assert tone(radio.samples(0.0, 100_000), RATE, 250e3, 20e3).dbfs == pytest.approx(-20, abs=0.1)
    radio.tuning.frequency_hz = 430e6
    assert db(radio.samples(0.0, 100_000)) < -35
    radio.close()


def test_the_phase_of_the_tone_continues_over_blocks() -> None:
    radio = virtual_radio(lambda _: 0.25, noise_power=0.0)
    parts = [radio.samples(0.0, 1000, index) for index in range(0, 50_000, 1000)]
    reading = tone(np.concatenate(parts), RATE, RATE / 8, 1000.0)
    assert reading.dbfs == pytest.approx(-6.02, abs=0.05)
    radio.close()


def test_clipped_samples_are_at_full_scale(radio: VirtualRadio) -> None:
    now = time.monotonic()
    radio.clip(1.0)
    assert wideband(radio.samples(now, 10_000)).clipped_share > 0.5
    assert wideband(radio.samples(now + 10.0, 10_000)).clipped_share == 0.0


def test_a_second_client_gets_no_header(radio: VirtualRadio) -> None:
    with connect(radio) as first:
        receive(first, 12)
        with connect(radio) as second:
            second.settimeout(0.3)
            with pytest.raises(TimeoutError):
                second.recv(12)
            first.close()
            second.settimeout(60.0)
            assert receive(second, 4) == b"RTL0"


def test_it_can_disconnect_the_client(radio: VirtualRadio) -> None:
    with connect(radio) as client:
        receive(client, 12)
        radio.drop()
        while True:
            try:
                if not client.recv(65536):
                    break
            except ConnectionResetError:
                break


def test_samples_of_a_stall_are_sent_after_it(radio: VirtualRadio) -> None:
    with connect(radio) as client:
        receive(client, 12)
        client.sendall(struct.pack(">BI", 2, 250_000))
        wait_until(lambda: radio.tuning.sample_rate_hz == 250_000)
        receive(client, 50_000)
        radio.stall(3.0)
        started = time.monotonic()
        receive(client, 1_500_000)  # three seconds, which would take three more without the stall
        assert 2.4 < time.monotonic() - started < 5.4


def test_the_transmitter_is_off_at_first_for_the_first_client() -> None:
    with virtual_radio(lambda _: 0.1, noise_power=1e-3, quiet_first_s=30.0) as radio:
        with connect(radio) as client:
            data = receive(client, 12 + 20_000)[12:]
        assert db(np.frombuffer(data, np.uint8).reshape(-1, 2)) < -28


def test_the_transmitter_is_off_again_for_a_new_run() -> None:
    begins = False
    with virtual_radio(
        lambda _: 0.1, noise_power=1e-3, quiet_first_s=0.3, is_new_run=lambda: begins
    ) as radio:

        def level() -> float:
            with connect(radio) as client:
                data = receive(client, 12 + 20_000)[12:]
            return db(np.frombuffer(data, np.uint8).reshape(-1, 2))

        assert level() < -28
        time.sleep(0.4)
        assert level() > -12
        begins = True
        assert level() < -28


def test_the_transmitter_is_off_while_a_new_run_prepares_and_only_then() -> None:
    prepares = True
    with (
        virtual_radio(
            lambda _: 0.1, noise_power=1e-3, is_new_run=lambda: True, is_preparing=lambda: prepares
        ) as radio,
        connect(radio) as client,
    ):

        def level() -> float:
            return db(np.frombuffer(receive(client, 20_000), np.uint8).reshape(-1, 2))

        receive(client, 12)
        for _ in range(20):
            assert level() < -28
        prepares = False
        wait_until(lambda: level() > -12)
        prepares = True
        for _ in range(20):
            assert level() > -12
