"""A policy in thirty lines: go to the best recent position, and look elsewhere now and then."""

from math import nan

import numpy as np

from macontrol import Decision, PolicyInputs
from macontrol.config.sections.section import Section


class BestSeen:
    """the best position of the recent slots, and now and then a random one"""

    class Settings(Section):
        memory: int = 400
        """how many slots it remembers"""
        curiosity: float = 0.002
        """the share of slots in which it chooses a random target"""

    def __init__(self, inputs: PolicyInputs) -> None:
        self.settings, self.grid = inputs.settings, inputs.config.grid
        self.stroke = inputs.config.physical.rho_max
        self.random = np.random.default_rng(inputs.seed)
        self.start_position = self.target = inputs.start_position
        survey = zip(inputs.survey.reward.tolist(), inputs.survey.position.tolist(), strict=True)
        self.seen = dict(enumerate(survey, start=1 - len(inputs.survey.reward)))

    def observe(self, slot: int, position: float, reward: float) -> None:
        self.seen[slot] = reward, position

    def withdraw(self, slot: int) -> None:
        self.seen.pop(slot, None)

    def resume(self, target: float) -> None:
        self.target = target

    def decide(self, slot: int, position: float) -> Decision:
        last, oldest = self.target, slot - self.settings.memory
        self.seen = {number: seen for number, seen in self.seen.items() if number > oldest}
        if self.random.random() < self.settings.curiosity:
            self.target = float(self.random.choice(self.grid.points))
        elif self.seen and abs(position - self.target) < self.grid.spacing:
            self.target = max(self.seen.values())[1]
        ahead = self.grid.advance(position, self.target, self.stroke)
        switched, transit = abs(self.target - last) > 1e-9, abs(ahead - self.target) > 1e-9
        return Decision(self.target, ahead, switched, transit, nan)
