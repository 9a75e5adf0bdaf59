"""Whatever arrives at the dashboard: it answers, does nothing without the token, and continues.

`MACONTROL_FUZZ_REQUESTS=100000` tries more than the short form in the suite.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from macontrol.commands.bench.page_flood import NO_ANSWER, answer, flood, send
from support.sample_run import write_run

pytestmark = pytest.mark.any_user
REQUESTS = int(os.environ.get("MACONTROL_FUZZ_REQUESTS", "1500"))
SEED = 11


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "run").mkdir()
    (folder / "macontrol").mkdir()
    write_run(folder / "macontrol" / "run.sqlite", range(1, 41))
    environment = os.environ | {
        "XDG_STATE_HOME": str(folder),
        "RUNTIME_DIRECTORY": str(folder / "run"),
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "macontrol", "dashboard", "--listen", "127.0.0.1:0"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        assert process.stdout is not None
        found = re.search(rb":(\d+)/", process.stdout.readline())
        assert found
        try:
            yield int(found[1])
            assert process.poll() is None
        finally:
            process.terminate()
            assert process.wait(20) == 0
            process.stdout.close()
    log_text = (folder / "log").read_text("utf-8", "replace")
    assert "Traceback" not in log_text, log_text[:3000]


def test_no_request_breaks_the_server_or_acts(port: int) -> None:
    def check(request: bytes, found: bytes) -> None:
        assert not re.match(rb"HTTP/1\.1 500", found), (request[:500], found[:500])
        assert b'"outcome"' not in found

    codes = flood(port, REQUESTS, seed=SEED, daemon="sim", check=check)
    print(codes)
    del codes[NO_ANSWER]
    assert sum(codes.values()) > REQUESTS * 0.3, codes
    assert {200, 400, 401, 403, 404, 405, 421} <= set(codes), codes


def test_it_still_answers_after_that(port: int) -> None:
    deadline = 30
    for _ in range(deadline * 10):  # the rate of this client may be used up
        client = send(port, b"GET /api/daemons HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert client is not None
        found = answer(client)
        if b" 200 " in found[:20]:
            assert json.loads(found.partition(b"\r\n\r\n")[2]) == {"daemons": []}
            return
    pytest.fail("no answer")


def test_half_a_request_holds_nothing_up(port: int) -> None:
    """Sixty clients that never finish their request do not keep another one waiting."""
    slow = []
    for _ in range(60):
        client = socket.create_connection(("127.0.0.1", port), 20)
        client.sendall(b"POST /api/daemons/sim/hold HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
        slow.append(client)
    try:
        test_it_still_answers_after_that(port)
    finally:
        for client in slow:
            client.close()


def test_a_folder_of_runs_is_not_a_way_out(port: int) -> None:
    """A run is named by an id of the list only."""
    for path in (b"/api/runs/../../etc/passwd", b"/api/runs//etc/passwd", b"/api/runs/%2e%2e"):
        client = send(port, b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert client is not None
        assert b" 200 " not in answer(client)[:20]
