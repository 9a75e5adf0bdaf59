"""Requests as no page sends them, from many addresses: for the benchmark and the fuzz test."""

from __future__ import annotations

import random
import re
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

AT_ONCE = 50
"""Requests that wait for an answer at the same time."""
NO_ANSWER = 0
"""Counted for what is no HTTP: it is closed without an answer."""
_ADDRESSES = 1000
_LONGEST_ANSWER = 1_000_000
_TIMEOUT_S = 20.0
_METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "get", "X" * 50, "", "GET\x00"]
_PATHS = [
    "/",
    "/page/main.js",
    "/page/..%2f..%2fpages.py",
    "/page/" + "a" * 5000,
    "/api/runs",
    "/api/runs/0123456789abcdef",
    "/api/runs/0123456789abcdef?seconds=1",
    "/api/daemons",
    "/api/daemons/{name}/run",
    "/api/daemons/{name}/hold",
    "/api/daemons/{name}/stop",
    "/api/daemons/{name}/goto",
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
_HEADERS = [
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
_BODIES = [b"", b"{}", b"[]", b'{"position": 1e999}', b"\xff" * 300, b"5\r\nhello\r\n0\r\n\r\n"]


def flood(
    port: int,
    requests: int,
    *,
    seed: int,
    daemon: str,
    check: Callable[[bytes, bytes], None] = lambda _request, _answer: None,
) -> Counter[int]:
    """Send requests to a dashboard; return how many got each status.

    `check` gets each request and its answer. `daemon` is the name of one that the requests address.
    """
    choose = random.Random(seed)
    codes: Counter[int] = Counter()
    for _ in range(requests // AT_ONCE):
        texts = [hostile_request(choose, daemon) for _ in range(AT_ONCE)]
        clients = [send(port, text, choose.randrange(_ADDRESSES)) for text in texts]
        codes.update(_statuses(texts, clients, check))
    return codes


def _statuses(
    texts: Sequence[bytes],
    clients: Sequence[socket.socket | None],
    check: Callable[[bytes, bytes], None],
) -> list[int]:
    found = []
    for text, client in zip(texts, clients, strict=True):
        got = b"" if client is None else answer(client)
        check(text, got)
        status = re.match(rb"HTTP/1\.1 (\d{3})", got)
        found.append(int(status[1]) if status else NO_ANSWER)
    return found


def hostile_request(choose: random.Random, daemon: str) -> bytes:
    """A request: mostly a possible one with a few wrong parts, sometimes anything."""
    if choose.random() < 0.05:
        return choose.randbytes(choose.randrange(1, 2000))
    method = choose.choice(_METHODS[:2] if choose.random() < 0.7 else _METHODS)
    headers = [_HEADERS[0], *choose.sample(_HEADERS, choose.randrange(0, 5))]
    if choose.random() < 0.2:
        headers = headers[1:]
    path = choose.choice(_PATHS).replace("{name}", daemon)
    lines = [f"{method} {path} HTTP/1.{choose.randrange(3)}", *headers, "", ""]
    text = "\r\n".join(lines).encode("latin-1") + choose.choice(_BODIES)
    if choose.random() < 0.1:
        text = text[: choose.randrange(len(text))]
    if choose.random() < 0.1:
        where = choose.randrange(max(len(text), 1))
        text = text[:where] + choose.randbytes(3) + text[where + 3 :]
    return text


def send(port: int, text: bytes, client_number: int = 1) -> socket.socket | None:
    """Send a request from one of many addresses: each has a rate of its own."""
    client = socket.socket()
    client.settimeout(_TIMEOUT_S)
    with suppress(OSError):
        client.bind((f"127.1.{client_number // 250}.{client_number % 250 + 1}", 0))
        client.connect(("127.0.0.1", port))
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return client
    client.close()
    return None


def answer(client: socket.socket) -> bytes:
    """All that the server answers, up to a limit."""
    found = b""
    with client, suppress(OSError):
        while part := client.recv(65536):
            found += part
            if len(found) > _LONGEST_ANSWER:
                break
    return found
