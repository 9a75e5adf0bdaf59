"""Fit a kernel of each form to walks: marginal likelihood, with the config's values as the prior.

Every parameter is fitted on a logarithmic scale. Its prior is a normal law around the value of the
config, which is the paper's unless it was changed. How well a form explains the site is judged on
stretches of the rail that it has not seen, with parameters from other walks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from macontrol.config.sections.kernel import Kernel, KernelName
from macontrol.controller.policies.kernel import StationaryKernel, kernel_from_config
from macontrol.controller.survey.calibration.estimate import Estimate
from macontrol.controller.survey.calibration.likelihood import Block, Covariance

Floats = NDArray[np.float64]

FORMS: tuple[KernelName, ...] = get_args(KernelName)
# Prior standard deviations, of logarithms: a factor of two; and of the weights' log ratios.
_LENGTH_SD, _WEIGHT_SD = log(2.0), 1.0
_SCALE_SD, _TIME_SD, _NOISE_SD = 0.5, 1.0, 0.1
_STEP = 1e-3
_FAR = 1e10


@dataclass(frozen=True)
class Prior:
    """The prior of one parameter on its fitting scale, and where it goes."""

    name: str
    centre: float
    deviation: float


@dataclass(frozen=True)
class Form:
    """A kernel with free parameters."""

    name: KernelName
    priors: tuple[Prior, ...]
    """The last three are the variance, the correlation time and σ_ε², as logarithms."""

    def settings(self, theta: Floats) -> dict[str, Any]:
        """The keys of `[kernel]` at some parameters."""
        value = {prior.name: float(at) for prior, at in zip(self.priors, theta, strict=True)}
        found: dict[str, Any] = {"name": self.name}
        for key in ("se_length", "residual_length", "fringe_damping"):
            if key in value:
                found[key] = exp(value[key])
        periods = [exp(at) for name, at in value.items() if name.startswith("fringe_period")]
        if periods:
            found["fringe_periods"] = tuple(sorted(periods, reverse=True))
        residual = exp(value["residual_weight"]) if "residual_weight" in value else 0.0
        if "constant_weight" in value:
            constant = exp(value["constant_weight"])
            found["constant_weight"] = constant / (1.0 + constant + residual)
            if residual:
                found["residual_weight"] = residual / (1.0 + constant + residual)
        return found

    def covariance(self, theta: Floats) -> Covariance:
        variance, correlation_s, noise2 = (exp(at) for at in theta[-3:].tolist())
        return Covariance(_kernel(self.settings(theta)), variance, correlation_s, noise2)


@dataclass(frozen=True)
class Fit:
    """A fitted form."""

    settings: Mapping[str, Any]
    """The keys of `[kernel]`."""
    intervals: Mapping[str, Estimate]
    """Of each parameter, by the curvature of the likelihood and the scatter of the walks."""
    log_likelihood: float
    """Per sample, of the samples that it was fitted to."""
    held_out: tuple[float, ...]
    """log p per sample on stretches not seen, for each block of walks."""
    residuals: Floats
    """Of each sample, predicted from the others of its block, in standard deviations."""

    @property
    def name(self) -> str:
        return str(self.settings["name"])

    @property
    def kernel(self) -> StationaryKernel:
        return _kernel(self.settings)

    @property
    def score(self) -> float:
        """The mean held-out log density per sample (nats)."""
        return float(np.mean(self.held_out))

    def better_than(self, other: Fit) -> Estimate:
        """By how much its held-out density exceeds another's, paired by block."""
        difference = np.subtract(self.held_out, other.held_out)
        count = len(difference)
        error = float(difference.std(ddof=1) / count**0.5) if count > 1 else inf
        return Estimate.around(float(difference.mean()), error, count - 1)


def form_of(
    name: KernelName, kernel: Kernel, variance: float, correlation_s: float, noise2: float
) -> Form:
    """A form, with the values of a config as its prior."""
    fringes = [term for term in kernel_from_config(_physics(kernel)).terms if term.period != inf]
    damping = fringes[0].length if fringes else 2.0
    shares = kernel.constant_weight, kernel.residual_weight
    rest = max(1.0 - sum(shares), 1e-3)
    constant, residual = (
        Prior(key, log(max(share, 1e-3) / rest), _WEIGHT_SD)
        for key, share in zip(("constant_weight", "residual_weight"), shares, strict=True)
    )
    periods = [
        Prior(f"fringe_period {number}", log(term.period), _LENGTH_SD)
        for number, term in enumerate(fringes, start=1)
    ]
    lengths = [
        Prior("fringe_damping", log(damping), _LENGTH_SD),
        Prior("residual_length", log(kernel.residual_length), _LENGTH_SD),
    ]
    own = {
        "physics": [*periods, *lengths, constant, residual],
        "nonoscillatory": [*lengths, constant, residual],
        "const-se": [Prior("se_length", log(kernel.se_length), _LENGTH_SD), constant],
        "se": [Prior("se_length", log(kernel.se_length), _LENGTH_SD)],
    }[name]
    common = (
        Prior("variance", log(variance), _SCALE_SD),
        Prior("correlation_s", log(correlation_s), _TIME_SD),
        Prior("noise2", log(noise2), _NOISE_SD),
    )
    return Form(name, (*own, *common))


def _physics(kernel: Kernel) -> Kernel:
    return kernel.model_copy(update={"name": "physics"})


def fit(form: Form, blocks: Sequence[Block]) -> Fit:
    """The parameters of the greatest posterior density, with held-out densities."""
    theta = _maximum(form, blocks)
    halves = [blocks[0::2], blocks[1::2]]
    densities = [0.0] * len(blocks)
    for half in (0, 1):
        learned = _maximum(form, halves[1 - half], theta) if halves[1 - half] else theta
        covariance = form.covariance(learned)
        for place, block in enumerate(halves[half]):
            densities[2 * place + half] = block.held_out(covariance)
    samples = sum(len(block) for block in blocks)
    total = sum(block.log_likelihood(form.covariance(theta)) for block in blocks)
    return Fit(
        settings=form.settings(theta),
        intervals=_intervals(form, blocks, theta),
        log_likelihood=total / samples,
        held_out=tuple(densities),
        residuals=np.concatenate([block.residuals(form.covariance(theta)) for block in blocks]),
    )


def _maximum(form: Form, blocks: Sequence[Block], start: Floats | None = None) -> Floats:
    from scipy.optimize import minimize  # only here: its import takes 0.2 s

    centre = np.array([prior.centre for prior in form.priors])
    begin = centre if start is None else start
    reach = np.array([4 * prior.deviation for prior in form.priors])
    found = minimize(
        _objective(form, blocks),
        begin,
        method="L-BFGS-B",
        bounds=list(zip(centre - reach, centre + reach, strict=True)),
        options={"maxiter": 60 if start is None else 15, "eps": _STEP},
    )
    return np.asarray(found.x)


def _objective(form: Form, blocks: Sequence[Block]) -> Callable[[Floats], float]:
    """The negative log posterior density, up to a constant."""

    def negative(theta: Floats) -> float:
        covariance = form.covariance(theta)
        total = sum(block.log_likelihood(covariance) for block in blocks) + _prior(form, theta)
        return -total if isfinite(total) else _FAR

    return negative


def _prior(form: Form, theta: Floats) -> float:
    return -0.5 * sum(
        ((float(at) - prior.centre) / prior.deviation) ** 2
        for prior, at in zip(form.priors, theta, strict=True)
    )


def _intervals(form: Form, blocks: Sequence[Block], theta: Floats) -> dict[str, Estimate]:
    """From the curvature at the maximum, widened by the scatter of the blocks' gradients.

    The second counts where the kernel is not the site's own: then the curvature claims too much.
    """
    count = len(theta)
    steps = np.eye(count) * 0.02

    def gradients(at: Floats) -> Floats:
        rows = []
        for step in steps:
            above, below = form.covariance(at + step), form.covariance(at - step)
            rows.append(
                [(one.log_likelihood(above) - one.log_likelihood(below)) / 0.04 for one in blocks]
            )
        return np.array(rows)

    precision = np.diag([prior.deviation**-2 for prior in form.priors])
    curvature = np.array(
        [(gradients(theta - step) - gradients(theta + step)).sum(axis=1) / 0.04 for step in steps]
    )
    curvature = (curvature + curvature.T) / 2 + precision
    values, vectors = np.linalg.eigh(curvature)
    # A direction that is not curved is known by its prior.
    values = np.maximum(values, float(np.diag(precision).min()))
    inverse = (vectors / values) @ vectors.T
    each = gradients(theta)
    scatter = each - each.mean(axis=1, keepdims=True)
    scale = len(blocks) / max(len(blocks) - 1, 1)
    robust = inverse @ (scatter @ scatter.T * scale) @ inverse
    errors = np.sqrt(np.maximum(np.diag(inverse), np.diag(robust)))
    found = {}
    for prior, at, error in zip(form.priors, theta.tolist(), errors.tolist(), strict=True):
        logs = Estimate.around(at, error, max(len(blocks) - 1, 1))
        found[prior.name] = logs.mapped(lambda value: exp(min(value, 50.0)))
    return found


def _kernel(settings: Mapping[str, Any]) -> StationaryKernel:
    return kernel_from_config(Kernel(**settings))
