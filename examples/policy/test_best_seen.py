"""The policy fulfils the contract, uses its settings, and earns more than a fixed antenna."""

import macontrol
from macontrol.testing import PolicyContract


class TestContract(PolicyContract):
    policy = "best-seen"


def test_it_earns_more_than_a_fixed_antenna() -> None:
    for seed in range(1, 5):
        world = macontrol.simulate_map(seed=seed, slots=1000)
        own, fixed = macontrol.replay(world, "best-seen"), macontrol.replay(world, "fixed")
        assert own.regret_per_slot < fixed.regret_per_slot


def test_its_settings_have_an_effect() -> None:
    words = ["algorithm.policy=best-seen", "algorithm.best-seen.curiosity=1.0"]
    world = macontrol.simulate_map(macontrol.load_config(assignments=words), seed=2, slots=50)
    assert macontrol.replay(world, "best-seen").switched.sum() > 40
