"""Run files: one SQLite file per run, written off the slot thread, read later."""

from macontrol.controller.runfile.files import (
    default_run_folder,
    new_run_path,
    runs_in,
    runs_named,
    set_aside,
)
from macontrol.controller.runfile.header import RunHeader, Sample
from macontrol.controller.runfile.reader import OpenRun, Run, read_run
from macontrol.controller.runfile.recorder import RunFileRecorder
from macontrol.controller.runfile.resume import NoResume, Resume, find_resume, find_resume_among

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
