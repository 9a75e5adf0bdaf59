"""Completion in a real bash and a real zsh, and the manual page in real formatters."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from macontrol.cli import COMMANDS, main

ROOT = Path(__file__).parents[3]
needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh (Debian: zsh)")

CASES = [
    (["--ba"], {"--backend"}),
    (["sim"], {"simulate-map"}),
    (["--backend", ""], {"sim", "serial"}),
    (["--backend", "sim", "--reg"], {"--regret"}),
    (["--slots", "3", "--fa"], {"--fast", "--faults"}),
    (["--set", "algorithm.be"], {"algorithm.beta="}),
    (["--probe", "rtl"], {"rtl_tcp:"}),
    (["check", "--preset", "pap"], {"paper"}),
    (["replay", "--policy", "gp"], {"gp-ucb"}),
    (["virtual-bench", "--stage", "za"], {"zaber"}),
    (["config", "sh"], {"show"}),
    (["config", "show", "--js"], {"--json"}),
    (["completion", "z"], {"zsh"}),
    (["help", "dev"], {"devices"}),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    for shell, name in (("bash", "macontrol"), ("zsh", "_macontrol")):
        words = [sys.executable, "-m", "macontrol", "completion", shell]
        (folder / name).write_bytes(subprocess.check_output(words))
    return folder


def in_bash(scripts: Path, words: list[str], cwd: Path) -> set[str]:
    code = (
        'source "$1"; shift; COMP_WORDS=(macontrol "$@"); COMP_CWORD=$#; _macontrol; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "--norc", "-c", code, "bash", str(scripts / "macontrol"), *words]
    return set(subprocess.check_output(command, text=True, cwd=cwd).split())


def in_zsh(scripts: Path, words: list[str], cwd: Path) -> set[str]:
    """What the function offers, with the builtin that takes the offers replaced."""
    code = (
        "compdef() { :; }; source $1; shift; "
        "compadd() { while [[ $1 != -- ]] { shift }; shift; print -l -- $@; }; "
        '_files() { print -l -- *(N); }; words=(macontrol "$@"); CURRENT=$#words; _macontrol'
    )
    command = ["zsh", "-f", "-c", code, "zsh", str(scripts / "_macontrol"), *words]
    done = subprocess.run(command, text=True, cwd=cwd, capture_output=True)
    assert done.stderr == ""
    return {word for word in done.stdout.split() if word.startswith(words[-1])}


INTERACTIVE = {
    "bash": (["bash", "--norc", "-i"], "source {folder}/macontrol"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -d {folder}/dump",
    ),
}


def typed(shell: str, folder: Path, line: str) -> str:
    """The arguments that macontrol gets when a user types a line in a terminal."""
    command, setup = INTERACTIVE[shell]
    result = folder / f"{shell}.typed"
    lines = [
        setup.format(folder=folder),
        f"macontrol() {{ printf '%s|' \"$@\" > {result}; }}",
        line,
        "exit",
    ]
    ours, theirs = pty.openpty()
    shell_process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(theirs)
    with open(ours, "r+b", buffering=0) as screen, suppress(OSError):  # EIO: it has ended
        screen.write("".join(f"{line}\n" for line in lines).encode())
        while screen.read(4096):
            pass
    shell_process.wait()
    return result.read_text()


@pytest.mark.parametrize("shell", [pytest.param("bash"), pytest.param("zsh", marks=needs_zsh)])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("macontrol --backe\ts\tim --reg\t", "--backend|sim|--regret|"),
        (
            "macontrol --backend=ser\t --set algorithm.bet\t2",
            "--backend=serial|--set|algorithm.beta=2|",
        ),
        ("macontrol check --pre\tpap\t", "check|--preset|paper|"),
    ],
)
def test_typed_in_a_terminal(scripts: Path, shell: str, line: str, expected: str) -> None:
    assert typed(shell, scripts, line) == expected


@pytest.mark.parametrize(("words", "expected"), CASES)
def test_bash(scripts: Path, tmp_path: Path, words: list[str], expected: set[str]) -> None:
    offered = in_bash(scripts, words, tmp_path)
    assert expected <= offered
    assert all(word.startswith(words[-1]) for word in offered)


@needs_zsh
@pytest.mark.parametrize(("words", "expected"), CASES)
def test_zsh(scripts: Path, tmp_path: Path, words: list[str], expected: set[str]) -> None:
    assert expected <= in_zsh(scripts, words, tmp_path)


def test_files_are_completed_where_a_file_is_expected(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "lab.toml").touch()
    assert in_bash(scripts, ["check", "--config", "la"], tmp_path) == {"lab.toml"}
    if shutil.which("zsh"):
        assert in_zsh(scripts, ["check", "--config", "la"], tmp_path) == {"lab.toml"}


@needs_zsh
def test_zsh_parses_its_script(scripts: Path) -> None:
    subprocess.run(["zsh", "-n", scripts / "_macontrol"], check=True)


def test_every_command_is_offered(scripts: Path, tmp_path: Path) -> None:
    assert set(COMMANDS) <= in_bash(scripts, [""], tmp_path)


def test_another_shell_is_refused() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "fish"])
    assert ended.value.code == 64


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("man") / "macontrol.1"
    words = [sys.executable, str(ROOT / "deb/man_page.py"), "2026-11-18"]
    file.write_bytes(subprocess.check_output(words))
    return file


class TestManualPage:
    def test_it_has_every_command_and_the_exit_codes(self, page: Path) -> None:
        text = page.read_text("ascii").replace(r"\-", "-")
        for command in COMMANDS:
            assert f".SS macontrol {command}\n" in text
        assert "78 wrong configuration" in text

    @pytest.mark.skipif(shutil.which("mandoc") is None, reason="needs mandoc (Debian: mandoc)")
    def test_mandoc_finds_no_error(self, page: Path) -> None:
        done = subprocess.run(["mandoc", "-Tlint", "-Werror", page], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "")

    @pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff (Debian: groff-base)")
    def test_groff_gives_no_warning(self, page: Path) -> None:
        command = ["groff", "-man", "-ww", "-Tutf8", "-z", str(page)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
