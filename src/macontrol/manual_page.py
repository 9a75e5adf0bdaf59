"""The manual page macontrol(1), made from the parsers of the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping


def manual_page(
    parsers: Mapping[str, argparse.ArgumentParser],
    summaries: Mapping[str, str],
    exit_codes: str,
    version: str,
    date: str,
) -> str:
    """The page in man(7); `parsers` has the controller's under an empty name."""
    main = parsers[""]
    lines = [f'.TH MACONTROL 1 "{date}" "macontrol {version}" "User Commands"', ".SH NAME"]
    lines += [r"macontrol \- position a movable antenna on a linear stage, live", ".SH SYNOPSIS"]
    lines += [".B macontrol", r"[\fIoptions\fR]", ".br", ".B macontrol", r"\fIcommand\fR"]
    lines += [r"[\fIoptions\fR]", ".SH DESCRIPTION", *_text(main.description or "")]
    lines += ["Without a command, the controller runs with these options.", *_options(main)]
    lines.append(".SH COMMANDS")
    for command, summary in summaries.items():
        lines += [f".SS macontrol {_escaped(command)}", f"{_sentence(summary)}", ".PP"]
        lines += [*_text(parsers[command].description or ""), *_options(parsers[command])]
    lines += [".SH EXIT STATUS", *_text(exit_codes)]
    lines += [".SH FILES", ".TP", ".I /etc/macontrol/", "settings of the service", ".TP"]
    lines += [".I /var/lib/macontrol/", "runs that the service recorded"]
    return "\n".join(lines) + "\n"


def _options(parser: argparse.ArgumentParser, prefix: str = "") -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from _options(below, f"{prefix}{name} ")
        elif action.help != argparse.SUPPRESS:
            yield ".TP"
            # A long list of choices may break after each of them.
            invocation = re.sub(r",(?=\S)", r",\\:", _escaped(_invocation(action)))
            yield rf"\fB{_escaped(prefix)}{invocation}\fR"
            said = parser._get_formatter()._expand_help(action) if action.help else "see above"
            yield _escaped(" ".join(said.split()))


def _invocation(action: argparse.Action) -> str:
    value = ""
    if action.nargs != 0:
        value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if action.choices is not None and action.metavar is None:
            value = "{" + ",".join(str(choice) for choice in action.choices) + "}"
    return f"{', '.join(action.option_strings)} {value}".strip()


def _text(text: str) -> Iterator[str]:
    """Paragraphs; a blank line becomes a request."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        yield from (_escaped(line.strip()) for line in paragraph.splitlines() if line.strip())
    yield ".PP"


def _sentence(text: str) -> str:
    return _escaped(f"{text[:1].upper()}{text[1:]}.")


def _escaped(text: str) -> str:
    """The text as man(7): no request at the start of a line, hyphens that can be copied."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    text = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in text)
    return rf"\&{text}" if text[:1] in (".", "'") else text
