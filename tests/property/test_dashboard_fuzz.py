"""Whatever arrives at the dashboard: it answers, does nothing without the token, and continues.

`MACONTROL_FUZZ_REQUESTS=100000` tries more than the short form in the suite.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from support.sample_run import write_run

pytestmark = pytest.mark.any_user
REQUESTS = int(os.environ.get("MACONTROL_FUZZ_REQUESTS", "1500"))
AT_ONCE = 50
SEED = 11
METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "get", "X" * 50, "", "GET\x00"]
PATHS = [
    "/",
    "/page/main.js",
    "/page/..%2f..%2fpages.py",
    "/page/" + "a" * 5000,
    "/api/runs",
    "/api/runs/0123456789abcdef",
    "/api/runs/0123456789abcdef?seconds=1",
    "/api/daemons",
    "/api/daemons/sim/run",
    "/api/daemons/sim/hold",
    "/api/daemons/sim/stop",
    "/api/daemons/sim/goto",
    "/api/daemons/%00/%ff",
    "/api/stream",
    "/metrics",
    "/?token=" + "x" * 43,
    "/?token=%ff%fe",
    "//",
    "/%",
    "*",
    "http://evil.example/",
]
HEADERS = [
    "Host: 127.0.0.1",
    "Host: 127.0.0.1",
    "Host: 127.0.0.1",
    "Host: evil.example",
    "Host: \xff\xfe",
    "Host:",
    "Origin: http://127.0.0.1",
    "Origin: null",
    "Authorization: Bearer " + "x" * 43,
    "Authorization: Bearer \xff",
    "Authorization: \x00",
    "Cookie: macontrol-0=x; a=\xff",
    "Cookie: " + "a=b; " * 500,
    "Content-Type: application/json",
    "Content-Type: \xff",
    "Content-Length: 2",
    "Content-Length: 99999999999",
    "Content-Length: -1",
    "Content-Length: x",
    "Transfer-Encoding: chunked",
    "Connection: Upgrade\r\nUpgrade: websocket",
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version: 99",
    "Sec-Fetch-Site: cross-site",
    "If-None-Match: \xff",
    "Expect: 100-continue",
    "X: " + "y" * 20_000,
    "no colon",
    " folded",
    ": no name",
]
BODIES = [b"", b"{}", b"[]", b'{"position": 1e999}', b"\xff" * 300, b"5\r\nhello\r\n0\r\n\r\n"]


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


def request(choose: random.Random) -> bytes:
    """A request: mostly a possible one with a few wrong parts, sometimes anything."""
    if choose.random() < 0.05:
        return choose.randbytes(choose.randrange(1, 2000))
    method = choose.choice(METHODS[:2] if choose.random() < 0.7 else METHODS)
    headers = [HEADERS[0], *choose.sample(HEADERS, choose.randrange(0, 5))]
    if choose.random() < 0.2:
        headers = headers[1:]
    lines = [f"{method} {choose.choice(PATHS)} HTTP/1.{choose.randrange(3)}", *headers, "", ""]
    text = "\r\n".join(lines).encode("latin-1") + choose.choice(BODIES)
    if choose.random() < 0.1:
        text = text[: choose.randrange(len(text))]
    if choose.random() < 0.1:
        where = choose.randrange(max(len(text), 1))
        text = text[:where] + choose.randbytes(3) + text[where + 3 :]
    return text


def send(port: int, text: bytes, client_number: int = 1) -> socket.socket | None:
    """Send a request from one of many addresses: each has a rate of its own."""
    client = socket.socket()
    client.settimeout(20)
    with suppress(OSError):
        client.bind((f"127.1.{client_number // 250}.{client_number % 250 + 1}", 0))
        client.connect(("127.0.0.1", port))
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return client
    client.close()
    return None


def answer(client: socket.socket) -> bytes:
    found = b""
    with client, suppress(OSError):
        while part := client.recv(65536):
            found += part
            if len(found) > 1_000_000:
                break
    return found


def test_no_request_breaks_the_server_or_acts(port: int) -> None:
    choose = random.Random(SEED)
    codes: dict[int, int] = {}
    for _ in range(REQUESTS // AT_ONCE):
        texts = [request(choose) for _ in range(AT_ONCE)]
        clients = [send(port, text, choose.randrange(1000)) for text in texts]
        for text, client in zip(texts, clients, strict=True):
            found = b"" if client is None else answer(client)
            status = re.match(rb"HTTP/1\.1 (\d{3})", found)
            if status is None:  # what is no HTTP is closed without an answer
                continue
            code = int(status[1])
            codes[code] = codes.get(code, 0) + 1
            assert code != 500, (text[:500], found[:500])
            assert b'"outcome"' not in found
    print(codes)
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
