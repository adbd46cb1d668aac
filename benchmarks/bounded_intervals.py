"""How often a 95 % interval of a bounded mean or difference holds the true value, and its width.

    python benchmarks/bounded_intervals.py [--samples N]

Beside :func:`rag_assets.statistics.intervals.bounded_intervals` the percentile bootstrap of the
same values. "lost .03": one system loses 3 % of the questions by 1 and ties on the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click
import numpy as np

from rag_assets.statistics.intervals import bounded_intervals
from rag_assets.statistics.units import Floats, Units

QUESTIONS = (10, 20, 40, 80, 240)
RESAMPLES = 400


class World(NamedTuple):
    """What is measured of a question: the values that there are, and how often."""

    name: str
    values: Sequence[float]
    shares: Sequence[float]

    @property
    def mean(self) -> float:
        """The true mean."""
        return float(np.dot(self.values, self.shares))


def worlds() -> Iterator[World]:
    """Yield differences, from -1 to 1, and means, from 0 to 1."""
    for share in (0.01, 0.03, 0.1):
        yield World(f"lost {share}", (-1, 0), (share, 1 - share))
    yield World("won .1, lost .03", (-1, 0, 1), (0.03, 0.87, 0.1))
    ranks = [1 / a - 1 / b for a in range(1, 6) for b in range(1, 6)]
    yield World("of reciprocal ranks", ranks, [1 / 25] * 25)
    for share in (0.5, 0.9, 0.98):
        yield World(f"hit rate {share}", (0, 1), (1 - share, share))


def main() -> None:
    """Print a row a world and number of questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    n_samples = parser.parse_args().samples
    generator = np.random.default_rng(1)
    click.echo(
        f"{'values':20}{'questions':>10}{'covers':>8}{'width':>8}"
        f"{'bootstrap covers':>18}{'width':>8}"
    )
    for world in worlds():
        mean, lowest = world.mean, -1.0 if min(world.values) < 0 else 0.0
        for n in QUESTIONS:
            values = generator.choice(world.values, (n, n_samples), p=world.shares)
            low, high = bounded_intervals(Units(values, np.ones_like(values)), 0.95, lowest, 1.0)
            counts = generator.multinomial(n, [1 / n] * n, RESAMPLES)
            below, above = np.quantile(counts @ values / n, [0.025, 0.975], axis=0)
            cells = [f"{text:.3f}" for text in (*_of(low, high, mean), *_of(below, above, mean))]
            click.echo(
                f"{world.name:20}{n:10}{cells[0]:>8}{cells[1]:>8}{cells[2]:>18}{cells[3]:>8}"
            )


def _of(low: Floats, high: Floats, mean: float) -> tuple[float, float]:
    holds = (low <= mean + 1e-12) & (high >= mean - 1e-12)
    return float(holds.mean()), float((high - low).mean())


if __name__ == "__main__":
    main()
