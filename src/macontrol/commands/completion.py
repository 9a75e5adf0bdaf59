"""Print the completion script of a shell.

bash: `macontrol completion bash > ~/.local/share/bash-completion/completions/macontrol`.
zsh: `macontrol completion zsh > FOLDER/_macontrol`, with a FOLDER that $fpath names.
The script completes commands, options, settings, presets, policies, drivers, ports and files.
"""

from __future__ import annotations

import argparse

from macontrol.config import load_config, preset_names
from macontrol.config.policies import POLICIES
from macontrol.config.toml_text import paths_in
from macontrol.hal.registry import PROBES, STAGES
from macontrol.shell_completion import bash_script, completion_table, zsh_script

_SCRIPTS = {"bash": bash_script, "zsh": zsh_script}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell")


def main(arguments: argparse.Namespace) -> int:
    # cli lists this command, and loads it when it is used.
    from macontrol.cli import all_parsers

    names = {
        "preset": list(preset_names()),
        "policy": list(POLICIES.names()),
        "stage": list(STAGES.names()),
        # Before the address, which only the user knows.
        "probe": [f"{name}:" for name in PROBES.names()],
        "set": [f"{key}=" for key in _settings()],
    }
    table = completion_table(all_parsers(), names)
    print(_SCRIPTS[arguments.shell](table), end="")
    return 0


def _settings() -> list[str]:
    """The path of each setting, without those of sections and drivers' tables."""
    paths = list(paths_in(load_config().model_dump()))
    tables = {path.rpartition(".")[0] for path in paths}
    return [path for path in paths if path not in tables]
