"""Examine the serial port: does it exist, may this user open it, is it free?"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from macontrol.config.model.errors import HardwareError
from macontrol.config.sections.stage import SerialStageSettings, StageSettings
from macontrol.controller.host.instance import InstanceLock
from macontrol.controller.host.processes import access_to, holders_of
from macontrol.controller.host.serial_ports import find_serial_ports, stable_names
from macontrol.doctor.report import Report


def examine_port(settings: StageSettings, report: Report, closing: ExitStack) -> bool:
    """Whether the port can be used. If so, it is locked until `closing` ends."""
    port = settings.port
    if not isinstance(settings, SerialStageSettings):
        report.skipped("the stage is on no serial port", "port", "permission")
        return True
    try:
        access = access_to(port)
        if not Path(port).is_char_device():
            raise OSError(None, "not a serial port")
    except OSError as error:
        likely = [each.names[0] if each.names else each.device for each in find_serial_ports()]
        ports = f"ports here: {', '.join(likely)}" if likely else "this machine has none"
        report.failed("port", f"{port}: {error.strerror}", f"--port with one that exists; {ports}")
        report.skipped("there is no such port", "permission", "in use")
        return False
    _report_name(port, report)
    mode = f"{access.mode} {access.owner} {access.group}"
    if access.allowed:
        report.passed("permission", mode)
    else:
        report.failed("permission", f"this user may not read and write it ({mode})", access.fix)
    is_free = _is_free(settings, report, closing)
    if is_free and not access.allowed:
        report.skipped("the port cannot be opened", "in use")
    return is_free and access.allowed


def _report_name(port: str, report: Report) -> None:
    names = stable_names(port)
    device = os.path.realpath(port)
    if names and port not in names:
        report.note("port", f"{port} may get another name", f"--port {names[0]}")
    else:
        report.passed("port", port if device == port else f"{port}, now {device}")


def _is_free(settings: StageSettings, report: Report, closing: ExitStack) -> bool:
    """Whether no visible program uses the port; opening it shows whether an invisible one does."""
    holders = holders_of(settings.port)
    if holders:
        pids = " ".join(str(holder.pid) for holder in holders)
        report.failed(
            "in use",
            f"held by {', '.join(str(holder) for holder in holders)}",
            f"end it (kill {pids}); for ModemManager or brltty, install macontrol's udev rules",
        )
        return False
    try:
        closing.enter_context(InstanceLock(settings.port_path))
    except HardwareError as error:
        report.error("in use", error, "end that process first")
        return False
    return True
