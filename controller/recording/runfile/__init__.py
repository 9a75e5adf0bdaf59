"""Run files: one SQLite file per run, written off the slot thread, read later."""

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
