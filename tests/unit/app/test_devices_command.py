"""`macontrol devices` prints the stages and radios that the kernel shows."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from macontrol.cli import main
from macontrol.commands import devices as command
from macontrol.controller.host.processes import Access, Process
from macontrol.controller.host.radios import RadioServer, UsbRadio
from macontrol.controller.host.serial_ports import SerialPort
from macontrol.hal.registry import PROBES

OPEN = Access(True, "root", "dialout", "crw-rw----")
SHUT = Access(False, "root", "dialout", "crw-rw----")


def shown(
    ports: list[SerialPort] | None = None,
    radios: list[UsbRadio] | None = None,
    servers: list[RadioServer] | None = None,
) -> str:
    written = io.StringIO()
    command.show(
        Console(file=written), ports or [], radios or [], {PROBES["rtl_tcp"]: servers or []}
    )
    return written.getvalue()


DONGLE = UsbRadio("RTL2832U dongle", "0bda:2838", "00000001", "/dev/bus/usb/001/007", OPEN, "", ())
PORT = SerialPort("/dev/ttyUSB0", (), "Arduino (Uno)", "2341:0043", OPEN, ())


class TestRadios:
    def test_the_television_driver_that_uses_it_is_shown_with_the_fix(self) -> None:
        used = replace(DONGLE, kernel_driver="dvb_usb_rtl28xxu")
        assert "fix: sudo modprobe -r dvb_usb_rtl28xxu" in shown(radios=[used])

    def test_the_process_that_uses_it_is_shown(self) -> None:
        used = replace(DONGLE, holders=(Process(41, "rtl_fm -f 100M"),))
        assert "held by rtl_fm -f 100M (process 41)" in shown(radios=[used])


class TestSerialPorts:
    def test_a_port_is_shown_by_its_stable_name(self) -> None:
        name = "/dev/serial/by-id/usb-Arduino_Uno-if00"
        output = shown([replace(PORT, names=(name,))])
        assert f"  {name}\n" in output
        assert "Arduino (Uno), USB 2341:0043" in output
        assert "now /dev/ttyUSB0" in output

    def test_the_process_that_uses_it_is_shown(self) -> None:
        used = replace(PORT, holders=(Process(7, "ModemManager"),))
        assert "held by ModemManager (process 7)" in shown([used])

    def test_without_permission_the_fix_is_shown(self) -> None:
        output = shown([replace(PORT, access=SHUT)])
        assert "no permission (crw-rw---- root dialout); fix: sudo usermod -aG dialout" in output


def test_a_server_and_its_client_are_shown() -> None:
    server = RadioServer(
        "127.0.0.1:1234", (Process(5, "rtl_tcp -a 127.0.0.1"),), (Process(6, "gqrx"),), True
    )
    output = shown(servers=[server])
    assert "rtl_tcp://127.0.0.1:1234" in output
    assert "served by rtl_tcp -a 127.0.0.1 (process 5)" in output
    assert "in use by gqrx (process 6)" in output


def test_it_says_so_when_there_is_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("find_serial_ports", "find_usb_radios", "find_radio_servers"):
        monkeypatch.setattr(command, name, lambda **_: [])
    assert main(["devices"]) == 0
    output = capsys.readouterr().out
    assert "serial ports: none" in output
    assert "No stage and no radio found" in output


class Soapy:
    """SoapySDR with a module and a radio."""

    class Device:
        @staticmethod
        def enumerate() -> list[dict[str, str]]:
            return [{"driver": "hackrf", "serial": "c0ffee", "label": "HackRF One"}]

    @staticmethod
    def listModules() -> tuple[str, ...]:  # noqa: N802 (SoapySDR's own name)
        return ("/usr/lib/SoapySDR/modules0.8/libHackRFSupport.so",)


def test_soapysdr_is_asked_for_radios_only_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "SoapySDR", Soapy)
    assert main(["devices"]) == 0
    assert "SoapySDR: installed, with modules for HackRF; --soapy" in capsys.readouterr().out
    assert main(["devices", "--soapy"]) == 0
    output = capsys.readouterr().out
    assert "--probe soapy:driver=hackrf,serial=c0ffee\n      HackRF One" in output
    monkeypatch.setattr(Soapy.Device, "enumerate", list)
    assert main(["devices", "--soapy"]) == 0
    assert "radios that SoapySDR finds: none" in capsys.readouterr().out


@pytest.mark.fault("soapy-not-installed")
def test_without_soapysdr_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "SoapySDR", None)
    assert main(["devices"]) == 0
    assert "SoapySDR: not installed for this Python" in capsys.readouterr().out
    assert main(["devices", "--soapy"]) == 69
    output = capsys.readouterr()
    assert "install python3-soapysdr" in output.err
    assert "serial ports" in output.out, "what was found without it is still printed"


def test_it_works_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    assert "radios on the USB" in capsys.readouterr().out
