"""Input files that no command can use, written to a folder."""

from __future__ import annotations

import io
import os
import re
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np

from macontrol.config import load_config
from macontrol.controller.recording.runfile.schema import APPLICATION_ID, CREATE, FORMAT
from macontrol.controller.survey.file import save_walks
from macontrol.controller.survey.samples import Sample, Survey
from macontrol.sim.world.rewardmap import simulate_map

GRID = 601
_SPARSE_BYTES = 10 << 30


def odd_files(folder: Path) -> dict[str, Path]:
    """Paths that are not regular files, for every kind of input."""
    os.mkfifo(folder / "pipe")
    (folder / "empty-folder").mkdir()
    (folder / "circle").symlink_to("circle")
    (folder / "dangling").symlink_to("nowhere")
    with (folder / "sparse").open("wb") as sparse:
        sparse.truncate(_SPARSE_BYTES)
    (folder / "binary").write_bytes(bytes(range(256)) * 100)
    (folder / "long-line").write_bytes(b"a" * 200_000)
    found = {
        "missing": folder / "nothing",
        "below a file": folder / "binary" / "nothing",
        "long name": folder / ("x" * 300),
        "zeros without end": Path("/dev/zero"),
    }
    names = ("pipe", "empty-folder", "circle", "dangling", "sparse", "binary", "long-line")
    return found | {name: folder / name for name in names}


def bad_configs(folder: Path) -> dict[str, Path]:
    """Files that are not TOML, or configs with impossible values."""
    deep = ".".join(["a"] * 20_000)
    texts: dict[str, str | bytes] = {
        "not UTF-8": b"[algorithm]\nbeta = 2 # \xff",
        "UTF-16": "[algorithm]\nbeta = 2".encode("utf-16"),
        "a NUL": "[algorithm]\n\0",
        "cut": "[algorithm",
        "twice": "[run]\nseed = 1\nseed = 2",
        "brackets": "x = " + "[" * 50_000,
        "braces": "x = " + "{a=" * 20_000,
        "parts of a key": f"{deep} = 1",
        "parts of a table": f"[{deep}]",
        "many tables": "\n".join(f"[a{n}]" for n in range(3000)),
        "digits": "[run]\nhorizon = " + "9" * 100_000,
        "hexadecimal digits": "[run]\nhorizon = 0x" + "f" * 100_000,
        "nan": "[algorithm]\nbeta = nan",
        "a date": "[algorithm]\nbeta = 1979-05-27",
        "unknown section": "[algoritm]\nbeta = 2",
        "unknown key": "[algorithm]\nbta = 2",
        "section is a number": "algorithm = 3",
        "section is a list": "[[algorithm]]\nbeta = 3",
        "value is a table": "[algorithm.beta]\nx = 1",
        "preset is a number": "preset = 3",
        "preset is a path": 'preset = "../../etc/passwd"',
        "NUL in the port": '[stage]\nport = "a\\u0000b"',
        "long port": '[stage]\nport = "' + "x" * 100_000 + '"',
        "long address": '[probe]\naddress = "' + "x" * 100_000 + ':1"',
        "port of too many digits": '[probe]\naddress = "a:' + "1" * 5000 + '"',
        "many paths": "[channel]\npath_powers = [" + "1,\n" * 5000 + "]",
        "grid too fine": "[algorithm]\ngrid_spacing = 1e-300",
        "rail too long": "[physical]\nregion_length = 1e15",
        "no stroke": "[physical]\ncommand_latency_s = 1e15",
        "slowest light": "[physical]\ncarrier_frequency_hz = 1e-300",
        "many features": "[kernel]\ncomponents = 1000000000",
    }
    return _written(folder, "toml", texts)


def bad_maps(folder: Path) -> dict[str, Path]:
    """npz archives that are not reward maps on the paper's grid."""
    good: dict[str, object] = {
        "reward": np.ones((5, GRID)),
        "noise": np.zeros(5),
        "survey_position": np.array([0.0, 6.0]),
        "survey_reward": np.ones(2),
    }
    arrays: dict[str, dict[str, object]] = {
        "nothing": {},
        "no noise": {"noise": None},
        "flat": {"reward": np.ones(GRID)},
        "no slots": {"reward": np.ones((0, GRID))},
        "other grid": {"reward": np.ones((5, 7))},
        "other slots": {"noise": np.zeros(6)},
        "nan": {"reward": np.full((5, GRID), np.nan)},
        "complex": {"reward": np.ones((5, GRID), complex)},
        "text": {"reward": np.full((5, GRID), "a")},
        "one sample": {"survey_position": np.zeros(1), "survey_reward": np.zeros(1)},
        "off the rail": {"survey_position": np.array([0.0, 7e300])},
        "mask of numbers": {"available": np.ones((5, GRID))},
        "mask of another shape": {"available": np.ones((5, 7), bool)},
        "mask hides all": {"available": np.zeros((5, GRID), bool)},
        "nan in the mask": {
            "available": np.arange(5 * GRID).reshape(5, GRID) > 0,
            "reward": np.full((5, GRID), np.nan),
        },
        "times go back": {"unix_s": -np.arange(5.0)},
        "times of words": {"unix_s": np.full(5, "a")},
        "span off": {"span": np.array([3, 9])},
        "span of one": {"span": np.array([1])},
        "config is not text": {"config": np.arange(3)},
        "config is not JSON": {"config": np.array("{")},
        "config is a list": {"config": np.array("[]")},
        "config nests": {"config": np.array("[" * 100_000)},
        "config of nothing": {"config": np.array("{}")},
        "config off": {"config": np.array('{"algorithm": {"grid_spacing": 0}}')},
    }
    found = {}
    for name, changed in arrays.items():
        kept = {} if name == "nothing" else {**good, **changed}
        found[name] = folder / f"{name}.npz"
        np.savez(found[name], **{k: v for k, v in kept.items() if v is not None})  # type: ignore[arg-type]
    objects = folder / "objects.npz"
    np.savez(objects, **{**good, "reward": np.array([object()])}, allow_pickle=True)  # type: ignore[arg-type]
    whole = (folder / "other slots.npz").read_bytes()
    texts: dict[str, str | bytes] = {
        "no archive": "no map",
        "one array": _npy(np.ones(3)),
        "cut archive": whole[: len(whole) // 2],
        "broken bytes": whole[:300] + b"\xff" * 300 + whole[600:],
        "encrypted": re.sub(rb"(?s)(?<=PK\x01\x02....)..", lambda _: b"\1\0", whole),
        "shape too large": _forged(shape="(1000000000000, 601)"),
        "shape below zero": _forged(shape="(-5, 601)"),
        "shape without an end": _forged(shape="(5, ("),
        "shape of words": _forged(shape="('a', 'b')"),
        "shape of code": _forged(shape="(__import__('os').system('x'), 601)"),
        "bomb": _bomb(200 << 20),
    }
    return found | {"objects": objects} | _written(folder, "npz", texts)


def bad_surveys(folder: Path) -> dict[str, Path]:
    """npz archives that are no repeated survey."""
    config = load_config()
    walks = [
        Survey.of([Sample(x, 1.0, 0.1, 60.0 * n + x) for x in (0.0, 3.0, 6.0)], 60.0 * n + 6.0)
        for n in range(3)
    ]
    good, found = folder / "walks.npz", {}
    save_walks(good, config, walks, {})
    with np.load(good) as archive:
        arrays = dict(archive)
    changes: dict[str, dict[str, object]] = {
        "one walk": {"walk": np.full(9, 3)},
        "no times": {"unix_s": None},
        "no config": {"config": None},
        "config of words": {"config": np.array("words")},
        "positions of words": {"position": np.full(9, "a")},
        "fewer rewards": {"reward": np.ones(4)},
        "fewer times": {"unix_s": np.ones(4)},
        "nan for a time": {"unix_s": np.full(9, np.nan)},
        "a time off": {"unix_s": np.linspace(0.0, 1e300, 9)},
        "all at once": {"unix_s": np.zeros(9)},
        "off the rail": {"position": np.full(9, 1e9)},
        "nan for a reward": {"reward": np.full(9, np.nan)},
    }
    for name, changed in changes.items():
        kept = {key: value for key, value in {**arrays, **changed}.items() if value is not None}
        found[name] = folder / f"survey {name}.npz"
        np.savez(found[name], **kept)
    good.unlink()
    return found


def bad_run_files(folder: Path) -> dict[str, Path]:
    """SQLite files that are not run files, or damaged ones."""
    statements: dict[str, list[str]] = {
        "another program's": ["CREATE TABLE a (b)"],
        "marked but empty": [f"PRAGMA application_id = {APPLICATION_ID}"],
        "no header": list(CREATE),
        "of the future": [*CREATE[:-1], f"PRAGMA user_version = {FORMAT + 1}"],
        "of a future without a version": [
            *CREATE[:-1],
            f"PRAGMA user_version = {FORMAT + 1}",
            "INSERT INTO header VALUES ('version', '{')",
        ],
        "tables are views": [
            "CREATE VIEW header AS SELECT 'version' AS key, '\"1\"' AS value",
            "CREATE VIEW slots AS WITH RECURSIVE n(slot) AS "
            "(SELECT 1 UNION ALL SELECT slot + 1 FROM n) SELECT slot FROM n",
            "CREATE VIEW events AS SELECT * FROM slots",
            *CREATE[-2:],
        ],
    }
    found = {}
    for name, lines in statements.items():
        found[name] = folder / f"{name}.sqlite"
        with closing(sqlite3.connect(found[name])) as connection:
            for line in lines:
                connection.execute(line)
            connection.commit()
    header = (folder / "no header.sqlite").read_bytes()
    texts: dict[str, str | bytes] = {
        "cut file": header[: len(header) // 2],
        "page of noise": header[:4096] + b"\xa5" * 4096,
        "text": "x" * 5000,
        "empty": "",
    }
    return found | _written(folder, "sqlite", texts)


def good_map(path: Path) -> Path:
    """A small map that `replay` accepts."""
    config = load_config()
    simulate_map(config, 1, 5).save(path)
    return path


def _written(folder: Path, ending: str, texts: dict[str, str | bytes]) -> dict[str, Path]:
    found = {}
    for name, text in texts.items():
        found[name] = folder / f"{name}.{ending}"
        found[name].write_bytes(text.encode() if isinstance(text, str) else text)
    return found


def _npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, array)  # type: ignore[arg-type]
    return file.getvalue()


def _forged(*, shape: str) -> bytes:
    """An archive whose reward claims a shape that it does not have."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"\0" * 80
    return _archive(array, zipfile.ZIP_STORED)


def _bomb(size: int) -> bytes:
    """An archive of a few hundred kilobytes that unpacks to much more."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({size // 8 // GRID}, {GRID}), }}"
    header = header.ljust(117) + "\n"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(size)
    return _archive(array, zipfile.ZIP_DEFLATED)


def _archive(reward: bytes, compression: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression, compresslevel=1) as archive:
        archive.writestr("reward.npy", reward)
        for name, size in (("noise", 5), ("survey_position", 2), ("survey_reward", 2)):
            archive.writestr(f"{name}.npy", _npy(np.zeros(size)))
    return file.getvalue()
