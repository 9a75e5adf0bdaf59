"""Run files: one SQLite file a run, written off the slot thread, read by whoever asks later."""

from macontrol.controller.runfile.files import (
    default_run_folder,
    latest_run,
    new_run_path,
    set_aside,
)
from macontrol.controller.runfile.header import RunHeader, Sample
from macontrol.controller.runfile.reader import OpenRun, Run, read_run
from macontrol.controller.runfile.recorder import RunFileRecorder
from macontrol.controller.runfile.resume import NoResume, Resume, find_resume

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
    "latest_run",
    "new_run_path",
    "read_run",
    "set_aside",
]
