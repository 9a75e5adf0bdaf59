"""The messages of the control socket: JSON-RPC 2.0, one per line, and its limits.

Server, daemon and clients share this module. It imports nothing heavy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NoReturn

from macontrol.config.model.errors import RequestError

API = 1
"""The version of the interface; it changes when a client of an earlier version would not work."""

LINE_LIMIT = 8192
"""The longest request in bytes, with its end of line."""
NAME_LIMIT = 60
MOST_CLIENTS = 32
RATES = (0.1, 10.0)
"""Fewest and most snapshots per second."""

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, WRONG_PARAMETERS = -32700, -32600, -32601, -32602
REFUSED, BUSY, NO_ANSWER, TOO_MANY_CLIENTS, WRONG_API = -32000, -32001, -32002, -32003, -32004

ERRORS = {
    PARSE_ERROR: f"the line is not JSON, or longer than {LINE_LIMIT} bytes (then the connection is "
    "closed)",
    INVALID_REQUEST: "not a request, or a batch",
    UNKNOWN_METHOD: "unknown method",
    WRONG_PARAMETERS: "wrong parameters: name, type, or a value out of range",
    REFUSED: "the action is refused in this state",
    BUSY: "too many actions: try again",
    NO_ANSWER: "the daemon does not answer",
    TOO_MANY_CLIENTS: f"too many clients (at most {MOST_CLIENTS}); the connection is closed",
    WRONG_API: "unsupported `api`",
}

Parameters = dict[str, Any]


def parse(line: bytes) -> Any:
    """The JSON value of a line; RequestError for anything else."""
    try:
        return json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise RequestError(
            PARSE_ERROR, "the line is not JSON", "send one JSON object per line"
        ) from None


def encode(message: Mapping[str, Any]) -> bytes:
    """One line. A number that is not finite is a bug of the sender: ValueError."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def answer(request: object, result: object) -> bytes:
    return encode({"jsonrpc": "2.0", "id": request, "result": result})


def error_answer(request: object, error: RequestError) -> bytes:
    data = {"fix": error.fix, **error.data}
    described = {"code": error.code, "message": error.detail, "data": data}
    return encode({"jsonrpc": "2.0", "id": request, "error": described})


def notification(method: str, parameters: object) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method, "params": parameters})


def read_request(line: bytes) -> tuple[Any, str, Parameters]:
    """The id (None for a notification), the method and the checked parameters of a line.

    RequestError has the id too, if it is known.
    """
    message = parse(line)
    if not isinstance(message, dict):
        raise RequestError(INVALID_REQUEST, "not an object", "send one request per line, no batch")
    request = message.get("id")
    if not (request is None or isinstance(request, str | int)) or isinstance(request, bool):
        raise RequestError(INVALID_REQUEST, "`id` is not a text or a whole number")
    try:
        method, parameters = message.get("method"), message.get("params", {})
        if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
            raise RequestError(
                INVALID_REQUEST, "not a request of JSON-RPC 2.0", "give `jsonrpc` and `method`"
            )
        if method not in METHODS:
            known = ", ".join(METHODS)
            raise RequestError(UNKNOWN_METHOD, f"no method {method[:40]!r}", f"one of {known}")
        if not isinstance(parameters, dict):
            raise _wrong("`params` is not an object")
        return request, method, _checked(METHODS[method], parameters)
    except RequestError as error:
        error.request = request
        raise


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _wrong(message: str, fix: str = "") -> RequestError:
    return RequestError(WRONG_PARAMETERS, message, fix)


Check = Callable[[Any], Any]


def _checked(known: Mapping[str, Check], given: Parameters) -> Parameters:
    for name in given:
        if name not in known:
            fix = f"one of {', '.join(known)}" if known else "this method takes none"
            raise _wrong(f"no parameter {name[:40]!r}", fix)
    checked: Parameters = {}
    for name, value in given.items():
        try:
            checked[name] = known[name](value)
        except ValueError as error:
            raise _wrong(f"{name}: {error}") from None
    return checked


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("too large") from None
    if not isfinite(number):
        raise ValueError("not a finite number")
    return number


def _rate(value: Any) -> float:
    number = _number(value)
    if number != 0 and not RATES[0] <= number <= RATES[1]:
        raise ValueError(f"0, or {RATES[0]:g} to {RATES[1]:g} per second")
    return number


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("not true or false")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > NAME_LIMIT:
        raise ValueError(f"not a text of at most {NAME_LIMIT} printable characters")
    return value


METHODS: dict[str, dict[str, Check]] = {
    "hello": {"client": _name, "api": _number},
    "status": {},
    "subscribe": {"rate": _rate, "events": _truth},
    "unsubscribe": {},
    "posterior": {},
    "hold": {},
    "resume": {},
    "goto": {"position": _number, "position_mm": _number},
    "set": {"key": _name, "value": _number},
    "resurvey": {},
    "noise_floor": {},
    "stop": {},
}
"""Every method and how its parameters are checked."""
