"""No policy is better than the oracle, in any world and for any movement cost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from macontrol.config import Config
from macontrol.sim.research.campaign import plan_jobs, run_job
from macontrol.sim.research.figures.setting import Setting, World

WORLDS = st.builds(
    World,
    scenario=st.sampled_from(["blocked", "dense"]),
    drift=st.sampled_from(["continuous", "piecewise"]),
    change_points=st.integers(0, 20),
)


@settings(max_examples=25)
@given(
    world=WORLDS,
    policy=st.sampled_from(["MoveUCB", "GP-UCB", "ε-greedy", "Fixed"]),
    cost=st.floats(0, 100),
    seed=st.integers(0, 10_000),
)
def test_regret_is_never_negative(
    paper: Config, world: World, policy: str, cost: float, seed: int
) -> None:
    """Without Sweep-and-hold, which starts at the best position of the survey, not at x_0."""
    setting = Setting(paper, 1, 80, first_seed=seed)
    runs = setting.runs(world, policy, reward__movement_cost=cost)
    (job,) = plan_jobs(runs.tasks(cost))
    results = run_job(job)
    values = {type(task).__name__: results[task.key] for task in job}
    earned = values["Play"]["reward"] - cost * values["Play"]["travel"]
    assert values["Oracle"]["value"] >= earned - 1e-9
