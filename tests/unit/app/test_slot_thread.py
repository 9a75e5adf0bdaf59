"""The slot thread reads and writes nothing: other threads record the run and print events."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COUNTS = Path("/proc/thread-self/io")
RUN = """
import sys
from pathlib import Path
from macontrol.cli import main
from macontrol.controller.runtime.loop import SlotLoop

def calls():
    lines = Path("/proc/thread-self/io").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("syscr", "syscw")))

def counted(loop, *words, **options):
    begin = calls()
    of_counting = calls() - begin
    before = calls()
    result = run(loop, *words, **options)
    made.append(calls() - before - of_counting)
    return result

run, made = SlotLoop.run, []
SlotLoop.run = counted
code = main({arguments!r})
print(code, *made)
"""


@pytest.mark.skipif(not COUNTS.exists(), reason="this kernel does not count system calls")
@pytest.mark.parametrize(
    "options",
    [
        "",
        "--faults 3",
        "--set reference.driver=line --set physical.actuation=as-needed",
    ],
    ids=["calm", "with faults", "with a reference receiver"],
)
def test_no_slot_reads_or_writes(tmp_path: Path, options: str) -> None:
    words = ["--backend", "sim", "--slots", "150", "--log", "text", *options.split()]
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(arguments=words)],
        env={"XDG_STATE_HOME": str(tmp_path), "RUNTIME_DIRECTORY": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1].split() == ["0", "0"]
    assert list((tmp_path / "macontrol").glob("*.sqlite")), "the run was not recorded"
