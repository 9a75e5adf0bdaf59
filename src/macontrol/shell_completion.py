"""Completion scripts for bash and zsh, made from the parsers of the command line.

A script contains a table: which words may follow which command or option. So completing starts no
Python. Ports and files are looked up when they are completed.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping

FILES = "<files>"
PORTS = "<ports>"
_PORT_NAMES = ("/dev/ttyUSB*", "/dev/ttyACM*", "/dev/ttyAMA*", "/dev/macontrol-stage*")
_FILE_NAMES = ("FILE", "FOLDER", "DIR", "PATH")

Table = dict[str, list[str]]


def completion_table(
    parsers: Mapping[str, argparse.ArgumentParser], names: Mapping[str, list[str]]
) -> Table:
    """The words after each `command` and each `command --option`; the controller is ``."""
    table: Table = {}
    for command, parser in parsers.items():
        table |= dict(_entries(command, parser, names))
    table["help"] = [command for command in parsers if command]
    table[""] += [*table["help"], "help", "version"]
    return table


def _entries(
    path: str, parser: argparse.ArgumentParser, names: Mapping[str, list[str]]
) -> Iterator[tuple[str, list[str]]]:
    words: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words += list(action.choices)
            for name, below in action.choices.items():
                yield from _entries(f"{path} {name}", below, names)
        elif action.option_strings:
            words += action.option_strings
            if action.nargs != 0:
                for option in action.option_strings:
                    yield f"{path} {option}".strip(), _values(action, names)
        else:
            words += _values(action, names)
    yield path, words


def _values(action: argparse.Action, names: Mapping[str, list[str]]) -> list[str]:
    """What may be the value of an option or of an argument; nothing if it is a number."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.dest in names:
        return names[action.dest]
    if action.dest == "port":
        return [PORTS]
    is_path = getattr(action.type, "__name__", "") == "Path"
    return [FILES] if is_path or str(action.metavar).upper() in _FILE_NAMES else []


def bash_script(table: Table) -> str:
    """A script for bash; it needs no bash-completion package."""
    return f"""\
# bash completion of macontrol; made by `macontrol completion bash`
_macontrol() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} path='' last='' words i
  # bash separates --option=value into three words.
  [[ $word != = ]] || word=''
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${{COMP_WORDS[i]}} != = ]] || continue
    last=${{COMP_WORDS[i]}}
    if [[ $last != -* ]] && _macontrol_words "${{path:+$path }}$last" >/dev/null; then
      path="${{path:+$path }}$last"
    fi
  done
  [[ $last == -* ]] && words=$(_macontrol_words "${{path:+$path }}$last") \\
    || words=$(_macontrol_words "$path")
  COMPREPLY=()
  if [[ " $words " == *' {FILES} '* ]]; then
    words=${{words/{FILES}/}}
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  elif [[ $words == '{PORTS}' ]]; then
    words=$(for i in {" ".join(map(shlex.quote, _PORT_NAMES))}; do compgen -G "$i"; done)
  fi
  mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -W "$words" -- "$word")
  [[ ${{COMPREPLY[0]}} != *[=:] ]] || compopt -o nospace 2>/dev/null
}}
{_function(table)}
complete -F _macontrol macontrol
"""


def zsh_script(table: Table) -> str:
    """A script for zsh: a file `_macontrol` in a folder of fpath."""
    return f"""\
#compdef macontrol
# zsh completion of macontrol; made by `macontrol completion zsh`
{_function(table)}
_macontrol() {{
  local place='' last='' found i
  for ((i = 2; i < CURRENT; i++)); do
    last=${{words[i]}}
    if [[ $last != -* ]] && _macontrol_words "${{place:+$place }}$last" >/dev/null; then
      place="${{place:+$place }}$last"
    fi
  done
  if [[ ${{words[CURRENT]}} == --*=* ]]; then
    last=${{words[CURRENT]%%=*}}
    compset -P '*='
  fi
  [[ $last == -* ]] && found=$(_macontrol_words "${{place:+$place }}$last") \\
    || found=$(_macontrol_words "$place")
  local -a offered=(${{=found}})
  if (( ${{offered[(Ie){FILES}]}} )); then _files; fi
  if (( ${{offered[(Ie){PORTS}]}} )); then offered+=({" ".join(f"{n}(N)" for n in _PORT_NAMES)}); fi
  local -a begun=(${{(M)offered:#*[=:]}})
  offered=(${{${{offered:#<*>}}:#*[=:]}})
  (( ! $#begun )) || compadd -S '' -- $begun
  (( ! $#offered )) || compadd -- $offered
}}
# Loaded by compinit the function runs at once; sourced, it is registered.
if [[ $funcstack[1] == _macontrol ]]; then _macontrol "$@"; else compdef _macontrol macontrol; fi
"""


def _function(table: Table) -> str:
    """A shell function that prints the words after a place, and fails at an unknown place."""
    lines = ["_macontrol_words() {", '  case "$1" in']
    for place, words in table.items():
        lines.append(f"    {shlex.quote(place)}) echo {shlex.quote(' '.join(words))} ;;")
    return "\n".join([*lines, "    *) return 1 ;;", "  esac", "}"])
