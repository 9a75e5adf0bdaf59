"""The token, and the checks of Host, Origin and rate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from macontrol.config.model.errors import InputOutputError, UsageError
from macontrol.dashboard.access import Access, is_loopback, parse_listen, read_token
from macontrol.dashboard.limits import RateLimit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8765", ("127.0.0.1", 8765)),
        ("[::1]:0", ("::1", 0)),
        ("bench.local:80", ("bench.local", 80)),
    ],
)
def test_an_address_to_listen_on(text: str, expected: tuple[str, int]) -> None:
    assert parse_listen(text) == expected


@pytest.mark.parametrize("text", ["", "8765", ":8765", "127.0.0.1", "127.0.0.1:x", "a:99999"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_listen(text)
    assert refused.value.fix


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("no-such-host.invalid", False),
    ],
)
def test_only_an_address_that_no_other_machine_reaches_is_loopback(
    host: str, expected: bool
) -> None:
    assert is_loopback(host) is expected


def test_the_token_is_for_its_user_only_and_stays(tmp_path: Path) -> None:
    token, path = read_token(tmp_path / "state")
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 32
    assert read_token(tmp_path / "state") == (token, path)
    assert read_token(tmp_path / "other")[0] != token


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_token_that_others_may_have_read_is_refused(tmp_path: Path, mode: int) -> None:
    _, path = read_token(tmp_path)
    path.chmod(mode)
    with pytest.raises(InputOutputError):
        read_token(tmp_path)


@pytest.mark.parametrize("content", ["", "short", "x" * 31, "a b" * 20, "é" * 40])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: str) -> None:
    _, path = read_token(tmp_path)
    path.write_text(content, "utf-8")
    with pytest.raises(InputOutputError):
        read_token(tmp_path)


def test_a_link_is_no_token(tmp_path: Path) -> None:
    other, path = read_token(tmp_path / "other")
    assert other
    (tmp_path / path.name).symlink_to(path)
    with pytest.raises(InputOutputError):
        read_token(tmp_path)


def test_a_token_is_compared_as_a_whole() -> None:
    access = Access("a" * 43, needs_token=False)
    assert access.is_token("a" * 43)
    for wrong in (None, "", "a" * 42, "a" * 44, "A" * 43, "é" * 43):
        assert not access.is_token(wrong)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:80", "192.168.1.5:8765", os.uname()[1]],
)
def test_addresses_and_names_of_this_machine_are_its_own(host: str) -> None:
    assert Access("t" * 43, needs_token=False).is_own_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8765",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1:8765@evil.example",
        "localhost:8765/",
        "[::1",
        "127.0.0.1\r\nX: 1",
        "0x7f.1",
    ],
)
def test_any_other_name_is_refused(host: str) -> None:
    assert not Access("t" * 43, needs_token=False).is_own_host(host)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, True),
        ("http://localhost:8765", True),
        ("https://localhost:8765", True),
        ("http://localhost:8766", False),
        ("http://127.0.0.1:8765", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_only_the_own_page_is_the_own_origin(origin: str | None, expected: bool) -> None:
    access = Access("t" * 43, needs_token=False)
    assert access.is_own_origin(origin, "localhost:8765") is expected


def test_a_rate_has_a_burst_and_recovers() -> None:
    now = [100.0]
    limit = RateLimit(2.0, 3, clock=lambda: now[0])
    assert [limit.permits("a") for _ in range(4)] == [True, True, True, False]
    assert limit.permits("b")
    now[0] += 0.5
    assert [limit.permits("a") for _ in range(2)] == [True, False]
    now[0] += 100.0
    assert [limit.permits("a") for _ in range(4)] == [True, True, True, False]


def test_many_clients_need_no_more_memory() -> None:
    limit = RateLimit(1.0, 1)
    for number in range(5000):
        limit.permits(f"client {number}")
    assert len(limit._buckets) <= 1024
