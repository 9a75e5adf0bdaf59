"""The posterior by scikit-learn: the same kernel, fitted again in every slot.

This module needs scikit-learn, which is optional.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel

from macontrol.commands.bench.direct import DirectPosterior
from macontrol.controller.policies.kernel import StationaryKernel

Array = NDArray[np.float64]


class OurKernel(Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """Our kernel with the interface of scikit-learn; its parameters are fixed."""

    def __init__(self, kernel: StationaryKernel, sigma_f2: float) -> None:
        self.kernel = kernel
        self.sigma_f2 = sigma_f2

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Array:
        other = X if Y is None else Y
        return self.sigma_f2 * self.kernel(X[:, :1] - other[:, 0])

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self.sigma_f2)

    def is_stationary(self) -> bool:
        return True


class SklearnPosterior(DirectPosterior):
    """GaussianProcessRegressor with our kernel and fixed parameters."""

    def _solution(self, samples: Sequence[tuple[int, float, float]]) -> tuple[Array, Array]:
        _, position, reward = np.array(samples).T
        regressor = GaussianProcessRegressor(
            OurKernel(self.kernel, self.sigma_f2), alpha=self._ridge, optimizer=None
        )
        regressor.fit(position[:, None], reward)
        mean, deviation = regressor.predict(self.grid.points[:, None], return_std=True)
        return mean, np.square(deviation)
