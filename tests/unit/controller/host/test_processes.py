"""Which processes use a file or a port, and who may open a device."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from macontrol.controller.host.processes import Access, Process, access_to, clients_of, holders_of
from support.machine_files import add_process


def test_the_process_that_has_a_file_open_is_found(tmp_path: Path) -> None:
    path = tmp_path / "device"
    path.touch()
    code = "import sys; file = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert [found.pid for found in holders_of(str(path))] == [holder.pid]
        holder.communicate()
    assert holders_of(str(path)) == ()


def test_this_process_is_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "device"
    path.touch()
    with path.open():
        assert holders_of(str(path)) == ()


def test_the_client_of_a_port_is_found() -> None:
    code = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = [sys.executable, "-c", code + "sys.stdin.read()", str(port)]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as client:
            connection, _ = server.accept()
            with connection:
                assert [found.pid for found in clients_of(port)] == [client.pid]
            client.communicate()


def test_a_command_is_shown_without_its_folder_and_shortened(tmp_path: Path) -> None:
    device = tmp_path / "device"
    add_process(tmp_path, 7, "/usr/bin/tool " + "x" * 100, device)
    (found,) = holders_of(str(device), tmp_path)
    assert found == Process(7, "tool " + "x" * 54 + "…")


def test_access_follows_the_permissions_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "port"
    path.touch(mode=0o600)
    found = access_to(str(path))
    assert found.allowed
    assert found.mode == "-rw-------"
    with pytest.raises(FileNotFoundError):
        access_to(os.fspath(tmp_path / "none"))


def test_a_device_of_root_alone_needs_the_udev_rules() -> None:
    assert "udev rules" in Access(False, "root", "root", "crw-------").fix
    assert "usermod -aG dialout" in Access(False, "root", "dialout", "crw-rw----").fix


def test_a_port_of_the_board_cannot_be_plugged_in_again() -> None:
    fix = Access(False, "root", "root", "crw-------", built_in="/dev/ttyS0").fix
    assert "plug" not in fix
    assert "chgrp dialout /dev/ttyS0" in fix
    assert access_to("/dev/null").built_in == ""
