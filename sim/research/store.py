"""The stored results: one small JSON file per result, named by its key.

A file is written completely or not at all. An interrupted reproduction continues with the files
that exist, and two figures that need the same result read the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from macontrol.config.files.atomic_file import atomic_text
from macontrol.config.files.input_file import RESULT_LIMIT, read_input
from macontrol.config.model.errors import InputOutputError, MacontrolError, reason_of
from macontrol.sim.research.tasks import Result, Task


class Results:
    """The results in a folder, by task."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: dict[str, Result] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(folder, error) from error

    def __getitem__(self, task: Task) -> Result:
        if task.key not in self._loaded:
            try:
                result = json.loads(read_input(self._path(task.key), RESULT_LIMIT))
            except (MacontrolError, ValueError, RecursionError):
                result = None
            if not isinstance(result, dict):  # missing or damaged: it is computed (again)
                raise KeyError(task.key)
            self._loaded[task.key] = result
        return self._loaded[task.key]

    def __contains__(self, task: Task) -> bool:
        try:
            self[task]
        except KeyError:
            return False
        return True

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """The tasks without a result, each once."""
        return [task for task in {task.key: task for task in tasks}.values() if task not in self]

    def keep(self, key: str, result: Result) -> None:
        """Write a result, completely or not at all."""
        with atomic_text(self._path(key)) as file:
            file.write(json.dumps(result, allow_nan=False) + "\n")
        self._loaded[key] = result

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _unwritable(path: Path, error: OSError) -> InputOutputError:
    return InputOutputError(
        f"{path}: cannot be written: {reason_of(error)}",
        "choose with --out a folder that can be written to and has free space",
    )
