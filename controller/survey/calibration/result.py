"""A whole calibration: from samples to findings, kernels and advice."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log

from macontrol.config import Config
from macontrol.config.model.errors import ProbeError
from macontrol.controller.survey.calibration.advice import Advice, advise
from macontrol.controller.survey.calibration.findings import Findings, all_walks, find
from macontrol.controller.survey.calibration.kernel_fit import FORMS, Fit, fit, form_of
from macontrol.controller.survey.calibration.likelihood import blocks_of
from macontrol.controller.survey.calibration.plan import Plan
from macontrol.controller.survey.calibration.samples import Samples
from macontrol.controller.survey.calibration.structure import LONGEST_SHARE

_LEAST_WALKS = 2
_LEAST_STANDING = 20


@dataclass(frozen=True)
class Calibration:
    """What was measured, found and advised."""

    plan: Plan
    samples: Samples
    findings: Findings
    fits: tuple[Fit, ...]
    """The best form first, by its held-out density."""
    advice: Advice
    duration_s: float

    def fit(self, name: str) -> Fit:
        """The fit of one form."""
        return next(one for one in self.fits if one.name == name)


def evaluate(config: Config, plan: Plan, samples: Samples) -> Calibration:
    """Estimate and advise; ProbeError if too little was measured."""
    slot_s = config.physical.slot_duration_s
    walks = all_walks(samples)
    standing = sum(len(samples.stand(cycle)) for cycle in samples.cycles)
    if len(walks) < _LEAST_WALKS or standing < _LEAST_STANDING or len(samples.cycles) < 2:
        raise ProbeError(
            f"the calibration has {len(walks)} walks and {standing} samples at rest with a valid "
            "reward: too few",
            "see what `macontrol check` reports about the probe, or choose more --minutes",
        )
    end_s = float(samples.time_s.max()) + slot_s
    found = find(samples, slot_s, end_s)
    blocks = blocks_of(walks, plan.positions, found.mean.value)
    variance = max(found.sigma_f.value**2, config.survey.variance_floor)
    coherence_s = found.coherence_s.value
    if not isfinite(coherence_s):
        coherence_s = LONGEST_SHARE * end_s
    noise2 = max(found.noise.value**2, 1e-4 * variance)
    forms = [
        form_of(name, config.kernel, variance, coherence_s / log(2.0), noise2) for name in FORMS
    ]
    fits = tuple(sorted((fit(form, blocks) for form in forms), key=lambda one: -one.score))
    return Calibration(plan, samples, found, fits, advise(config, samples, found, fits), end_s)
