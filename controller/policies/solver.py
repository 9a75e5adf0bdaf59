"""Solutions with the posterior's normal matrix A, which changes by a sample in and one out.

A matrix of a few dozen rows is factored from scratch in every slot. That costs r³/3: from about a
hundred rows on, an inverse that follows A by rank-one updates is cheaper, with 13 products of r².
Rounding errors add up in it, so each solution is refined once against A itself,

    s = A⁻¹v,   s + A⁻¹(v − As),

which squares the error. The correction is the error of the inverse. Once it is above `_LARGEST`,
the inverse is computed again from A.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv, dsyr
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

Array = NDArray[np.float64]

_LARGEST = 1e-5
"""The largest relative error of the inverse; the refined solution has its square."""
_FACTORED_ORDER = 128
"""Up to this order a matrix is factored in every slot."""
# Rounding errors exceed the ridge: the sums are useless.
_INDEFINITE = "the posterior's matrix is not positive definite"


class Solver(Protocol):
    """Solves with a symmetric positive definite matrix, of which the upper triangle is given."""

    follows: bool
    """Whether it needs each `change` of the matrix."""

    def start(self, matrix: Array) -> None:
        """Solve with this matrix from now on."""

    def change(self, sign: float, vector: Array) -> None:
        """Announce that ± vector·vectorᵀ is added to the matrix."""

    def set_matrix(self, matrix: Array) -> None:
        """Solve with the matrix after the announced changes."""

    def solve(self, right_sides: Array) -> Array:
        """The solution of one right side, or of several as columns."""


def make_solver(order: int) -> Solver:
    """The faster one for a matrix of this order."""
    return FactoringSolver() if order <= _FACTORED_ORDER else InverseSolver()


def factor_of(matrix: Array) -> Array:
    """The Cholesky factor, above the diagonal."""
    factor: Array
    factor, info = dpotrf(matrix, clean=0)
    if info != 0:
        raise ArithmeticError(_INDEFINITE)
    return factor


class FactoringSolver:
    """Factors the matrix after each change."""

    follows = False

    def __init__(self) -> None:
        self._factor: Array

    def start(self, matrix: Array) -> None:
        self.set_matrix(matrix)

    def set_matrix(self, matrix: Array) -> None:
        self._factor, info = dpotrf(matrix, clean=0)
        if info != 0:
            raise ArithmeticError(_INDEFINITE)

    def change(self, sign: float, vector: Array) -> None:
        """Do nothing: the factor is computed from the matrix."""

    def solve(self, right_sides: Array) -> Array:
        solutions: Array
        solutions, _ = dpotrs(self._factor, right_sides)
        return solutions


class InverseSolver:
    """Carries an inverse along, and refines each solution."""

    follows = True

    def __init__(self) -> None:
        self.inversions = 0
        """How often the inverse was computed again because of rounding errors."""
        self._matrix: Array
        self._inverse: Array

    def start(self, matrix: Array) -> None:
        self._matrix = matrix
        self._inverse, _ = dpotri(factor_of(matrix))

    def change(self, sign: float, vector: Array) -> None:
        """Update the inverse: A⁻¹ − ±ssᵀ/(1 ± vᵀs) with s = A⁻¹v (Sherman and Morrison)."""
        solution = dsymv(1.0, self._inverse, vector)
        weight = -sign / (1.0 + sign * float(vector.dot(solution)))
        self._inverse = dsyr(weight, solution, a=self._inverse, overwrite_a=1)

    def set_matrix(self, matrix: Array) -> None:
        self._matrix = matrix

    def solve(self, right_sides: Array) -> Array:
        if right_sides.ndim == 1:
            return self._solve(right_sides)
        solutions = np.zeros_like(right_sides)
        for column in range(right_sides.shape[1]):
            solutions[:, column] = self._solve(right_sides[:, column])
        return solutions

    def _solve(self, right_side: Array) -> Array:
        if not right_side.any():
            return right_side
        solution, correction = self._refined(right_side)
        if not correction <= _LARGEST:
            self.inversions += 1
            self.start(self._matrix)
            solution, _ = self._refined(right_side)
        return solution

    def _refined(self, right_side: Array) -> tuple[Array, float]:
        """The solution, and the relative size of its correction."""
        solution: Array = dsymv(1.0, self._inverse, right_side)
        rest = dsymv(-1.0, self._matrix, solution, beta=1.0, y=right_side)
        correction: Array = dsymv(1.0, self._inverse, rest)
        error = float(np.linalg.norm(correction) / np.linalg.norm(solution))
        return solution + correction, error
