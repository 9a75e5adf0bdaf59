"""Run files: one SQLite file per run, written off the slot thread, read later."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from macontrol.controller.recording.runfile.files import (
        default_run_folder,
        new_run_path,
        runs_in,
        runs_named,
        set_aside,
    )
    from macontrol.controller.recording.runfile.header import RunHeader, Sample
    from macontrol.controller.recording.runfile.reader import OpenRun, Run, read_run
    from macontrol.controller.recording.runfile.recorder import RunFileRecorder
    from macontrol.controller.recording.runfile.resume import (
        NoResume,
        Resume,
        find_resume,
        find_resume_among,
    )

__all__ = [
    "NoResume",
    "OpenRun",
    "Resume",
    "Run",
    "RunFileRecorder",
    "RunHeader",
    "Sample",
    "default_run_folder",
    "find_resume",
    "find_resume_among",
    "new_run_path",
    "read_run",
    "runs_in",
    "runs_named",
    "set_aside",
]

# Loaded when it is used: the dashboard reads run files without NumPy and without the config.
_HOMES = {
    "files": ("default_run_folder", "new_run_path", "runs_in", "runs_named", "set_aside"),
    "header": ("RunHeader", "Sample"),
    "reader": ("OpenRun", "Run", "read_run"),
    "recorder": ("RunFileRecorder",),
    "resume": ("NoResume", "Resume", "find_resume", "find_resume_among"),
}

if not TYPE_CHECKING:  # otherwise a type checker accepts any name

    def __getattr__(name: str) -> object:
        """Load a name of this package when it is first used."""
        for home, names in _HOMES.items():
            if name in names:
                value: object = getattr(import_module(f"{__name__}.{home}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
