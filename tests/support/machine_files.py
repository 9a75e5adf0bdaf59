"""Files of a pretended machine in a folder: `/proc`, `/dev` and the USB tree."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(path: Path, target: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def add_process(proc: Path, pid: int, command: str, *open_files: str | Path) -> None:
    """Add a process with a command line and open files."""
    write(proc / str(pid) / "cmdline", command.replace(" ", "\0") + "\0")
    for number, file in enumerate(open_files):
        link(proc / str(pid) / "fd" / str(number), file)


def empty_machine(folder: Path) -> Path:
    """Create the folders of a machine with no devices."""
    for name in ("dev", "proc", "usb"):
        (folder / name).mkdir()
    return folder
