"""Searches the weights of a fusion: which of a fixed set of weight vectors is best.

Only the ratios of weights matter to a fusion that sums, so vectors lie on the simplex: no weight is
negative, and they sum to 1. For two and three inputs all vectors whose weights are multiples of
``1 / (grid - 1)`` are tried; for more, one weight after the other moves along these multiples
while the others keep their ratios, until a whole round changes nothing (coordinate search). Equal
weights are always tried, and first, so that what is chosen is at least as good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

Weights = tuple[float, ...]

ValuesOf = Callable[[Sequence[Weights]], Sequence[float]]
"""Gives each weight vector its value; higher is better."""

SAME = 1e-12
"""Two values nearer than this are one; the last bits of a mean carry no meaning."""

MAX_FULL = 3
"""Inputs up to which the whole grid is tried."""

MAX_ROUNDS = 10
"""Rounds of the coordinate search, at most."""

_Exact = tuple[Fraction, ...]


class Tried(NamedTuple):
    """A weight vector and its value."""

    weights: Weights
    value: float


class Search(NamedTuple):
    """All vectors that were tried, in order, and the number of the one that is chosen."""

    tried: list[Tried]
    chosen: int


def search_weights(n_inputs: int, grid: int, values_of: ValuesOf) -> Search:
    """Return the best weights, found as the head of this module says.

    Of equal values the one nearest to equal weights wins (Euclidean distance), then the first.
    Vectors are exact fractions until they are valued, so the result is the same everywhere.

    Args:
        n_inputs: how many weights; 2 or more.
        grid: how many values a weight takes from 0 to 1; 2 or more.
        values_of: called with vectors that were not valued before.

    Raises:
        ValueError: fewer than two inputs, or a grid of fewer than two values.
    """
    if n_inputs < 2 or grid < 2:
        raise ValueError(f"{n_inputs} inputs on a grid of {grid}: both must be 2 or more")
    values: dict[_Exact, float] = {}
    equal = (Fraction(1, n_inputs),) * n_inputs
    if n_inputs <= MAX_FULL:
        _value([equal, *_simplex(n_inputs, grid)], values, values_of)
    else:
        _walk(equal, grid, values, values_of)
    tried = [Tried(_floats(vector), value) for vector, value in values.items()]
    return Search(tried, list(values).index(_best(values)))


def _simplex(n_inputs: int, grid: int) -> list[_Exact]:
    """Return all vectors of multiples of 1 / (grid - 1) that sum to 1, first weight rising."""
    steps = grid - 1
    vectors = []
    # Stars and bars: n - 1 bars among steps + n - 1 places leave the parts between them.
    for bars in combinations(range(steps + n_inputs - 1), n_inputs - 1):
        edges = (-1, *bars, steps + n_inputs - 1)
        parts = [edges[i + 1] - edges[i] - 1 for i in range(n_inputs)]
        vectors.append(tuple(Fraction(part, steps) for part in parts))
    return vectors


def _walk(start: _Exact, grid: int, values: dict[_Exact, float], values_of: ValuesOf) -> None:
    current = start
    for _ in range(MAX_ROUNDS):
        before = current
        for place in range(len(start)):
            line = [_moved(current, place, Fraction(step, grid - 1)) for step in range(grid)]
            _value([current, *line], values, values_of)
            current = _best({vector: values[vector] for vector in [current, *line]})
        if current == before:
            return


def _moved(vector: _Exact, place: int, weight: Fraction) -> _Exact:
    """Give one weight a value; the others keep their ratios and fill the sum up to 1."""
    rest = 1 - vector[place]
    n_others = len(vector) - 1
    return tuple(
        weight if i == place else (1 - weight) * (old / rest if rest else Fraction(1, n_others))
        for i, old in enumerate(vector)
    )


def _value(vectors: Sequence[_Exact], values: dict[_Exact, float], values_of: ValuesOf) -> None:
    new = [vector for vector in dict.fromkeys(vectors) if vector not in values]
    if new:
        found = values_of([_floats(vector) for vector in new])
        values.update(zip(new, found, strict=True))


def _best(values: dict[_Exact, float]) -> _Exact:
    highest = max(values.values())
    near = [vector for vector, value in values.items() if value > highest - SAME]
    return min(near, key=_unevenness)


def _unevenness(vector: _Exact) -> Fraction:
    """Return the squared distance to equal weights, up to a constant."""
    return sum((weight * weight for weight in vector), Fraction(0))


def _floats(vector: _Exact) -> Weights:
    return tuple(map(float, vector))
