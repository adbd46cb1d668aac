"""How often a 95 % interval of a bounded mean or difference holds the true value, and its width.

    python benchmarks/bounded_intervals.py [--samples N]

Beside :func:`rag_assets.statistics.intervals.bounded_intervals` the percentile bootstrap of the
same values. "lost .03": one system loses 3 % of the questions by 1 and ties on the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import click
import numpy as np

from rag_assets.statistics.intervals import bounded_intervals
from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.units import Units

QUESTIONS = (10, 20, 40, 80, 240)
RESAMPLES = 400


def worlds() -> Iterator[
    tuple[str, float, float, Callable[[np.random.Generator, int, int], Floats]]
]:
    """Yield a name, the true mean, the lowest value, and what draws (questions, samples)."""
    for share in (0.01, 0.03, 0.1):
        yield f"lost {share}", -share, -1.0, lambda g, n, m, p=share: (g.random((n, m)) < p) * -1.0
    yield "won .1, lost .03", 0.07, -1.0, _mixed
    yield (
        "of reciprocal ranks",
        0.0,
        -1.0,
        lambda g, n, m: 1 / _ranks(g, n, m) - 1 / _ranks(g, n, m),
    )
    for share in (0.5, 0.9, 0.98):
        yield f"hit rate {share}", share, 0.0, lambda g, n, m, p=share: (g.random((n, m)) < p) * 1.0


def _mixed(generator: np.random.Generator, n: int, m: int) -> Floats:
    drawn = generator.random((n, m))
    return (drawn < 0.1) * 1.0 - (drawn > 0.97) * 1.0


def _ranks(generator: np.random.Generator, n: int, m: int) -> Floats:
    return generator.integers(1, 6, (n, m)).astype(np.float64)


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
    for name, mean, lowest, draw in worlds():
        for n in QUESTIONS:
            values = draw(generator, n, n_samples)
            low, high = bounded_intervals(Units(values, np.ones_like(values)), 0.95, lowest, 1.0)
            counts = generator.multinomial(n, [1 / n] * n, RESAMPLES)
            bounds = np.quantile(counts @ values / n, [0.025, 0.975], axis=0)
            cells = [f"{text:.3f}" for text in (*_of(low, high, mean), *_of(*bounds, mean))]
            click.echo(f"{name:20}{n:10}{cells[0]:>8}{cells[1]:>8}{cells[2]:>18}{cells[3]:>8}")


def _of(low: Floats, high: Floats, mean: float) -> tuple[float, float]:
    holds = (low <= mean + 1e-12) & (high >= mean - 1e-12)
    return float(holds.mean()), float((high - low).mean())


if __name__ == "__main__":
    main()
