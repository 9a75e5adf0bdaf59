"""The formats of a run's log."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

LogFormat: TypeAlias = Literal["auto", "text", "json"]
LOG_FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)
