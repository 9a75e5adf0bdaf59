"""A problem of a config: which key, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from macontrol.config.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. Where its fix is a number, that number is accepted when it is typed in."""

    key: str
    detail: str
    fix: str

    def error(self) -> ConfigError:
        return ConfigError(f"{self.key}: {self.detail}", self.fix)


class ContradictionError(ValueError):
    """Values of different sections contradict each other."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem.error()) for problem in problems))
        self.problems = problems
