"""What every request must pass, and what every answer carries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tornado.web import HTTPError, RequestHandler

if TYPE_CHECKING:
    from macontrol.dashboard.board import Board

# Nothing but the files of this server: no inline script or style, no other site, no frame. The page
# builds its content from text only, which the last directive enforces.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self' ws://{host} wss://{host}; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), usb=(), serial=()",
    "Cache-Control": "no-store",
    "Server": "macontrol",
}
_OWN_SITE = ("same-origin", "none")


def refused(status: int, detail: str, fix: str = "") -> HTTPError:
    """The error of a refused request: the status, what is wrong, and what to do."""
    return HTTPError(status, "%s; %s", detail, fix)


class Guarded(RequestHandler):
    """A handler behind the checks: rate, Host, Origin, token. The checks come before anything."""

    is_action = False

    @property
    def board(self) -> Board:
        """The state of the server."""
        board: Board = self.application.settings["board"]
        return board

    @property
    def client(self) -> str:
        """The address of the client."""
        return str(self.request.remote_ip)

    @property
    def cookie_name(self) -> str:
        """A name with the port: cookies do not distinguish ports."""
        return f"macontrol-{self.board.port}"

    @property
    def has_token(self) -> bool:
        """Whether this request has the token: as a cookie, a header, or in the page's address."""
        access = self.board.access
        scheme, _, value = self.request.headers.get("Authorization", "").partition(" ")
        offered = [self.get_cookie(self.cookie_name), self.get_query_argument("token", None)]
        if scheme.lower() == "bearer":
            offered.append(value.strip())
        return any([access.is_token(one) for one in offered if one])

    def prepare(self) -> None:
        host = self.request.headers.get("Host", "")
        access = self.board.access
        if not self.board.request_limit.permits(self.client):
            raise refused(429, "too many requests", "wait a second")
        if len(self.request.headers.get_list("Host")) != 1 or not access.is_own_host(host):
            raise refused(
                421,
                f"the name {host[:80]!r} is not one of this machine",
                "use its address, or its host name",
            )
        site = self.request.headers.get("Sec-Fetch-Site")
        is_navigation = self.request.headers.get("Sec-Fetch-Mode") == "navigate"
        may_navigate = is_navigation and self.request.method == "GET"
        if site is not None and site not in _OWN_SITE and not may_navigate:
            raise refused(403, "the request comes from a page of another site")
        if not access.is_own_origin(self.request.headers.get("Origin"), host):
            raise refused(403, "the request comes from a page of another site")
        self._require_token()

    def _require_token(self) -> None:
        if not (self.is_action or self.board.access.needs_token):
            return
        if self.board.token_limit.left(self.client) < 1:
            raise refused(429, "too many attempts without the token", "wait a minute")
        if not self.has_token:
            self.board.token_limit.permits(self.client)
            raise refused(
                401,
                "this needs the token" if self.is_action else "this page needs the token",
                "open the address that `macontrol dashboard` printed; the token is in "
                f"the file {self.board.token_file}",
            )

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)
        host = self.request.headers.get("Host", "")
        if not self.board.access.is_own_host(host):
            host = "localhost"
        self.set_header("Content-Security-Policy", _POLICY.format(host=host))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        detail, fix = self._reason, ""
        if isinstance(error, HTTPError) and len(error.args) == 2:
            detail, fix = error.args
        if status_code == 401:
            self.set_header("WWW-Authenticate", 'Bearer realm="macontrol"')
        self.finish_json({"error": {"message": detail, "data": {"fix": fix}}})

    def finish_json(self, data: object) -> None:
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(data, separators=(",", ":")))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Report bugs only: what a client does wrong is answered, not logged."""
        if not isinstance(value, HTTPError):
            super().log_exception(typ, value, tb)

    def keep_token(self) -> None:
        """Let the browser keep the token, out of reach of scripts and of other sites."""
        self.set_cookie(
            self.cookie_name,
            self.board.token,
            httponly=True,
            samesite="Strict",
            secure=self.request.protocol == "https",
            path="/",
            max_age=400 * 86400,
        )
