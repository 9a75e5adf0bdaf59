"""What a person types while a line is drawn: arrow keys, and words that Enter completes.

If the input is no terminal, its lines are the words.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections import deque
from contextlib import ExitStack
from typing import TypeAlias

_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_AT_ONCE = ("q", "f")
_ENTER, _ERASE, _END = "\r\n", "\x7f\b", "\x04"
_LONGEST = 100
_END_OF_INPUT = "q"

Commands: TypeAlias = deque[str]


class TypedCommands:
    """Reads standard input without waiting, from `__enter__` to `__exit__`."""

    def __init__(self) -> None:
        self._file = sys.stdin.fileno()
        self.is_terminal = sys.stdin.isatty()
        self._commands: Commands = deque()
        self._rest = ""
        """Bytes that are no whole key yet."""
        self._is_over = False
        self._closing = ExitStack()
        self.unfinished = ""
        """What is typed before Enter."""

    def __enter__(self) -> TypedCommands:
        if self.is_terminal:
            before = termios.tcgetattr(self._file)
            self._closing.callback(termios.tcsetattr, self._file, termios.TCSADRAIN, before)
            tty.setcbreak(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def is_waiting(self) -> bool:
        """Whether there is a command, or the end of the input."""
        self._read()
        return bool(self._commands)

    def next(self) -> str | None:
        """The next command; None if there is none now. The end of the input is `q`."""
        self._read()
        return self._commands.popleft() if self._commands else None

    def _read(self) -> None:
        while not self._is_over and select.select([self._file], [], [], 0)[0]:
            data = os.read(self._file, 1024)
            self._is_over = not data
            if self.is_terminal:
                self._take_keys(self._rest + data.decode(errors="replace"))
            else:
                self._take_lines(self._rest + data.decode(errors="replace"))
        if self._is_over and _END_OF_INPUT not in self._commands:
            self._commands.append(_END_OF_INPUT)

    def _take_lines(self, text: str) -> None:
        *lines, self._rest = text.split("\n")
        if self._is_over:
            lines, self._rest = [*lines, self._rest], ""
        self._commands += [line.strip()[:_LONGEST] for line in lines if line.strip()]

    def _take_keys(self, text: str) -> None:
        while text:
            if text[0] == "\x1b":
                if len(text) < 3 and (len(text) == 1 or text[1] in "[O"):
                    break  # the rest of the key follows
                if text[1] in "[O" and text[2] in _ARROWS:
                    self._commands.append(_ARROWS[text[2]])
                text = text[3:] if text[1] in "[O" else text[1:]
                continue
            self._take_key(text[0])
            text = text[1:]
        self._rest = text

    def _take_key(self, key: str) -> None:
        if key in _ENTER:
            if self.unfinished:
                self._commands.append(self.unfinished.strip())
            self.unfinished = ""
        elif key in _ERASE:
            self.unfinished = self.unfinished[:-1]
        elif key == _END:
            self._commands.append(_END_OF_INPUT)
        elif key in _AT_ONCE and not self.unfinished:
            self._commands.append(key)
        elif key.isprintable():
            self.unfinished = (self.unfinished + key)[:_LONGEST]
