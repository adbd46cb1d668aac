"""Paired randomisation test: how often would chance alone give so large a difference?

If two retrievers were alike, each unit's difference could as well have the other sign. So the
signs are flipped at random, and p is the share of sign patterns whose sum is at least as far from
zero as the one that was seen. It assumes nothing about the distribution of the differences; it is
the test that Smucker, Allan and Carterette recommend for retrieval, "A comparison of statistical
significance tests for information retrieval evaluation", CIKM 2007.

The statistic is the sum of weight * difference: dividing by the sum of the weights, which flips
change nothing of, makes it the difference of the weighted means. A cluster flips as one.

Where the patterns are few enough all are taken and p is exact. Else m are drawn, of which b are as
far from zero, and p = (b + 1) / (m + 1): the pattern seen is one of those possible, so p is never 0
(Phipson and Smyth, "Permutation p-values should never be zero", 2010).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.resampling import Floats, Resampling, blocks, on_grid
from rag_assets.statistics.units import SAME, Units

Counts = npt.NDArray[np.int64]

Alternative = Literal["two-sided", "greater", "less"]
"""What is tested against "no difference": any, a positive one, or a negative one."""


def randomisation_p_values(
    differences: Units, resampling: Resampling, alternative: Alternative = "two-sided"
) -> list[float | None]:
    """Return p for every column; None where no unit has a value, 1 where all differences are 0.

    Args:
        differences: each unit's sums of weight * difference, a column for each pair.
        resampling: the number of patterns, and the seed.
        alternative: ``greater``: the differences are positive.
    """
    sums = np.where(np.abs(differences.sums) > SAME * differences.weights, differences.sums, 0.0)
    moving = np.count_nonzero(sums, axis=0)
    few = [2 ** int(n) <= resampling.resamples for n in moving]
    drawn = [number for number, is_few in enumerate(few) if not is_few]
    p_values: dict[int, float] = dict(
        zip(drawn, _drawn(sums[:, drawn], resampling, alternative), strict=True)
    )
    for number in np.flatnonzero(few):
        column = sums[:, number]
        p_values[int(number)] = _exact(column[column != 0], alternative)
    there = np.count_nonzero(differences.weights > 0, axis=0)
    return [p_values[number] if there[number] else None for number in range(len(few))]


def joint_p_values(
    differences: Units, resampling: Resampling, family: int | None = None
) -> list[float | None]:
    """Return p of each column against a drop, corrected for all columns by flipping them together.

    The flips of a pattern are the same in all columns. p is the share of patterns in which the
    largest drop of any column, over its root of squares, is at least that of the column; columns
    with larger drops are set aside first (step-down max T: Westfall and Young, Resampling-Based
    Multiple Testing, 1993). So copies of one system are one test, and related ones little more.

    Args:
        differences: each unit's sums of weight * difference, a column for each pair.
        resampling: the number of patterns, and the seed.
        family: so many columns, one after another, are corrected for each other; all when absent.

    Returns:
        None where no unit differs: such a column is no test.
    """
    sums = np.where(np.abs(differences.sums) > SAME * differences.weights, differences.sums, 0.0)
    sums = sums[sums.any(axis=1)]
    n, n_columns = sums.shape
    if n == 0:
        return [None] * n_columns
    is_tested = np.asarray(sums.any(axis=0))
    size = np.abs(sums).sum(axis=0)
    exact, norm = on_grid(sums, size), np.where(is_tested, np.sqrt((sums**2).sum(axis=0)), 1.0)
    shape = (-1, n_columns // (family or n_columns), family or n_columns)
    near = max(SAME, n * 2.0**-51) * size / norm
    seen = np.where(is_tested, -exact.sum(axis=0) / norm, -np.inf)
    order = np.argsort(-seen.reshape(shape), axis=2, kind="stable")
    bound = np.take_along_axis((seen - near).reshape(shape), order, axis=2)
    extreme = np.zeros(shape[1:], dtype=np.int64)
    is_exact = 2**n <= resampling.resamples
    for flips in _all_flips(n) if is_exact else _random_flips(n, resampling):
        drops = np.where(is_tested, (2 * (flips @ exact) - exact.sum(axis=0)) / norm, -np.inf)
        ordered = np.take_along_axis(drops.reshape(shape), order, axis=2)
        largest = np.maximum.accumulate(ordered[:, :, ::-1], axis=2)[:, :, ::-1]
        extreme += (largest >= bound).sum(axis=0)
    shares = extreme / 2**n if is_exact else (extreme + 1) / (resampling.resamples + 1)
    p_values = np.empty(shape[1:])
    np.put_along_axis(p_values, order[0], np.maximum.accumulate(shares, axis=1), axis=1)
    tested = zip(p_values.ravel().tolist(), is_tested, strict=True)
    return [p if is_one else None for p, is_one in tested]


def _exact(sums: Floats, alternative: Alternative) -> float:
    """Return p over all sign patterns; a unit without a difference changes none of them."""
    extreme = 0
    for flips in _all_flips(sums.size):
        extreme += int(_as_extreme(flips, sums[:, None], alternative).sum())
    return float(extreme / 2**sums.size)


def _drawn(sums: Floats, resampling: Resampling, alternative: Alternative) -> list[float]:
    """Return p of each column over drawn patterns, the same for all columns."""
    if sums.shape[1] == 0:
        return []
    extreme = np.zeros(sums.shape[1], dtype=np.int64)
    for flips in _random_flips(sums.shape[0], resampling):
        extreme += _as_extreme(flips, sums, alternative)
    return [float((b + 1) / (resampling.resamples + 1)) for b in extreme.tolist()]


def _as_extreme(flips: Floats, sums: Floats, alternative: Alternative) -> Counts:
    """Return how many patterns are at least as extreme as the one seen, a count a column."""
    size = np.abs(sums).sum(axis=0)
    exact = on_grid(sums, size)
    seen: Floats = exact.sum(axis=0)
    flipped: Floats = seen - 2 * (flips @ exact)
    # Sums that are equal on paper differ by the rounding of their terms.
    near = max(SAME, sums.shape[0] * 2.0**-51) * size
    if alternative == "two-sided":
        hits = np.abs(flipped) >= np.abs(seen) - near
    else:
        sign = 1 if alternative == "greater" else -1
        hits = sign * flipped >= sign * seen - near
    counts: Counts = np.asarray(hits).sum(axis=0, dtype=np.int64)
    return counts


def _all_flips(n: int) -> Iterator[Floats]:
    """Yield blocks of all 2^n patterns; 1: the sign is flipped."""
    for start, end in blocks(2**n, n):
        patterns = np.arange(start, end)[:, None] >> np.arange(n)
        yield (patterns & 1).astype(np.float64)


def _random_flips(n: int, resampling: Resampling) -> Iterator[Floats]:
    """Yield blocks of drawn patterns, a random bit for each unit."""
    generator = resampling.generator()
    words = -(-n // 64)
    for start, end in blocks(resampling.resamples, n):
        drawn = generator.integers(0, 2**64, size=(end - start, words), dtype=np.uint64)
        octets = drawn.astype("<u8").view(np.uint8)
        yield np.unpackbits(octets, axis=1, count=n).astype(np.float64)
