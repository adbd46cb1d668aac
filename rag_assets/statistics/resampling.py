"""What every method that draws at random shares: how often, from which seed, in which blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BLOCK = 1 << 21
"""How many numbers are drawn at once; 16 MiB of them as float64, whatever the number of queries."""


@dataclass(frozen=True)
class Resampling:
    """How intervals and random tests are computed.

    Attributes:
        confidence: of the intervals, between 0 and 1.
        resamples: how many sign patterns, or bootstrap samples of an agreement, are drawn.
        seed: of numpy's PCG64; the same seed gives the same bits on every machine.
    """

    confidence: float = 0.95
    resamples: int = 10_000
    seed: int = 0

    def generator(self) -> np.random.Generator:
        """Return the generator at its beginning: every column sees the same draws."""
        return np.random.Generator(np.random.PCG64(self.seed))

    @property
    def tails(self) -> tuple[float, float]:
        """The two quantiles that bound the interval."""
        tail = (1 - self.confidence) / 2
        return tail, 1 - tail


def blocks(n_rows: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of row blocks that hold about :data:`BLOCK` numbers each."""
    step = max(1, BLOCK // max(width, 1))
    for start in range(0, n_rows, step):
        yield start, min(start + step, n_rows)


def on_grid(values: Floats, bound: Floats) -> Floats:
    """Round each column to a binary grid so coarse that its sums are exact.

    Sums of float64 depend on their order, and so on the number of threads of a matrix product. All
    multiples of a power of two that stay below 2^53 of it are float64 numbers, so their sums are
    the same in any order. The mean of n such values is off by less than n * max * 2^-54: 1e-12 for
    10,000 values in [0, 1].

    Args:
        values: shape (n, columns).
        bound: shape (columns,): no sum that is taken is larger in magnitude.
    """
    _, exponent = np.frexp(bound)
    step = np.ldexp(1.0, exponent - 53)
    rounded: Floats = np.round(values / step) * step
    return rounded
