"""A config is Table 1 unless it says otherwise, and what makes no sense is refused by name."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from macontrol.config import (
    Config,
    differing_keys,
    load_config,
    preset_names,
    preset_text,
    stored_config,
)
from macontrol.config.drivers import DRIVERS
from macontrol.config.key_help import key_help
from macontrol.config.loading import values_of
from macontrol.config.model.errors import ConfigError, DataError
from macontrol.config.presets import preset_tables
from macontrol.config.toml_text import paths_in

TABLE_1: dict[str, object] = {
    "physical.carrier_frequency_hz": 30e9,
    "physical.region_length": 6.0,
    "physical.slot_duration_s": 0.005,
    "physical.actuation_time_s": 0.001,
    "physical.actuator_speed_m_per_s": 0.6,
    "physical.stroke": 0.06,
    "physical.initial_position": "auto",
    "reward.movement_cost": 0.3,
    "reward.snr_db": 10.0,
    "reward.noise_level": 0.05,
    "run.horizon": 15300,
    "survey.samples": 100,
    "channel.path_powers": (0.6, 0.2, 0.2),
    "channel.sector_deg": (30.0, 150.0),
    "channel.angular_spread_deg": 2.0,
    "channel.sub_rays": 16,
    "channel.blockage_db": 10.0,
    "channel.shadow_extent": "auto",
    "channel.shadow_edge": 0.3,
    "drift.angle_correlation": 0.9999,
    "drift.angle_step_deg": 0.1,
    "drift.gain_correlation": 0.9997,
    "drift.shadow_step": 0.01,
    "drift.change_angle_deg": 0.5,
    "kernel.components": 3,
    "kernel.fringe_periods": (4.15, 1.81, 1.04),
    "kernel.fringe_damping": 2.0,
    "kernel.residual_length": 4.0,
    "kernel.constant_weight": 0.25,
    "kernel.residual_weight": 0.25,
    "algorithm.window": 300,
    "algorithm.eta": 2.0,
    "algorithm.margin": 0.1,
    "algorithm.ridge": 0.1,
    "algorithm.grid_spacing": 0.01,
}


def value_of(config: Config, path: str) -> Any:
    section, key = path.split(".")
    return getattr(getattr(config, section), key)


class TestPaperPreset:
    @pytest.mark.parametrize(("path", "value"), TABLE_1.items(), ids=TABLE_1.keys())
    def test_it_is_table_1(self, paper: Config, path: str, value: object) -> None:
        assert value_of(paper, path) == value

    def test_what_follows_from_table_1(self, paper: Config) -> None:
        assert paper.physical.x_0 == 3.0
        assert paper.physical.rho_max == 0.06
        assert paper.physical.transmission_share == pytest.approx(0.8)
        assert paper.g_max == pytest.approx(3.963, abs=5e-4)
        assert paper.noise_std == pytest.approx(0.05 * paper.g_max)
        assert paper.grid_size == 601
        assert paper.shadow_extent == 3.0
        assert paper.change_points == 124  # ⌈√15300⌉
        assert paper.algorithm.policy == "moveucb"
        assert paper.channel.scenario == "blocked"
        assert paper.drift.model == "continuous"

    def test_its_text_and_the_defaults_are_the_whole_config(self, paper: Config) -> None:
        tables = tomllib.loads(preset_text("paper"))
        assert Config.model_validate(tables) == paper
        names = {"algorithm": ["policy"], "stage": ["driver"], "probe": ["driver"]}
        assert {section: list(table) for section, table in tables.items()} == names

    @pytest.mark.parametrize(
        "key",
        [
            "channel.sub_ray_phases",
            "channel.shadow_edge",
            "drift.shadow_reversion",
            "drift.change_gain_retention",
            "survey.variance_floor",
            "kernel.se_length",
        ],
    )
    def test_what_the_paper_leaves_open_is_marked_as_an_assumption(self, key: str) -> None:
        assert key_help(load_config())[key].startswith("open: ")

    @pytest.mark.parametrize("preset", preset_names())
    def test_a_preset_has_only_what_differs(self, preset: str) -> None:
        config, tables = load_config(preset=preset), preset_tables(preset)[-1][1]
        drivers = [f"{section}.driver={getattr(config, section).driver}" for section in DRIVERS]
        differing = differing_keys(config, load_config(assignments=drivers))
        settings = {path for path, _ in values_of(config)} & set(paths_in(tables))
        names = {"algorithm.policy", "stage.driver", "probe.driver"}
        assert settings - names == (differing.keys() & settings) - names

    def test_it_is_there_to_be_named(self) -> None:
        assert "paper" in preset_names()
        assert load_config(preset="paper") == load_config()

    def test_the_demo_is_the_papers_run_in_slower_slots(self) -> None:
        demo, paper = load_config(preset="demo"), load_config()
        assert demo.physical.slot_duration_s > paper.physical.slot_duration_s
        assert demo.physical.rho_max == paper.physical.rho_max
        assert demo.g_max == pytest.approx(paper.g_max)
        physical = paper.physical
        assert paper == demo.replace(
            physical__slot_duration_s=physical.slot_duration_s,
            physical__actuation_time_s=physical.actuation_time_s,
            timing__guard_share=paper.timing.guard_share,
            timing__decision_share=paper.timing.decision_share,
        )


class TestStored:
    """A config as a map or a run file keeps it."""

    def test_it_is_read_again(self, paper: Config) -> None:
        other = paper.replace(algorithm__beta=2.0, channel__sub_ray_phases="random")
        assert stored_config(other.model_dump_json()) == other

    def test_settings_newer_than_the_file_are_as_earlier_versions_had_them(
        self, paper: Config
    ) -> None:
        tables = json.loads(paper.replace(run__seed=9).model_dump_json())
        del tables["channel"]["sub_ray_phases"]
        assert stored_config(json.dumps(tables)) == paper.replace(run__seed=9)

    @pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"physical": {}}', "nonsense"])
    def test_what_is_not_a_config_is_refused(self, text: str) -> None:
        with pytest.raises(DataError):
            stored_config(text)

    def test_it_takes_the_place_of_the_default_preset(self, paper: Config, tmp_path: Path) -> None:
        stored = paper.replace(run__seed=9, algorithm__beta=2.0)
        file = tmp_path / "some.toml"
        file.write_text("[algorithm]\neta = 1.0\n")
        assert load_config(base=stored) == stored
        assert load_config(file, base=stored) == stored.replace(algorithm__eta=1.0)
        assert load_config(assignments=["run.seed=3"], base=stored) == stored.replace(run__seed=3)
        assert load_config(preset="paper", base=stored) == paper

    def test_differences_are_named_key_by_key(self, paper: Config) -> None:
        other = paper.replace(run__seed=9, algorithm__beta=2.0)
        assert differing_keys(other, paper) == {
            "algorithm.beta": (2.0, "auto"),
            "run.seed": (9, 1),
        }
        assert differing_keys(paper, paper) == {}


class TestBeta:
    def test_each_policy_has_its_own_optimum(self, paper: Config) -> None:
        assert paper.algorithm.beta_for("moveucb") == 1.5
        assert paper.algorithm.beta_for("gp-ucb") == 3.5

    def test_a_beta_that_is_set_is_meant_for_all(self) -> None:
        algorithm = load_config(assignments=["algorithm.beta=2"]).algorithm
        assert algorithm.beta_for("moveucb") == algorithm.beta_for("gp-ucb") == 2.0


class TestAssignments:
    @pytest.mark.parametrize(
        ("assignment", "path", "value"),
        [
            ("algorithm.beta=2", "algorithm.beta", 2.0),
            ("algorithm.beta = 2.5 ", "algorithm.beta", 2.5),
            ("algorithm.beta=auto", "algorithm.beta", "auto"),
            ('algorithm.beta="auto"', "algorithm.beta", "auto"),
            ("algorithm.policy=gp-ucb", "algorithm.policy", "gp-ucb"),
            ("algorithm.use_persistence=false", "algorithm.use_persistence", False),
            ("channel.sector_deg=[20, 90.5]", "channel.sector_deg", (20.0, 90.5)),
            ("run.horizon=1_000", "run.horizon", 1000),
            ("physical.carrier_frequency_hz=3e10", "physical.carrier_frequency_hz", 3e10),
        ],
    )
    def test_values_are_read_as_toml_or_as_text(
        self, assignment: str, path: str, value: object
    ) -> None:
        assert value_of(load_config(assignments=[assignment]), path) == value

    def test_the_last_one_counts(self) -> None:
        config = load_config(assignments=["algorithm.eta=1", "algorithm.eta=3"])
        assert config.algorithm.eta == 3.0

    @pytest.mark.parametrize("text", ["", "algorithm", "algorithm.beta", "beta=2", ".=2", "a.=2"])
    def test_what_is_no_assignment_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError, match=r"write it as section\.key=value"):
            load_config(assignments=[text])

    def test_a_second_value_is_not_smuggled_in(self) -> None:
        with pytest.raises(ConfigError, match=r"algorithm\.beta"):
            load_config(assignments=["algorithm.beta=2\neta=3"])


class TestFiles:
    def write(self, folder: Path, text: str) -> Path:
        path = folder / "bench.toml"
        path.write_text(text, "utf-8")
        return path

    def test_a_file_changes_what_it_names_and_keeps_the_rest(
        self, paper: Config, tmp_path: Path
    ) -> None:
        path = self.write(tmp_path, "[algorithm]\nbeta = 2.0\nwindow = 50\n[run]\nseed = 9\n")
        expected = paper.replace(algorithm__beta=2.0, algorithm__window=50, run__seed=9)
        assert load_config(path) == expected

    def test_assignments_come_after_the_file(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "[algorithm]\nbeta = 2.0\neta = 1.0\n")
        algorithm = load_config(path, ["algorithm.beta=4"]).algorithm
        assert (algorithm.beta, algorithm.eta) == (4.0, 1.0)

    def test_a_file_may_name_its_preset(self, paper: Config, tmp_path: Path) -> None:
        path = self.write(tmp_path, 'preset = "paper"\n[run]\nseed = 9\n')
        assert load_config(path) == load_config(path, preset="paper") == paper.replace(run__seed=9)

    def test_an_empty_file_is_the_preset(self, paper: Config, tmp_path: Path) -> None:
        assert load_config(self.write(tmp_path, "")) == paper

    @pytest.mark.parametrize("named", ['"nope"', "3", '["paper"]'])
    def test_a_preset_that_is_none_is_refused(self, tmp_path: Path, named: str) -> None:
        with pytest.raises(ConfigError, match="preset"):
            load_config(self.write(tmp_path, f"preset = {named}\n"))

    @pytest.mark.parametrize(
        "content",
        [
            b"a = [[[[",
            b"\xff\xfe",
            b"[algorithm\nbeta=2",
            b"x = " + b"1" * 5000,
            b"x=" + b"[" * 9999,
        ],
        ids=["cut", "bytes", "bracket", "digits", "depth"],
    )
    def test_what_is_not_toml_is_refused(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "broken.toml"
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"broken\.toml: this is not TOML"):
            load_config(path)

    def test_a_file_that_is_none_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="there is no such file"):
            load_config(tmp_path / "missing.toml")
        with pytest.raises(ConfigError, match="is a folder"):
            load_config(tmp_path)

    def test_an_error_names_the_file(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "[algorithm]\nwindow = 0\n")
        with pytest.raises(ConfigError) as caught:
            load_config(path, ["algorithm.eta=-1"])
        assert f"algorithm.window = 0 ({path}, line 2): " in str(caught.value)
        assert "algorithm.eta = -1 (--set algorithm.eta=-1): " in str(caught.value)


REFUSED = [
    # unknown
    ("algorithm.bta=2", "algorithm.bta", "unknown key; did you mean beta?"),
    ("algorithm.zzz=2", "algorithm.zzz", "unknown key; known are: policy, beta, "),
    ("algoritm.beta=2", "algoritm", "unknown section; did you mean algorithm?"),
    ("foo.bar=2", "foo", "unknown section; known are: physical, "),
    # out of range
    ("physical.slot_duration_s=1e15", "physical.slot_duration_s", "less than or equal to 3600"),
    ("algorithm.window=0", "algorithm.window", "greater than or equal to 1"),
    ("algorithm.window=-5", "algorithm.window", "greater than or equal to 1"),
    ("algorithm.window=10001", "algorithm.window", "less than or equal to 10000"),
    ("algorithm.beta=-1", "algorithm.beta", "greater than or equal to 0"),
    ("algorithm.eta=-0.1", "algorithm.eta", "greater than or equal to 0"),
    ("algorithm.margin=-0.1", "algorithm.margin", "greater than or equal to 0"),
    ("algorithm.ridge=0", "algorithm.ridge", "greater than or equal to 0.000001"),
    ("algorithm.epsilon=1.5", "algorithm.epsilon", "less than or equal to 1"),
    ("algorithm.sweep_period=0", "algorithm.sweep_period", "greater than or equal to 1"),
    ("algorithm.grid_spacing=0", "algorithm.grid_spacing", "greater than 0"),
    ("physical.region_length=-6", "physical.region_length", "greater than 0"),
    ("physical.initial_position=-1", "physical.initial_position", "greater than or equal to 0"),
    ("survey.samples=1", "survey.samples", "greater than or equal to 2"),
    ("run.horizon=0", "run.horizon", "greater than or equal to 1"),
    ("run.seed=-1", "run.seed", "greater than or equal to 0"),
    ("kernel.components=-1", "kernel.components", "greater than or equal to 0"),
    ("reward.noise_level=-0.1", "reward.noise_level", "greater than or equal to 0"),
    ("drift.gain_correlation=1.1", "drift.gain_correlation", "less than or equal to 1"),
    ("channel.path_powers=[]", "channel.path_powers", "at least 1 item"),
    # no numbers, or not the kind that is asked for
    ("algorithm.beta=nan", "algorithm.beta", "finite number"),
    ("algorithm.beta=inf", "algorithm.beta", "finite number"),
    ("algorithm.beta=true", "algorithm.beta", "valid number"),
    ('algorithm.beta="2"', "algorithm.beta", "valid number"),
    ("algorithm.beta=two", "algorithm.beta", "valid number"),
    ("algorithm.beta=", "algorithm.beta", "valid number"),
    ("algorithm.beta=[1]", "algorithm.beta", "valid number"),
    ("algorithm.beta=2020-01-01", "algorithm.beta", "valid number"),
    ("algorithm.window=true", "algorithm.window", "valid integer"),
    ("algorithm.window=300.0", "algorithm.window", "valid integer"),
    ("algorithm.window=w", "algorithm.window", "valid integer"),
    ("algorithm.use_persistence=1", "algorithm.use_persistence", "valid boolean"),
    ("algorithm.policy=best", "algorithm.policy", "known are: epsilon-greedy, "),
    ("kernel.name=matern", "kernel.name", "'physics', 'se', 'const-se' or 'nonoscillatory'"),
    ("kernel.sector_deg=[true, 150]", "kernel.sector_deg", "valid number"),
    ("kernel.sector_deg=[30]", "kernel.sector_deg", ""),
    ("kernel.fringe_periods=[4.15, 0, 1]", "kernel.fringe_periods", "greater than 0"),
    # beyond all bounds
    (f"run.seed={'1' * 5000}", "run.seed", "valid integer"),
    (f"run.horizon=1{'0' * 400}", "run.horizon", "less than or equal to"),
    (f"algorithm.beta=1{'0' * 400}", "algorithm.beta", "number"),
    ("algorithm.beta=1e999", "algorithm.beta", "finite number"),
    (f"algorithm.beta={'[' * 5000}", "algorithm.beta", "valid number"),
    ("physical.actuator_speed_m_per_s=1e308", "physical.actuator_speed_m_per_s", "less than"),
    # contradictions
    ("physical.actuation_time_s=0.005", "physical.actuation_time_s", "_s to at most 0.00435"),
    ("physical.actuation_time_s=0.006", "physical.actuation_time_s", "_s to at most 0.00435"),
    ("physical.slot_duration_s=0.001", "physical.actuation_time_s", "_s to at most 0.000871"),
    ("physical.stroke=0.009", "physical.stroke", "below one grid step of 0.01"),
    ("physical.actuator_speed_m_per_s=0.09", "physical.stroke", "below one grid step"),
    ("physical.stroke=0.07", "physical.stroke", "v·T_a = 0.0600415"),
    ("physical.initial_position=6.1", "physical.initial_position", "_position to at most 6"),
    ("algorithm.grid_spacing=0.011", "algorithm.grid_spacing", "_spacing to 0.01100917431193"),
    ("algorithm.grid_spacing=7", "algorithm.grid_spacing", "_spacing to 0.06"),
    ("algorithm.grid_spacing=1e-5", "algorithm.grid_spacing", "_spacing to 6e-05 or more"),
    ("algorithm.grid_spacing=1e-300", "algorithm.grid_spacing", "_spacing to 6e-05 or more"),
    ("kernel.components=2", "kernel.fringe_periods", 'give 2 periods, or "auto"'),
    ("kernel.constant_weight=0.8", "kernel.constant_weight", "together they may make at most 1"),
    ("kernel.sector_deg=[150, 30]", "kernel.sector_deg", "two angles that rise"),
    ("kernel.sector_deg=[0, 181]", "kernel.sector_deg", "within [0, 180]"),
    ("channel.sector_deg=[-1, 90]", "channel.sector_deg", "within [0, 180]"),
    ("channel.shadow_extent=7", "channel.shadow_extent", "_extent to at most 6"),
    ("survey.samples=602", "survey.samples", "samples to at most 601"),
    ("timing.decision_share=0.8", "timing.decision_share", "to measure in"),
]


@pytest.mark.parametrize(("assignment", "path", "reason"), REFUSED, ids=lambda v: str(v)[:40])
def test_it_is_refused_with_its_path_and_what_would_be_valid(
    assignment: str, path: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(assignments=[assignment])
    [line] = [line for line in str(caught.value).splitlines() if line.startswith(path)]
    assert reason in line
    assert "Traceback" not in line
    assert caught.value.exit_code == 78
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "assignments",
    [
        ["kernel.components=0", "kernel.fringe_periods=[]"],
        ["kernel.sector_deg=[90, 90.5]", "kernel.fringe_periods=auto"],
        ["drift.model=piecewise", "drift.change_points=100", "run.horizon=100"],
        ["physical.region_length=1e15", "algorithm.grid_spacing=1e-300"],
    ],
)
def test_values_that_are_wrong_together_are_refused(assignments: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^[a-z]+\.[a-z_]+"):
        load_config(assignments=assignments)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(assignments=["algorithm.window=0", "algorithm.beta=-1", "run.sed=3"])
    assert len(str(caught.value).splitlines()) == 3


def test_a_site_that_is_set_as_the_preset_has_it_is_not_refused() -> None:
    """With explicit periods it has no effect and equals the preset."""
    assert load_config(assignments=["kernel.sector_deg=[30, 150]"]) == load_config()


@pytest.mark.parametrize(
    "assignments",
    [
        ["physical.stroke=0.01"],
        ["physical.initial_position=0"],
        ["physical.initial_position=6"],
        ["algorithm.beta=0"],
        ["algorithm.window=1"],
        ["algorithm.margin=0"],
        ["algorithm.grid_spacing=0.06"],
        ["algorithm.grid_spacing=0.0110091743119"],
        ["survey.samples=601"],
        ["kernel.components=0", "kernel.fringe_periods=[]", "kernel.residual_weight=0.75"],
        ["kernel.sector_deg=[0, 180]", "kernel.fringe_periods=auto"],
        ["run.seed=0"],
    ],
    ids=str,
)
def test_the_edge_of_what_is_valid_is_valid(assignments: list[str]) -> None:
    load_config(assignments=assignments)


class TestStroke:
    """rho_max = v·T_a for an ideal actuator, less for one that starts, stops and settles."""

    def test_of_the_paper_it_is_rounded(self, paper: Config) -> None:
        ideal = paper.replace(physical__stroke="auto").physical.rho_max
        assert ideal == pytest.approx(0.6 * 0.001 * 30e9 / 299_792_458)
        assert paper.physical.rho_max == 0.06 < ideal

    def test_latency_and_settling_take_their_time_first(self, paper: Config) -> None:
        physical = paper.replace(
            physical__stroke="auto", physical__command_latency_s=2e-4, physical__settling_s=3e-4
        ).physical
        assert physical.rho_max == pytest.approx(physical.nominal_reach / 2)

    @pytest.mark.parametrize(
        ("acceleration", "metres"),
        [
            (2000.0, 0.6 * (0.001 - 0.6 / 2000)),  # trapezoid: v·T − v²/a
            (1200.0, 0.6**2 / 1200),  # just reaches v at half time
            (800.0, 800 * 0.001**2 / 4),  # triangle: a·T²/4
        ],
    )
    def test_a_limited_acceleration_shortens_it(
        self, paper: Config, acceleration: float, metres: float
    ) -> None:
        physical = paper.replace(
            physical__stroke="auto", physical__acceleration_m_per_s2=acceleration
        ).physical
        assert physical.rho_max == pytest.approx(metres / (299_792_458 / 30e9))

    def test_a_stroke_that_is_set_is_never_more_than_the_actuator_covers(
        self, paper: Config
    ) -> None:
        physical = paper.replace(physical__settling_s=5e-4).physical
        assert physical.rho_max == pytest.approx(physical.nominal_reach / 2)


class TestReplace:
    def test_it_leaves_the_original(self, paper: Config) -> None:
        other = paper.replace(algorithm__beta=2.0, run__seed=5)
        assert (other.algorithm.beta, other.run.seed) == (2.0, 5)
        assert (paper.algorithm.beta, paper.run.seed) == ("auto", 1)
        assert other.kernel == paper.kernel

    def test_it_checks_again(self, paper: Config) -> None:
        with pytest.raises(ValidationError, match="below one grid step"):
            paper.replace(physical__stroke=0.001)
        with pytest.raises(ValidationError, match="extra"):
            paper.replace(algorithm__bta=1.0)

    def test_a_config_cannot_be_changed_in_place(self, paper: Config) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            paper.algorithm.beta = 2.0  # type: ignore[misc]
