"""Measure macontrol on this machine, or compare policies on one bench."""

from __future__ import annotations

import argparse
from typing import Protocol

from macontrol.command_parser import HelpFormatter
from macontrol.commands.bench import (
    ab,
    calibrate,
    clients,
    dashboard,
    end_to_end,
    jitter,
    posterior,
)


class Subject(Protocol):
    """The module of a subject; `--help` shows its docstring."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def main(self, arguments: argparse.Namespace) -> int: ...


SUBJECTS: dict[str, Subject] = {
    "posterior": posterior,
    "jitter": jitter,
    "clients": clients,
    "dashboard": dashboard,
    "end-to-end": end_to_end,
    "ab": ab,
    "calibrate": calibrate,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subjects = parser.add_subparsers(title="subjects", metavar="SUBJECT", required=True)
    for name, module in SUBJECTS.items():
        subject = subjects.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            formatter_class=HelpFormatter,
        )
        module.add_arguments(subject)
        subject.set_defaults(subject=module)


def main(arguments: argparse.Namespace) -> int:
    subject: Subject = arguments.subject
    return subject.main(arguments)
