"""The command sets: how an instrument is set up, and how a result becomes powers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import TypeAlias

from macontrol.config.model.units import from_db
from macontrol.hal.probes.scpi.settings import ScpiSettings

# SCPI-99, 7.2.1: 9.9E37 is infinity and 9.91E37 is "not a number".
_NO_NUMBER = 9.9e37
_HIGHEST_DB = 3000.0

Powers: TypeAlias = Callable[[Sequence[float]], list[float]]


@dataclass(frozen=True, slots=True)
class CommandSet:
    """What is sent to an instrument, and what its numbers mean."""

    setup: tuple[str, ...]
    trigger: str
    read: str
    powers: Powers
    """The powers of the numbers that `read` returns; NaN for those that are not numbers."""
    unit: str
    """The unit of a level: dBm for a power, dB for a ratio."""


def _from_levels(numbers: Sequence[float]) -> list[float]:
    return [from_db(level) if abs(level) < _HIGHEST_DB else nan for level in numbers]


def _from_pairs(numbers: Sequence[float]) -> list[float]:
    """|S21|² of real and imaginary parts."""
    if len(numbers) % 2:
        return [nan]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [real * real + imaginary * imaginary for real, imaginary in pairs]


def parsed(answer: str) -> list[float]:
    """The numbers of an answer; NaN for what is not a number, or stands for none."""
    return [_number(text) for text in answer.split(",")]


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return nan
    return number if isfinite(number) and abs(number) < _NO_NUMBER else nan


def command_set(settings: ScpiSettings) -> CommandSet:
    """The commands that the settings describe."""
    kind, setup = settings.commands, ["INIT:CONT OFF", "FORM:DATA ASC"]
    if kind == "custom":
        setup = []
    elif kind == "zero-span":
        setup += ["FREQ:SPAN 0", "UNIT:POW DBM"]
    elif kind == "marker":
        setup += ["UNIT:POW DBM", "CALC:MARK:STAT ON"]
    given = {
        "CALC:MARK:X" if kind == "marker" else "FREQ:CENT": settings.frequency_hz,
        "BAND": settings.bandwidth_hz,
        "SWE:TIME": settings.sweep_s,
    }
    setup += [f"{command} {value:.12g}" for command, value in given.items() if value != "keep"]
    read, powers, unit = {
        "zero-span": ("TRAC? TRACE1", _from_levels, "dBm"),
        "marker": ("CALC:MARK:Y?", _from_levels, "dBm"),
        "s21": ("CALC:DATA? SDATA", _from_pairs, "dB"),
        "custom": (
            settings.read,
            list if settings.unit == "linear" else _from_levels,
            "dBm" if settings.unit == "dBm" else "dB",
        ),
    }[kind]
    return CommandSet((*setup, *settings.setup), settings.trigger, read, powers, unit)
