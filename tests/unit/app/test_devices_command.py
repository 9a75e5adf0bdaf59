"""`macontrol devices` lists the stages and radios that the kernel shows."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from macontrol.cli import main
from macontrol.commands import devices as command
from macontrol.controller.host import devices
from macontrol.controller.host.devices import Access, Process, RadioServer, SerialPort, UsbRadio

OPEN = Access(True, "root", "dialout", "crw-rw----")
SHUT = Access(False, "root", "dialout", "crw-rw----")


def shown(
    ports: list[SerialPort] | None = None,
    radios: list[UsbRadio] | None = None,
    servers: list[RadioServer] | None = None,
) -> str:
    written = io.StringIO()
    command.show(Console(file=written), ports or [], radios or [], servers or [])
    return written.getvalue()


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(path: Path, target: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def process(proc: Path, pid: int, command: str, *files: str | Path) -> None:
    write(proc / str(pid) / "cmdline", command.replace(" ", "\0") + "\0")
    for number, file in enumerate(files):
        link(proc / str(pid) / "fd" / str(number), file)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The files of a machine without devices."""
    for name in ("dev", "proc", "usb"):
        (tmp_path / name).mkdir()
    return tmp_path


def plug_in_radio(machine: Path, usb_id: str) -> Path:
    folder = machine / "usb" / "1-2"
    vendor, product = usb_id.split(":")
    facts = {"idVendor": vendor, "idProduct": product, "busnum": "1", "devnum": "7"}
    for name, text in {**facts, "serial": "00000001"}.items():
        write(folder / name, text + "\n")
    write(machine / "dev/bus/usb/001/007")
    return folder


def radios(machine: Path) -> list[UsbRadio]:
    return devices.find_usb_radios(machine / "usb", machine / "dev", machine / "proc")


class TestRadios:
    @pytest.mark.parametrize(
        ("usb_id", "what"),
        [
            ("0bda:2838", "RTL2832U dongle"),
            ("1d50:6089", "HackRF One"),
            ("0456:b673", "ADALM-Pluto"),
            ("2500:0020", "USRP B2xx"),
        ],
    )
    def test_a_radio_is_recognized_by_its_usb_id(
        self, machine: Path, usb_id: str, what: str
    ) -> None:
        plug_in_radio(machine, usb_id)
        (found,) = radios(machine)
        assert (found.what, found.usb_id, found.serial) == (what, usb_id, "00000001")
        assert not found.kernel_driver
        assert not found.holders

    def test_other_devices_are_not_listed(self, machine: Path) -> None:
        plug_in_radio(machine, "046d:c31c")
        write(machine / "usb" / "usb1" / "speed", "480")
        assert radios(machine) == []

    def test_the_kernel_driver_that_uses_it_is_named(self, machine: Path) -> None:
        folder = plug_in_radio(machine, "0bda:2838")
        driver = machine / "drivers" / "dvb_usb_rtl28xxu"
        driver.mkdir(parents=True)
        link(folder / "1-2:1.0" / "driver", driver)
        (found,) = radios(machine)
        assert found.kernel_driver == "dvb_usb_rtl28xxu"
        assert "fix: sudo modprobe -r dvb_usb_rtl28xxu" in shown(radios=[found])

    def test_the_process_that_uses_it_is_named(self, machine: Path) -> None:
        plug_in_radio(machine, "0bda:2838")
        process(machine / "proc", 41, "rtl_fm -f 100M", machine / "dev/bus/usb/001/007")
        (found,) = radios(machine)
        assert "held by rtl_fm -f 100M (process 41)" in shown(radios=[found])


class TestSerialPorts:
    def find(self, machine: Path, monkeypatch: pytest.MonkeyPatch, **facts: object) -> SerialPort:
        port = {
            "device": str(machine / "dev" / "ttyUSB0"),
            "vid": None,
            "pid": None,
            "manufacturer": None,
            "product": None,
        }
        write(machine / "dev" / "ttyUSB0")
        ports = [SimpleNamespace(**(port | facts)), SimpleNamespace(**(port | {"device": "/gone"}))]
        monkeypatch.setattr("serial.tools.list_ports.comports", lambda: ports)
        (found,) = devices.find_serial_ports(machine / "dev", machine / "proc")
        return found

    @pytest.mark.parametrize(
        ("vendor", "product", "what"),
        [
            (0x2341, 0x0043, "Arduino"),
            (0x1A86, 0x7523, "CH340"),
            (0x0403, 0x6001, "FTDI"),
            (0x10C4, 0xEA60, "CP210x"),
            (0x2939, 0x0001, "Zaber"),
            (0x1234, 0x5678, "USB serial port"),
        ],
    )
    def test_a_port_is_recognized_by_its_usb_id(
        self, machine: Path, monkeypatch: pytest.MonkeyPatch, vendor: int, product: int, what: str
    ) -> None:
        found = self.find(machine, monkeypatch, vid=vendor, pid=product)
        assert found.what.startswith(what)
        assert found.usb_id == f"{vendor:04x}:{product:04x}"

    def test_it_is_listed_by_its_stable_name(
        self, machine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = machine / "dev/serial/by-id/usb-Arduino_Uno-if00"
        link(name, "../../ttyUSB0")
        found = self.find(machine, monkeypatch, vid=0x2341, pid=0x43, product="Uno")
        assert found.names == (str(name),)
        output = shown([found])
        assert f"  {name}\n" in output
        assert "Arduino (Uno), USB 2341:0043" in output
        assert f"now {machine}/dev/ttyUSB0" in output

    def test_the_process_that_uses_it_is_named(
        self, machine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        process(machine / "proc", 7, "/usr/sbin/ModemManager", machine / "dev/ttyUSB0")
        found = self.find(machine, monkeypatch)
        assert "held by ModemManager (process 7)" in shown([found])

    def test_without_permission_there_is_a_fix(self) -> None:
        output = shown([SerialPort("/dev/ttyUSB0", (), "Arduino", "2341:0043", SHUT, ())])
        assert "no permission (crw-rw---- root dialout); fix: sudo usermod -aG dialout" in output

    def test_a_file_that_only_root_may_open_needs_a_rule(self) -> None:
        assert "udev rules" in Access(False, "root", "root", "crw-------").fix


class TestServers:
    HEADER = "  sl  local_address rem_address st\n"

    def table(self, *rows: tuple[str, str, str, int]) -> str:
        return self.HEADER + "".join(
            f"   0: {local} {remote} {state} 0:0 0:0 0 0 0 {inode} 1\n"
            for local, remote, state, inode in rows
        )

    def test_a_server_and_its_client_are_named(self, machine: Path) -> None:
        proc = machine / "proc"
        rows = self.table(
            ("0100007F:04D2", "00000000:0000", "0A", 11),
            ("0100007F:04D2", "0100007F:9999", "01", 12),
            ("0100007F:9999", "0100007F:04D2", "01", 13),
            ("0100007F:0050", "00000000:0000", "0A", 14),
        )
        write(proc / "net" / "tcp", rows)
        process(proc, 5, "rtl_tcp -a 127.0.0.1", "socket:[11]", "socket:[12]")
        process(proc, 6, "gqrx", "socket:[13]")
        (found,) = devices.find_radio_servers(proc)
        output = shown(servers=[found])
        assert "rtl_tcp://127.0.0.1:1234" in output
        assert "served by rtl_tcp -a 127.0.0.1 (process 5)" in output
        assert "in use by gqrx (process 6)" in output
        assert devices.clients_of(1234, proc) == (Process(6, "gqrx"),)

    def test_a_server_on_another_port_is_recognized_by_its_name(self, machine: Path) -> None:
        proc = machine / "proc"
        write(proc / "net" / "tcp6", self.table(("0" * 32 + ":1F90", "0:0", "0A", 21)))
        process(proc, 5, "/usr/bin/rtl_433 -F rtl_tcp", "socket:[21]")
        (found,) = devices.find_radio_servers(proc)
        assert (found.address, found.is_busy) == ("127.0.0.1:8080", False)

    def test_a_server_that_is_not_on_loopback_is_not_listed(self, machine: Path) -> None:
        write(machine / "proc/net/tcp", self.table(("0A00000A:04D2", "0:0", "0A", 31)))
        assert devices.find_radio_servers(machine / "proc") == []


def test_a_process_that_holds_a_file_is_found_on_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "held"
    path.touch()
    code = "import sys; file = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert [found.pid for found in devices.holders_of(str(path))] == [holder.pid]
        holder.communicate()
    assert devices.holders_of(str(path)) == ()
    with path.open():
        assert devices.holders_of(str(path)) == ()  # this process does not count


def test_a_client_of_a_port_is_found_on_this_machine() -> None:
    code = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = [sys.executable, "-c", code + "sys.stdin.read()", str(port)]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as client:
            connection, _ = server.accept()
            with connection:
                assert [found.pid for found in devices.clients_of(port)] == [client.pid]
            client.communicate()


def test_a_machine_without_devices(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("find_serial_ports", "find_usb_radios", "find_radio_servers"):
        monkeypatch.setattr(command, name, list)
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


def test_soapysdr_searches_for_radios_only_on_request(
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
    assert "finds: none; its modules: HackRF" in capsys.readouterr().out


@pytest.mark.fault("soapy-not-installed")
def test_a_missing_soapysdr_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "SoapySDR", None)
    assert main(["devices"]) == 0
    assert "SoapySDR: not installed for this Python" in capsys.readouterr().out
    assert main(["devices", "--soapy"]) == 69
    output = capsys.readouterr()
    assert "install python3-soapysdr" in output.err
    assert "serial ports" in output.out, "other devices are listed without it"


def test_the_devices_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    assert "radios on the USB" in capsys.readouterr().out


def test_access_is_read_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "port"
    path.touch(mode=0o600)
    found = devices.access_to(str(path))
    assert found.allowed
    assert found.mode == "-rw-------"
    with pytest.raises(FileNotFoundError):
        devices.access_to(os.fspath(tmp_path / "none"))


class TestPortIdentity:
    """The identity of a port's adapter distinguishes two boards of one make where it can."""

    def identity(self, machine: Path, monkeypatch: pytest.MonkeyPatch, **facts: object) -> str:
        device = machine / "dev" / "ttyUSB0"
        write(device)
        link(machine / "dev" / "stage", device)
        usb = {"vid": 0x1A86, "pid": 0x7523, "serial_number": None, "location": "1-1.2"}
        port = SimpleNamespace(**({"device": str(device)} | usb | facts))
        monkeypatch.setattr("serial.tools.list_ports.comports", lambda: [port])
        return devices.port_identity(str(machine / "dev" / "stage"))

    @pytest.mark.parametrize(
        ("facts", "expected"),
        [
            ({"serial_number": "A50285BI"}, "USB 1a86:7523 serial A50285BI"),
            ({}, "USB 1a86:7523 1-1.2"),
            ({"location": None}, "USB 1a86:7523"),
            ({"vid": None, "pid": None}, "not on the USB"),
            ({"device": "/dev/ttyUSB7"}, "not on the USB"),
        ],
    )
    def test_it_is_the_serial_number_or_the_usb_socket(
        self,
        machine: Path,
        monkeypatch: pytest.MonkeyPatch,
        facts: dict[str, object],
        expected: str,
    ) -> None:
        assert self.identity(machine, monkeypatch, **facts) == expected
