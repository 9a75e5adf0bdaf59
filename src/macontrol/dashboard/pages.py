"""The answers of the server: the page and its files, runs, daemons, actions, metrics."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tornado.web import Application

from macontrol.config.model.errors import RequestError
from macontrol.control.messages import (
    BUSY,
    INVALID_REQUEST,
    NO_ANSWER,
    REFUSED,
    UNKNOWN_METHOD,
    WRONG_PARAMETERS,
)
from macontrol.dashboard.board import Board
from macontrol.dashboard.requests import Guarded, refused
from macontrol.dashboard.stream import PageStream
from macontrol.metrics import CONTENT_TYPE, metrics_text

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
ACTIONS = frozenset({"hold", "resume", "goto", "set", "resurvey", "noise_floor", "stop"})
_SAFE = frozenset({"hold", "stop"})
_STATUS = {
    INVALID_REQUEST: 400,
    UNKNOWN_METHOD: 400,
    WRONG_PARAMETERS: 400,
    REFUSED: 409,
    BUSY: 429,
    NO_ANSWER: 503,
}
_LONGEST_HISTORY_S = 3600.0


@dataclass(frozen=True)
class Asset:
    """A file of the page, in memory."""

    content: bytes
    type: str
    etag: str


def load_assets() -> dict[str, Asset]:
    """All files of the page by name; a request cannot name any other file."""
    found = {}
    for file in files("macontrol.dashboard").joinpath("page").iterdir():
        ending = f".{file.name.rpartition('.')[2]}"
        if ending in _TYPES:
            content = file.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found[file.name] = Asset(content, _TYPES[ending], etag)
    return found


class PageFile(Guarded):
    """The page, and the files it consists of."""

    def initialize(self, assets: dict[str, Asset]) -> None:
        self.assets = assets

    def get(self, name: str = "") -> None:
        asset = self.assets.get(name or "index.html")
        if asset is None:
            raise refused(404, "no such file")
        if not name and self.has_token:
            self.keep_token()
        self.set_header("Content-Type", asset.type)
        self.set_header("Cache-Control", "no-cache")
        self.set_header("ETag", asset.etag)
        if self.request.headers.get("If-None-Match") == asset.etag:
            self.set_status(304)
            self.finish()
        else:
            self.finish(asset.content)

    head = get

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """For a person without the token: a page that asks for it."""
        if status_code == 401 and "html" in self.request.headers.get("Accept", ""):
            self.set_header("Content-Type", _TYPES[".html"])
            self.finish(self.assets["token.html"].content)
        else:
            super().write_error(status_code, **kwargs)


class LoginFile(PageFile):
    """The style sheet of the page that asks for the token: the only file without it."""

    def _require_token(self) -> None: ...


class RunList(Guarded):
    """The recorded runs."""

    async def get(self) -> None:
        loop = asyncio.get_running_loop()
        entries = await loop.run_in_executor(self.board.executor, self.board.library.entries)
        self.finish_json({"runs": entries})


class RunDigest(Guarded):
    """A run as the page shows it: ?seconds=60 for its end only."""

    async def get(self, run: str) -> None:
        path = self.board.library.path_of(run)
        if path is None:
            raise refused(404, "no run with this id", "choose one from the list")
        last_s: float | None = None
        if (text := self.get_query_argument("seconds", None)) is not None:
            if not text.isdecimal() or not 0 < int(text) <= _LONGEST_HISTORY_S:
                raise refused(400, "seconds is not a number from 1 to 3600")
            last_s = float(text)
        try:
            packed = await self.board.digests.get(path, last_s)
        except OSError as error:
            raise refused(404, "the run file is gone", "reload the list") from error
        if packed is None:
            raise refused(503, "too many runs are being read", "try again")
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.set_header("Content-Encoding", "gzip")
        self.finish(packed)


class DaemonList(Guarded):
    """The daemons of this machine; with the run that each of them records."""

    def get(self) -> None:
        self.finish_json({"daemons": [daemon.summary() for daemon in self.board.daemons.seen()]})


class DaemonRun(Guarded):
    """The id of the run that a daemon records, or has recorded last."""

    async def get(self, name: str) -> None:
        daemon = self.board.daemons.by_name.get(name)
        path = None if daemon is None else daemon.tail.path
        if daemon is None or path is None:
            raise refused(404, "this daemon has no run file")
        loop = asyncio.get_running_loop()
        run = await loop.run_in_executor(self.board.executor, self.board.library.id_of, path)
        self.finish_json({"run": run, "command": daemon.command})


class Action(Guarded):
    """An action of a daemon: POST /api/daemons/NAME/METHOD with its parameters as JSON."""

    is_action = True

    async def post(self, name: str, method: str) -> None:
        if method not in ACTIONS:
            raise refused(404, f"no action {method[:40]!r}", f"one of {', '.join(sorted(ACTIONS))}")
        limit = self.board.safety_limit if method in _SAFE else self.board.action_limit
        if not limit.permits(self.client):
            raise refused(429, "too many actions", "wait a second")
        daemon = self.board.daemons.by_name.get(name)
        if daemon is None:
            raise refused(404, f"no daemon {name[:40]!r} runs on this machine", "start it")
        try:
            result = await daemon.act(method, self._parameters(), self.client)
        except RequestError as error:
            self.set_status(_STATUS.get(error.code, 502))
            data = {"fix": error.fix, **error.data}
            self.finish_json({"error": {"code": error.code, "message": error.detail, "data": data}})
            return
        self.finish_json({"result": result})

    def _parameters(self) -> dict[str, Any]:
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise refused(415, "the parameters are not JSON", "Content-Type: application/json")
        try:
            found = json.loads(self.request.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise refused(400, "the parameters are not a JSON object", "send {}")
        return found


class Metrics(Guarded):
    """For Prometheus."""

    def get(self) -> None:
        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(metrics_text(self.board.daemons.seen()))


class Unknown(Guarded):
    """Everything else."""

    def prepare(self) -> None:
        super().prepare()
        raise refused(404, "nothing is here", "the page is at /")


def make_application(board: Board) -> Application:
    """The application; `board` is its state."""
    page = {"assets": load_assets()}
    return Application(
        [
            (r"/", PageFile, page),
            (r"/page/(token\.css)", LoginFile, page),
            (r"/page/([\w.-]+)", PageFile, page),
            (r"/api/stream", PageStream),
            (r"/api/runs", RunList),
            (r"/api/runs/([0-9a-f]{16})", RunDigest),
            (r"/api/daemons", DaemonList),
            (r"/api/daemons/([^/]+)/run", DaemonRun),
            (r"/api/daemons/([^/]+)/([^/]+)", Action),
            (r"/metrics", Metrics),
        ],
        default_handler_class=Unknown,
        board=board,
        websocket_max_message_size=4096,
        log_function=lambda _handler: None,
    )
