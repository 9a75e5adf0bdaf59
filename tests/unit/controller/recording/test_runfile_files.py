"""Names and folders of run files: an earlier run is found, and never overwritten."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from macontrol.config import load_config
from macontrol.config.model.errors import InputOutputError
from macontrol.controller.recording.runfile import (
    RunFileRecorder,
    RunHeader,
    default_run_folder,
    files,
    new_run_path,
    read_run,
    runs_in,
    runs_named,
    set_aside,
)

STARTED = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def write(path: Path, *, stage: str = "sim", started: float = STARTED) -> Path:
    header = RunHeader.of(
        load_config(),
        backend="sim",
        stage=stage,
        survey=None,
        sigma_f2=None,
        started_wall_s=started,
        started_clock_s=0.0,
    )
    file = RunFileRecorder(path, header)
    file.start()
    file.close()
    return path


@pytest.mark.parametrize(
    ("service", "state", "expected"),
    [
        ("/var/lib/a:/var/lib/b", "/state", "/var/lib/a"),
        (None, "/state", "/state/macontrol"),
        (None, "relative", "/home/u/.local/state/macontrol"),
        ("", None, "/home/u/.local/state/macontrol"),
    ],
)
def test_the_default_folder_is_the_services_or_the_users(
    monkeypatch: pytest.MonkeyPatch, service: str | None, state: str | None, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    for name, value in (("STATE_DIRECTORY", service), ("XDG_STATE_HOME", state)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert default_run_folder() == Path(expected)


def test_a_new_run_is_named_after_its_stage_and_time(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    path = new_run_path(folder, "/dev/ttyUSB0", STARTED)
    assert path == folder / "dev-ttyUSB0-20231114T221320Z.sqlite"
    write(path)
    again = new_run_path(folder, "/dev/ttyUSB0", STARTED)
    assert again == folder / "dev-ttyUSB0-20231114T221320Z-2.sqlite"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputOutputError, match="cannot be written there"):
        new_run_path(tmp_path / "file" / "b", "sim", STARTED)


def test_runs_of_a_stage_are_found_the_last_written_first(tmp_path: Path) -> None:
    assert runs_in(tmp_path / "nowhere", "sim") == []
    old = write(new_run_path(tmp_path, "sim", STARTED))
    same_second = write(new_run_path(tmp_path, "sim", STARTED))
    new = write(new_run_path(tmp_path, "sim", STARTED + 60))
    other = write(new_run_path(tmp_path, "sim-2", STARTED + 120), stage="sim-2")
    (tmp_path / "sim-notes.sqlite").write_text("")
    for age, path in enumerate([other, new, same_second, old]):
        os.utime(path, (STARTED - age, STARTED - age))
    assert runs_in(tmp_path, "sim") == [new, same_second, old]
    assert runs_in(tmp_path, "sim-2") == [other]
    assert runs_in(tmp_path, "lab") == []


def test_a_named_run_comes_before_those_that_were_set_aside_from_it(tmp_path: Path) -> None:
    path = tmp_path / "a [b].db"
    assert runs_named(path) == []
    write(path)
    aside = set_aside(path)
    assert runs_named(path) == [aside]
    write(path)
    os.utime(path, (STARTED, STARTED))
    assert runs_named(path) == [path, aside]


def test_an_earlier_run_is_set_aside_under_its_start_time(tmp_path: Path) -> None:
    path = tmp_path / "lab.run.db"
    assert set_aside(path) is None
    for expected in ("lab.run-20231114T221320Z.db", "lab.run-20231114T221320Z-2.db"):
        write(path)
        assert set_aside(path) == tmp_path / expected
        assert not path.exists()
        assert read_run(tmp_path / expected).header.started_wall_s == STARTED


@pytest.mark.parametrize("can_fold", [True, False], ids=["log folded in", "log moved along"])
def test_a_killed_run_is_set_aside_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_fold: bool
) -> None:
    if not can_fold:  # as on a full disk
        monkeypatch.setattr(files, "_fold_log", lambda _: None)
    path = write(tmp_path / "run.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO slots (slot) VALUES (1)")
        for end in ("", "-wal"):  # as they are while the run continues
            copy = tmp_path / f"killed.db{end}"
            copy.write_bytes(path.with_name(path.name + end).read_bytes())
    aside = set_aside(tmp_path / "killed.db")
    assert aside is not None
    assert read_run(aside).slots["slot"].tolist() == [1]
    left = {p.name for p in tmp_path.iterdir()} - {"run.db", aside.name}
    assert left <= (set() if can_fold else {f"{aside.name}-wal", f"{aside.name}-shm"})


def test_a_damaged_run_is_set_aside_too(tmp_path: Path) -> None:
    path = write(tmp_path / "run.db")
    path.write_bytes(path.read_bytes()[:4096])
    os.utime(path, (STARTED, STARTED))
    assert set_aside(path) == tmp_path / "run-20231114T221320Z.db"


def test_an_empty_file_is_replaced_and_another_file_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    assert set_aside(tmp_path / "empty") is None
    write(tmp_path / "empty")
    (tmp_path / "config.toml").write_text("[run]")
    with pytest.raises(InputOutputError, match="not a run file; choose another name"):
        set_aside(tmp_path / "config.toml")
    with pytest.raises(InputOutputError, match="cannot be written there"):
        set_aside(tmp_path)
    assert (tmp_path / "config.toml").read_text() == "[run]"


class TestNoHome:
    @pytest.mark.fault("no-home-folder")
    def test_a_user_without_a_home_folder_has_the_root_folder(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.setattr(os, "getuid", lambda: 4_242_424)  # nobody's
        assert default_run_folder() == Path("/.local/state/macontrol")

    @pytest.mark.parametrize("home", ["", "relative"])
    def test_a_home_folder_that_is_not_a_path(
        self, monkeypatch: pytest.MonkeyPatch, home: str
    ) -> None:
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setenv("HOME", home)
        assert default_run_folder() == Path("/.local/state/macontrol")


@pytest.mark.fault("run-not-a-run-file")
def test_a_device_in_the_place_of_a_run_file_stays(tmp_path: Path) -> None:
    for kind, target in (("null", "/dev/null"), ("out", "/dev/stdout")):
        link = tmp_path / kind
        link.symlink_to(target)
        with pytest.raises(InputOutputError, match="a run file cannot be written there"):
            set_aside(link)
        assert link.is_symlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputOutputError, match="it is a pipe"):
        set_aside(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no /proc here")
def test_an_unreadable_file_in_place_of_a_run_file_is_refused() -> None:
    """Its first bytes give an input/output error, as those of a broken disk."""
    with pytest.raises(InputOutputError, match="Input/output error"):
        set_aside(Path("/proc/self/mem"))
