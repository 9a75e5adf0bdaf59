"""What the server answers, and whom: with Tornado's own client and a scripted daemon."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPRequest, HTTPResponse
from tornado.testing import AsyncHTTPTestCase, gen_test
from tornado.web import Application
from tornado.websocket import WebSocketClientConnection, websocket_connect

from macontrol.dashboard import daemons
from macontrol.dashboard.access import Access
from macontrol.dashboard.board import Board
from macontrol.dashboard.limits import RateLimit
from macontrol.dashboard.pages import make_application
from macontrol.dashboard.run_library import RunLibrary
from macontrol.dashboard.server import LIMITS
from macontrol.dashboard.stream import MOST_STREAMS
from support.sample_run import write_run
from support.scripted_daemon import SNAPSHOT, ScriptedDaemon

TOKEN = "t" * 43
PATIENCE_S = 60
patient = gen_test(timeout=PATIENCE_S)
REFUSAL = {
    "code": -32000,
    "message": "the stage is homing",
    "data": {"fix": "wait", "state": "homing"},
}


class DashboardCase(AsyncHTTPTestCase):
    """A server on loopback with one daemon, `left`, and one run."""

    needs_token = False

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="macontrol-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.daemons: list[ScriptedDaemon] = []
        self.pages: list[WebSocketClientConnection] = []
        self.patch = pytest.MonkeyPatch()
        self.addCleanup(self.patch.undo)
        self.patch.setenv("RUNTIME_DIRECTORY", str(self.folder))
        self.patch.setenv("ASYNC_TEST_TIMEOUT", str(PATIENCE_S))
        super().setUp()

    def get_app(self) -> Application:
        write_run(self.folder / "run.sqlite", range(1, 41))
        self.board = Board(
            Access(TOKEN, needs_token=self.needs_token),
            TOKEN,
            self.folder / "token",
            RunLibrary([self.folder]),
            daemons.Daemons(),
        )
        self.board.port = 1
        return make_application(self.board)

    def get_httpserver_options(self) -> dict[str, Any]:
        return LIMITS

    def tearDown(self) -> None:
        self.io_loop.run_sync(self.close_all)
        super().tearDown()

    async def close_all(self) -> None:
        for page in self.pages:
            page.close()
            while not self.is_closed(page):
                await asyncio.sleep(0.01)
        await self.board.close()
        for daemon in self.daemons:
            await daemon.stop()

    def is_closed(self, page: WebSocketClientConnection) -> bool:
        stream = None if page.protocol is None else page.protocol.stream
        return stream is None or stream.closed()

    def ask(self, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
        body = headers.pop("body", "{}") if method == "POST" else None
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        names.setdefault("Content-Type", "application/json")
        return self.fetch(path, method=method, headers=names, body=body)

    def with_token(self, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
        return self.ask(path, method, Authorization=f"Bearer {TOKEN}", **headers)

    async def start_daemon(self, **options: Any) -> ScriptedDaemon:
        daemon = ScriptedDaemon(self.folder / "left.sock", **options)
        await daemon.start()
        self.daemons.append(daemon)
        self.board.daemons.scan()
        while not (self.board.daemons.seen() and self.board.daemons.seen()[0].is_connected):
            await asyncio.sleep(0.01)
        return daemon

    def open_daemon(self, **options: Any) -> ScriptedDaemon:
        async def start() -> ScriptedDaemon:
            return await self.start_daemon(**options)

        daemon: ScriptedDaemon = self.io_loop.run_sync(start)
        return daemon


def error_of(answer: HTTPResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)["error"]
    return found


class TestLoopback(DashboardCase):
    def test_every_answer_has_a_strict_policy(self) -> None:
        for path in ("/", "/page/main.js", "/api/runs", "/metrics", "/nothing"):
            headers = self.ask(path).headers
            policy = headers["Content-Security-Policy"]
            directives = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
            assert directives["default-src"] == "'none'"
            assert directives["script-src"] == directives["style-src"] == "'self'"
            assert directives["frame-ancestors"] == directives["base-uri"] == "'none'"
            assert "unsafe" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin"

    def test_the_page_names_no_other_server(self) -> None:
        for file in self.board_files():
            text = self.ask(f"/page/{file}").body.decode()
            assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
            assert "https://" not in text
            assert "//cdn" not in text

    def board_files(self) -> list[str]:
        from macontrol.dashboard.pages import load_assets

        return sorted(load_assets())

    def test_the_page_is_the_installed_one(self) -> None:
        answer = self.ask("/")
        assert answer.code == 200
        assert b'<script type="module" src="page/main.js">' in answer.body
        again = self.ask("/", If_None_Match=answer.headers["ETag"])
        assert again.code == 304

    def test_no_other_file_can_be_named(self) -> None:
        for path in ("/page/../pages.py", "/page/%2e%2e/pages.py", "/page/x.js", "/page/", "/etc"):
            assert self.ask(path).code == 404

    def test_a_page_of_another_site_reaches_nothing(self) -> None:
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
        ):
            for path in ("/", "/api/runs", "/metrics"):
                assert self.ask(path, **headers).code == 403
            assert self.with_token("/api/daemons/left/hold", "POST", **headers).code == 403

    def test_a_link_on_another_site_opens_the_page(self) -> None:
        navigation = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
        assert self.ask("/", **navigation).code == 200
        assert self.with_token("/api/daemons/left/hold", "POST", **navigation).code == 403

    def test_a_name_that_another_site_rebinds_is_refused(self) -> None:
        for path in ("/", "/api/runs", "/api/stream", "/metrics"):
            assert self.ask(path, Host="evil.example:8765").code == 421
        assert self.with_token("/api/daemons/left/hold", "POST", Host="evil.example").code == 421

    def test_reading_needs_no_token_and_acting_does(self) -> None:
        daemon = self.open_daemon()
        assert self.ask("/api/daemons").code == 200
        wrong = {"Authorization": f"Bearer {'x' * 43}"}
        basic = {"Authorization": f"Basic {TOKEN}"}
        for headers in ({}, wrong, basic, {"Cookie": f"macontrol-2={TOKEN}"}):
            answer = self.ask("/api/daemons/left/hold", "POST", **headers)
            assert answer.code == 401
            assert "token" in error_of(answer)["data"]["fix"]
        assert "hold" not in [method for method, _ in daemon.calls]
        answer = self.with_token("/api/daemons/left/hold", "POST")
        assert (answer.code, json.loads(answer.body)["result"]["outcome"]) == (200, "accepted")
        assert [method for method, _ in daemon.calls][-2:] == ["hello", "hold"]

    def test_the_page_keeps_the_token_in_a_cookie_out_of_reach_of_scripts(self) -> None:
        answer = self.ask(f"/?token={TOKEN}")
        cookie = answer.headers["Set-Cookie"]
        assert f"macontrol-1={TOKEN}" in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        self.open_daemon()
        sent = {"Cookie": cookie.partition(";")[0]}
        assert self.ask("/api/daemons/left/hold", "POST", **sent).code == 200
        assert "Set-Cookie" not in self.ask(f"/?token={'x' * 43}").headers
        assert "Set-Cookie" not in self.ask("/").headers

    def test_guessing_the_token_is_slow(self) -> None:
        wrong = {"Authorization": "Bearer x"}
        codes = [self.ask("/api/daemons/left/hold", "POST", **wrong).code for _ in range(15)]
        assert codes[:10] == [401] * 10
        assert 429 in codes[10:]

    def test_only_actions_can_be_called(self) -> None:
        daemon = self.open_daemon()
        for method in ("status", "subscribe", "hello", "__class__", "hold%20", "x"):
            assert self.with_token(f"/api/daemons/left/{method}", "POST").code == 404
        for method in ("GET", "HEAD", "DELETE", "OPTIONS"):
            assert self.with_token("/api/daemons/left/hold", method).code in (404, 405)
        assert "hold" not in [method for method, _ in daemon.calls]

    def test_parameters_are_a_json_object(self) -> None:
        daemon = self.open_daemon()
        for body in ("", "[]", "1", "{", "[" * 9000, "{}x"):
            assert self.with_token("/api/daemons/left/goto", "POST", body=body).code == 400
        form = {"Content_Type": "text/plain", "body": "{}"}
        assert self.with_token("/api/daemons/left/goto", "POST", **form).code == 415
        assert "goto" not in [method for method, _ in daemon.calls]
        self.with_token("/api/daemons/left/goto", "POST", body='{"position": 2.5}')
        assert daemon.calls[-1] == ("goto", {"position": 2.5})

    def test_a_refusal_has_the_words_of_the_daemon(self) -> None:
        def refuse(method: str, _: dict[str, Any]) -> Any:
            return REFUSAL if method == "goto" else SNAPSHOT

        self.open_daemon(answer=refuse)
        answer = self.with_token("/api/daemons/left/goto", "POST")
        assert answer.code == 409
        assert error_of(answer) == REFUSAL

    def test_a_daemon_that_is_gone_is_an_answer(self) -> None:
        assert self.with_token("/api/daemons/right/hold", "POST").code == 404
        daemon = self.open_daemon()
        self.io_loop.run_sync(daemon.stop)
        answer = self.with_token("/api/daemons/left/hold", "POST")
        assert answer.code == 503
        assert error_of(answer)["data"]["fix"]

    def test_a_flood_of_actions_leaves_room_for_hold(self) -> None:
        self.open_daemon()
        codes = [self.with_token("/api/daemons/left/goto", "POST").code for _ in range(16)]
        assert codes[:10] == [200] * 10
        assert 429 in codes
        assert self.with_token("/api/daemons/left/hold", "POST").code == 200

    def test_a_flood_of_requests_is_limited(self) -> None:
        self.board.request_limit = RateLimit(1e-3, 20)
        codes = [self.ask("/api/daemons").code for _ in range(40)]
        assert codes[:20] == [200] * 20
        assert 429 in codes

    def test_a_large_body_is_refused(self) -> None:
        self.open_daemon()
        body = json.dumps({"key": "x" * 40_000})
        assert self.with_token("/api/daemons/left/set", "POST", body=body).code in (400, 599)

    def test_runs_are_listed_and_read(self) -> None:
        (run,) = json.loads(self.ask("/api/runs").body)["runs"]
        assert (run["name"], run["slots"]) == ("run", 40)
        digest = json.loads(self.ask(f"/api/runs/{run['id']}").body)
        assert digest["summary"]["slots"] == 40
        assert self.ask(f"/api/runs/{'0' * 16}").code == 404
        for seconds in ("0", "-1", "x", "1e3", "99999"):
            assert self.ask(f"/api/runs/{run['id']}?seconds={seconds}").code == 400

    def test_metrics_are_for_prometheus(self) -> None:
        self.open_daemon()
        answer = self.ask("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert b'macontrol_up{daemon="left"} 1' in answer.body


class TestElsewhere(DashboardCase):
    needs_token = True

    def test_everything_needs_the_token(self) -> None:
        for path in ("/", "/page/main.js", "/api/runs", "/api/daemons", "/api/stream", "/metrics"):
            assert self.ask(path).code == 401
        for path in ("/", "/page/main.js", "/api/runs", "/api/daemons", "/metrics"):
            assert self.with_token(path).code == 200

    def test_a_person_is_told_where_the_token_is(self) -> None:
        answer = self.ask("/", Accept="text/html,*/*")
        assert (answer.code, answer.headers["Content-Type"][:9]) == (401, "text/html")
        assert b"dashboard-token" in answer.body
        assert TOKEN.encode() not in answer.body
        assert self.ask("/page/token.css").code == 200


class TestStream(DashboardCase):
    async def connect(self, **headers: str) -> WebSocketClientConnection:
        address = self.get_url("/api/stream").replace("http", "ws", 1)
        page = await websocket_connect(HTTPRequest(address, headers=headers))
        self.pages.append(page)
        return page

    async def read(self, page: WebSocketClientConnection, kind: str) -> dict[str, Any]:
        while True:
            text = await page.read_message()
            assert text is not None, f"closed before {kind}"
            message: dict[str, Any] = json.loads(text)
            if message["type"] == kind:
                return message

    @patient
    async def test_a_page_gets_frames_and_ticks(self) -> None:
        daemon = await self.start_daemon()
        page = await self.connect()
        assert (await self.read(page, "hello"))["may_act"] is False
        assert (await self.read(page, "daemons"))["daemons"][0]["name"] == "left"
        await page.write_message('{"watch": "left"}')
        frame = await self.read(page, "frame")
        assert frame["snapshot"] == SNAPSHOT
        assert ("subscribe", {"rate": 10, "events": True}) in daemon.calls
        event = {"slot": 6, "time_s": 2.0, "kind": "warning", "detail": "hot", "value": None}
        line = json.dumps({"jsonrpc": "2.0", "method": "event", "params": event})
        await daemon.say(line.encode() + b"\n")
        assert (await self.read(page, "events"))["events"] == [event]
        await self.read(page, "tick")

    @patient
    async def test_a_lost_daemon_shows_and_comes_back(self) -> None:
        daemon = await self.start_daemon()
        page = await self.connect()
        await page.write_message('{"watch": "left"}')
        assert (await self.read(page, "frame"))["state"] == "running"
        await daemon.stop()
        while (await self.read(page, "frame"))["state"] != "ended":
            pass
        await self.start_daemon()
        while (await self.read(page, "frame"))["state"] != "running":
            pass

    @patient
    async def test_garbage_of_a_daemon_ends_its_connection_only(self) -> None:
        daemon = await self.start_daemon()
        for line in (b"no json\n", b"[1]\n", b'{"id": 1, "error": 3}\n', b"\xff\xfe\n"):
            await daemon.say(line)
        seen = self.board.daemons.seen()[0]
        while seen.is_connected:
            await asyncio.sleep(0.01)
        self.board.daemons.scan()
        while not seen.is_connected:
            await asyncio.sleep(0.01)

    @patient
    async def test_a_page_with_the_token_may_act(self) -> None:
        page = await self.connect(Authorization=f"Bearer {TOKEN}")
        assert (await self.read(page, "hello"))["may_act"] is True

    @patient
    async def test_garbage_of_a_page_ends_its_stream(self) -> None:
        for text in ("no json", "[]", '{"watch": 1e999', "[" * 2000, "x" * 5000):
            page = await self.connect()
            await page.write_message(text)
            while await page.read_message() is not None:
                pass
        assert not self.board.streams

    @patient
    async def test_another_site_gets_no_stream(self) -> None:
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            with pytest.raises(Exception, match=r"403|421"):
                await self.connect(**headers)

    @patient
    async def test_the_number_of_streams_is_limited(self) -> None:
        pages = [await self.connect() for _ in range(MOST_STREAMS)]
        for page in pages:
            await self.read(page, "hello")
        one_more = await self.connect()
        assert await one_more.read_message() is None

    @patient
    async def test_a_page_that_does_not_read_costs_no_memory(self) -> None:
        """Frames of 1 MB for a page that reads nothing: at most one of them is kept for it."""
        daemon = await self.start_daemon()
        page = await self.connect()
        await page.write_message('{"watch": "left"}')
        await self.read(page, "frame")
        (stream,) = self.board.streams
        assert page.protocol is not None
        reader = page.protocol.stream
        assert reader is not None
        reader.io_loop.remove_handler(reader.fileno())  # it reads nothing more
        large = SNAPSHOT | {"filler": "x" * 1_000_000}
        line = json.dumps({"jsonrpc": "2.0", "method": "snapshot", "params": large})
        connection = stream.ws_connection
        assert connection is not None
        assert connection.stream is not None
        for _ in range(20):
            await daemon.say(line.encode() + b"\n")
            await asyncio.sleep(0.05)
        assert len(connection.stream._write_buffer) <= 2_000_000
        reader.close()
