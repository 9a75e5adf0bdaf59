"""`macontrol demo`: a page while it runs, and a report at its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest

pytest.importorskip("tornado", reason="the dashboard needs tornado")
pytestmark = pytest.mark.any_user


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "macontrol", "demo", "--duration", "3"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        yield process
        process.kill()


def page_of(demo: subprocess.Popen[str]) -> str:
    assert demo.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/\S+", demo.stdout.readline())
    assert found
    return found[0]


def test_it_shows_a_page_and_writes_a_report(demo: subprocess.Popen[str], tmp_path: Path) -> None:
    page = page_of(demo)
    with urllib.request.urlopen(page, timeout=60) as answer:
        assert answer.status == 200
    text, _ = demo.communicate(timeout=100)
    assert demo.returncode == 0, text
    (run,) = (tmp_path / "macontrol").glob("demo-*.sqlite")
    assert run.with_suffix(".html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert "macontrol virtual-bench" in text
    assert f'PATH="{Path(sys.executable).parent}:' in text
    with pytest.raises(URLError, match="refused"):
        urllib.request.urlopen(page, timeout=60)


def test_ctrl_c_ends_the_page_too(demo: subprocess.Popen[str]) -> None:
    page = page_of(demo)
    assert demo.stdout is not None
    while "start: slot 1" not in demo.stdout.readline():
        pass
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=100)
    with pytest.raises(URLError, match="refused"):
        urllib.request.urlopen(page, timeout=60)
