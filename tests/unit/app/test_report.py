"""`macontrol report`: its figures, compared with computations of their own from the SQLite file."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import struct
import subprocess
import sys
import zlib
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import macontrol
from macontrol.cli import main
from macontrol.config import Config, load_config
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.recording.records import Event, EventKind, LateReward, SlotRecord
from macontrol.controller.recording.runfile import Sample
from macontrol.controller.survey.samples import Survey
from macontrol.reports.drawing import Axis, block_means, extremes
from macontrol.reports.estimate import Estimate, estimate_at
from macontrol.reports.raster import heat_map
from macontrol.reports.recorded import read_recorded
from macontrol.reports.run_report import reference_of, report, summary
from support.sample_run import CLOCK, SURVEY, slot_record, start_run, write_run
from support.sample_run import CONFIG as SAMPLE_CONFIG

Floats = NDArray[np.float64]

BEFORE = Path(__file__).parents[2] / "fixtures" / "before-packages"
CONFIG = load_config().replace(
    algorithm__grid_spacing=0.06, algorithm__window=60, survey__samples=20
)
SLOTS = 200


class Page(HTMLParser):
    """Collects the text of a page, and everything that it would fetch or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.loads: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "path", "image"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "xlink:href") or name.startswith("on"):
                self.loads.append(f"{value}")
        assert tag != "script"

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("meta", "link", "path", "image"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def page_of(path: Path) -> Page:
    found = Page(report(read_recorded(path)))
    assert found.open == []
    assert all(load.startswith("data:") for load in found.loads)
    return found


def rows_of(path: Path, columns: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT {columns} FROM slots ORDER BY slot").fetchall()


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the daemon in simulation, and its summary beside."""
    folder = tmp_path_factory.mktemp("run")
    settings = ["algorithm.grid_spacing=0.06", "algorithm.window=60", "survey.samples=20"]
    command = [sys.executable, "-m", "macontrol", "--backend", "sim", "--fast", "--regret"]
    command += ["--slots", str(SLOTS), "--seed", "4", "--run", "run.sqlite", "--log", "json"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    (folder / "summary.json").write_text(done.stdout.splitlines()[-1])
    return folder / "run.sqlite"


def test_the_figures_are_those_of_the_summary(simulated: Path) -> None:
    expected = json.loads((simulated.parent / "summary.json").read_text())
    recorded = read_recorded(simulated)
    facts, found = recorded.facts, reference_of(recorded)
    assert found.world is not None
    assert facts.slots == expected["slots"] == SLOTS
    assert facts.switches == expected["switches"]
    assert facts.transit / facts.slots == expected["transit_share"]
    assert facts.mean_reward == pytest.approx(expected["reward_per_slot"], rel=1e-12)
    assert facts.travel == pytest.approx(expected["travel"], rel=1e-9)
    assert found.world.mean_fixed == pytest.approx(expected["fixed_antenna_reward"], rel=1e-9)
    assert found.world.gain == pytest.approx(expected["gain_over_fixed"], rel=1e-9)
    assert found.regret == pytest.approx(expected["regret_per_slot"], rel=1e-9)
    theory = facts.theory()
    assert list(theory) == list(expected["theory"])
    for name, verdict in expected["theory"].items():
        assert theory[name].holds == verdict["holds"]
        for part in ("value", "bound"):
            value = getattr(theory[name], part)
            assert value == pytest.approx(verdict[part], rel=1e-9, abs=1e-9), name


def test_the_oracle_is_that_of_the_map(simulated: Path) -> None:
    found = reference_of(read_recorded(simulated))
    world = macontrol.simulate_map(CONFIG, seed=4, slots=SLOTS)
    assert found.oracle is not None
    best = macontrol.oracle(world)
    np.testing.assert_allclose(found.oracle.reward, best.reward)
    assert found.oracle.net_per_slot == pytest.approx(best.net_reward_per_slot)


def regression(
    config: Config, survey: Survey, samples: list[tuple[float, float]], grid: Floats
) -> tuple[Floats, Floats]:
    """Mean and deviation by the equations themselves, for the last samples of the window."""
    at, reward = np.array(samples[-config.algorithm.window :]).T
    kernel = kernel_from_config(config.kernel)
    scale = float(np.var(survey.reward, ddof=1)) - config.noise_std**2
    scale = max(scale, config.survey.variance_floor)
    gram = scale * kernel(at[:, None] - at[None, :])
    cross = scale * kernel(grid[:, None] - at[None, :])
    solved = np.linalg.solve(gram + config.algorithm.ridge * np.eye(len(at)), cross.T)
    variance = scale - np.einsum("ij,ji->i", cross, solved)
    return solved.T @ reward, np.sqrt(np.maximum(variance, 0.0))


def survey_samples(survey: Survey) -> list[tuple[float, float]]:
    return list(zip(survey.position.tolist(), survey.reward.tolist(), strict=True))


@pytest.mark.parametrize("row", [4, 90, SLOTS - 1])
def test_the_posterior_is_the_regression_of_the_window(simulated: Path, row: int) -> None:
    recorded = read_recorded(simulated)
    found = estimate_at(recorded, row)
    assert isinstance(found, Estimate)
    survey = recorded.header.survey
    assert survey is not None
    own = rows_of(simulated, "position, reward")[: row + 1]
    samples = [*survey_samples(survey), *own]
    mean, deviation = regression(CONFIG, survey, samples, found.grid)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.deviation, deviation, atol=1e-4)
    assert found.agrees
    assert found.samples == min(row + 1, 60)


def test_a_continued_run_began_with_the_window_of_the_earlier_one(tmp_path: Path) -> None:
    window = tuple(Sample(slot, slot / 9, slot / 5) for slot in range(1, 10))
    path = write_run(tmp_path / "run.sqlite", range(10, 18), window=window)
    found = estimate_at(read_recorded(path), 5)
    assert isinstance(found, Estimate)
    own = [(x, r) for x, r in rows_of(path, "position, reward")[:6] if r is not None]
    earlier = [(sample.position, sample.reward) for sample in window]
    samples = [*survey_samples(SURVEY), *earlier, *own]
    mean, _ = regression(SAMPLE_CONFIG, SURVEY, samples, found.grid)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    assert found.samples == len(window) + len(own) == 14


@pytest.mark.parametrize("policy", ["gp-ucb", "epsilon-greedy", "fixed", "sweep-and-hold"])
def test_every_policy_has_a_report(tmp_path: Path, policy: str) -> None:
    path = tmp_path / "run.sqlite"
    macontrol.run_simulated(policy, CONFIG, slots=60, run_file=path)
    words = page_of(path).words
    assert policy in words
    assert ("has no posterior" in words) == (policy in ("fixed", "sweep-and-hold"))


def test_a_late_reward_is_unknown_until_it_arrives(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    file = start_run(path, backend="serial", stage="stage")
    for slot in range(1, 9):
        is_late = slot == 4
        reward = None if is_late else 3.0
        file.submit(slot_record(slot, reward=reward, invalid="not-ready" if is_late else None))
        if slot == 6:
            file.submit(LateReward(4, 9.0, None))
            file.submit(Event(4, CLOCK, EventKind.LATE_REWARD, "late", 2.0))
    file.close()
    recorded = read_recorded(path)
    assert recorded.facts.late_rewards == 1
    samples = [estimate_at(recorded, row) for row in range(8)]
    counts = [one.samples for one in samples if isinstance(one, Estimate)]
    assert counts == [1, 2, 3, 3, 4, 6, 7, 8]


def test_faults_and_missed_slots_are_counted(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 41))
    with closing(sqlite3.connect(path)) as connection:
        for number, (kind, value) in enumerate(
            [("stage-fault", None), ("missed-slots", 3.0), ("missed-slots", 4.0), ("odd", 2.0)], 10
        ):
            connection.execute(
                "INSERT INTO events VALUES (?, 5, 5000.0, ?, 'what happened', ?)",
                (number, kind, value),
            )
        connection.commit()
        invalid = dict(
            connection.execute(
                "SELECT invalid, count(*) FROM slots WHERE invalid IS NOT NULL GROUP BY invalid"
            )
        )
    recorded = read_recorded(path)
    assert recorded.facts.missed == 7
    assert recorded.facts.faults == 1
    assert dict(recorded.facts.invalid) == invalid == {"gap": 3}
    text = summary(recorded, reference_of(recorded))
    assert "1 fault occurred" in text
    assert "10 slots (21.3%) gave no measurement" in text
    assert "samples are missing" in page_of(path).words  # the meaning of "gap"


def test_the_summary_compares_with_the_fixed_antenna_where_it_is_known(
    simulated: Path, tmp_path: Path
) -> None:
    recorded = read_recorded(simulated)
    found = reference_of(recorded)
    assert found.world is not None
    assert found.world.gain is not None
    text = summary(recorded, found)
    assert f"{abs(found.world.gain):.0%} {'more' if found.world.gain > 0 else 'less'}" in text
    worse = replace(found.world, earned=0.5 * found.world.fixed)
    assert "50% less" in summary(recorded, replace(found, world=worse))
    path = tmp_path / "hardware.sqlite"
    path.write_bytes(simulated.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE header SET value = '\"serial\"' WHERE key = 'backend'")
        connection.commit()
    hardware = read_recorded(path)
    survey = hardware.header.survey
    assert survey is not None
    at_x_0 = np.interp(CONFIG.physical.x_0, survey.position, survey.reward)
    text = summary(hardware, reference_of(hardware))
    assert "What a fixed antenna would have reached is unknown" in text
    assert f"the survey measured {at_x_0:.2f} at x_0" in text
    assert "unknown" in page_of(path).words


def test_the_page_has_the_settings_with_their_origins_and_the_versions(simulated: Path) -> None:
    words = page_of(simulated).words
    assert "algorithm.window 60 --set" in words
    assert "run.seed 4 --set" in words
    assert "physical.region_length 6.0 default" in words
    assert np.__version__ in words
    assert "VIOLATED" not in words


def test_text_of_a_run_file_stays_text(tmp_path: Path) -> None:
    path = write_run(tmp_path / "<i>run.sqlite", range(1, 41))
    hostile = '<script>alert(1)</script><img src=x onerror="x">'
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO events VALUES (99, 5, 5000.0, 'warning', ?, NULL)", (hostile,)
        )
        connection.execute("UPDATE slots SET invalid = ? WHERE slot = 7", (hostile[:90],))
        for key in ("stage", "policy", "host", "version", "numpy", "clock"):
            if key != "clock":
                text = json.dumps(hostile)
                connection.execute("UPDATE header SET value = ? WHERE key = ?", (text, key))
        connection.commit()
    found = page_of(path)  # it refuses a script and anything to fetch
    assert hostile in found.words


@pytest.mark.parametrize("slots", [0, 1, 2, 3])
def test_a_short_run_has_a_report(tmp_path: Path, slots: int) -> None:
    path = tmp_path / "run.sqlite"
    write_run(path, range(1, slots + 1))
    words = page_of(path).words
    assert ("No slot of this run was recorded" in words) == (slots == 0)
    macontrol.run_simulated("moveucb", CONFIG, slots=max(slots, 1), run_file=tmp_path / "sim")
    page_of(tmp_path / "sim")


def test_a_run_without_a_reward_or_a_position_has_a_report(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    macontrol.run_simulated("moveucb", CONFIG, slots=20, run_file=path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE slots SET reward = NULL, invalid = 'gap'")
        connection.commit()
    assert "no measurement was valid" in page_of(path).words
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE slots SET position = NULL")
        connection.execute("UPDATE slots SET stored_target = '', stored_next_position = ''")
        connection.commit()
    page_of(path)


@pytest.mark.parametrize("name", ["run", "lab-run"])
def test_a_run_of_an_earlier_version_has_a_report(name: str) -> None:
    words = page_of(BEFORE / f"{name}.sqlite").words
    assert "more than an antenna fixed" in words
    assert "does not record where the values were set" in words


def test_a_continued_run_is_reported_without_the_oracle(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    macontrol.run_simulated("moveucb", CONFIG, slots=80, run_file=path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM slots WHERE slot <= 30")
        connection.commit()
    found = reference_of(read_recorded(path))
    assert found.world is not None
    assert (found.oracle, found.regret) == (None, None)
    assert "begin at slot 1" in page_of(path).words


def test_the_paper_s_horizon_is_a_small_page_with_figures_of_all_slots(tmp_path: Path) -> None:
    path, out = tmp_path / "run.sqlite", tmp_path / "page.html"
    run = ["--backend", "sim", "--fast", "--slots", "15300", "--run", str(path), "--log", "json"]
    assert main(run) == 0
    assert main(["report", str(path), "--out", str(out)]) == 0
    assert out.stat().st_size < 3_000_000
    recorded = read_recorded(path)
    (mean, count) = rows_of(path, "avg(reward), count(*)")[0]
    assert recorded.facts.mean_reward == pytest.approx(mean)
    assert f"({count} slots)" in Page(out.read_text()).words


def test_a_run_is_reported_while_it_is_recorded(tmp_path: Path) -> None:
    path, out = tmp_path / "live.sqlite", tmp_path / "page.html"
    command = [sys.executable, "-m", "macontrol", "--backend", "sim", "--preset", "demo"]
    options = ["--run", str(path), "--log", "json", "--name", "test-of-report"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while '"event": "start"' not in process.stdout.readline():
            pass
        while not rows_of_live(path):
            pass
        assert main(["report", str(path), "--out", str(out)]) == 0
        process.terminate()
        process.communicate()
    assert "being recorded" in Page(out.read_text()).words
    assert main(["report", str(path), "--out", str(out)]) == 0
    assert "ended" in Page(out.read_text()).words
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM events WHERE kind = 'stop'")
        connection.commit()
    assert "cut off" in page_of(path).words


def rows_of_live(path: Path) -> int:
    return len(macontrol.open_run(path))


def test_the_newest_run_is_reported_by_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 66
    (tmp_path / "state").mkdir()
    write_run(tmp_path / "state" / "mine.sqlite", range(1, 20))
    assert main(["report"]) == 0
    assert capsys.readouterr().out == "Written: mine.html\n"
    assert "Run mine" in Page((tmp_path / "mine.html").read_text()).words


def test_unusable_runs_and_outputs_are_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 20))
    out = tmp_path / "page.html"
    assert main(["report", str(path), "--out", str(path)]) == 64
    assert main(["report", str(path), "--out", str(tmp_path / "no" / "page.html")]) == 74
    assert main(["report", str(tmp_path / "nothing"), "--out", str(out)]) == 66
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert main(["report", str(path), "--out", str(out)]) == 65
    assert not out.exists()


def test_a_heat_map_is_a_png_of_the_values() -> None:
    values = np.array([[0.0, 1.0, 0.5], [np.nan, -9.0, 9.0]])
    data = base64.b64decode(heat_map(values, 0.0, 1.0).partition(",")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    assert struct.unpack(">IIBB", chunks[b"IHDR"][:10]) == (3, 2, 8, 3)
    pixels = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(2, 4)
    assert pixels.tolist() == [[0, 0, 254, 127], [0, 255, 0, 254]]
    brightness = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3).sum(axis=1).astype(int)
    assert len(brightness) == 256
    assert (np.diff(brightness[:255]) >= 0).all()
    assert list(chunks[b"tRNS"]) == [255] * 255 + [0]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 10.0, ["0", "2", "4", "6", "8", "10"]),
        (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-0.03, 0.04, ["-0.02", "0.00", "0.02", "0.04"]),
        (3.0, 3.0, []),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[str]) -> None:
    ticks = Axis(low, high).ticks()
    assert [text for _, text in ticks] == expected
    for share, text in ticks:
        assert low + share * (high - low) == pytest.approx(float(text), abs=1e-9)


def test_a_logarithmic_axis_has_a_tick_per_decade() -> None:
    ticks = Axis(1e-5, 1.0, logarithmic=True).ticks()
    assert [text for _, text in ticks] == ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]
    assert [share for share, _ in ticks] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def test_drawing_keeps_extremes_and_means() -> None:
    x = np.arange(50_000.0)
    y = np.sin(x / 900)
    y[31_234], y[777] = 9.0, np.nan
    few_x, few_y = extremes(x, y)
    assert len(few_x) < 1500
    assert np.nanmax(few_y) == 9.0
    assert set(zip(few_x[np.isfinite(few_y)], few_y[np.isfinite(few_y)], strict=True)) <= set(
        zip(x, y, strict=True)
    )
    at, means = block_means([x, y])
    assert len(at) <= 240
    edges = np.unique(np.linspace(0, 50_000, 241).astype(int))
    for number in (0, 3, 150, len(means) - 1):
        block = slice(edges[number], edges[number + 1])
        assert means[number] == pytest.approx(np.nanmean(y[block]))
        assert at[number] == pytest.approx(x[block].mean())


def test_timing_histograms_count_every_slot(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    file = start_run(path, backend="serial", stage="stage")
    durations = [1e-5] * 90 + [2e-3] * 10
    for slot, seconds in enumerate(durations, start=1):
        record: SlotRecord = slot_record(slot, decide_s=seconds, reward=1.0)
        file.submit(record)
    file.close()
    words = page_of(path).words
    assert "median 10 µs, 99 % within 2 ms, longest 2 ms" in words
    assert re.search(r"left for the decision: [\d.]+ µs", words)
