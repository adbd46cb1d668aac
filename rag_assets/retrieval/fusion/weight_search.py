"""Searches the weights of a fusion: which of a fixed set of weight vectors is best.

Only the ratios of weights matter to a fusion that sums, so vectors lie on the simplex: no weight is
negative, and they sum to 1. All vectors whose weights are multiples of ``1 / (grid - 1)`` are
tried. Equal weights are always tried, and first, so that what is chosen is at least as good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import NamedTuple

from rag_assets.errors import UsageError

Weights = tuple[float, ...]

ValuesOf = Callable[[Sequence[Weights]], Sequence[float]]
"""Gives each weight vector its value; higher is better."""

SAME = 1e-12
"""Two values nearer than this are one; the last bits of a mean carry no meaning."""

MAX_VECTORS = 10_000


class Tried(NamedTuple):
    """A weight vector and its value."""

    weights: Weights
    value: float


class Search(NamedTuple):
    """All vectors that were tried, in order, and the number of the one that is chosen."""

    tried: list[Tried]
    chosen: int


def search_weights(n_inputs: int, grid: int, values_of: ValuesOf) -> Search:
    """Return the best weights.

    Of equal values the one nearest to equal weights wins (Euclidean distance), then the first.
    Vectors are exact fractions until they are valued, so the result is the same everywhere.

    Args:
        n_inputs: how many weights; 2 or more.
        grid: how many values a weight takes from 0 to 1; 2 or more.
        values_of: called with all vectors.

    Raises:
        UsageError: they are more than ``MAX_VECTORS``.
    """
    steps, equal = grid - 1, (Fraction(1, n_inputs),) * n_inputs
    n_vectors = comb(steps + n_inputs - 1, n_inputs - 1)
    if n_vectors > MAX_VECTORS:
        raise UsageError(
            f"tune: {n_inputs} inputs on a grid of {grid} are {n_vectors:,} weight vectors, at "
            f"most {MAX_VECTORS:,} are tried; take a smaller grid"
        )
    vectors = [equal]
    # Stars and bars: n - 1 bars among steps + n - 1 places leave the parts between them.
    for bars in combinations(range(steps + n_inputs - 1), n_inputs - 1):
        edges = (-1, *bars, steps + n_inputs - 1)
        parts = [edges[i + 1] - edges[i] - 1 for i in range(n_inputs)]
        vectors.append(tuple(Fraction(part, steps) for part in parts))
    vectors = list(dict.fromkeys(vectors))
    weights = [tuple(map(float, vector)) for vector in vectors]
    tried = [Tried(*pair) for pair in zip(weights, values_of(weights), strict=True)]
    highest = max(trial.value for trial in tried)
    near = [number for number, trial in enumerate(tried) if trial.value > highest - SAME]

    def unevenness(number: int) -> Fraction:
        """Return the squared distance to equal weights, up to a constant."""
        return sum((weight * weight for weight in vectors[number]), Fraction(0))

    return Search(tried, min(near, key=unevenness))
