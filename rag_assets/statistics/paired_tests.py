"""Paired tests: whether the mean difference of two systems on the same units may be chance.

**Randomisation.** If two systems were alike, each unit's difference could as well have the other
sign. So signs are flipped at random, and p is the share of patterns whose sum is at least as far
from zero as the one seen: nothing is assumed about the distribution (Smucker, Allan and Carterette,
CIKM 2007). The statistic is the sum of weight * difference; a cluster flips as one. Where the
patterns are few all are taken and p is exact. Else m are drawn, of which b are as far from zero,
and p = (b + 1) / (m + 1), which is never 0 (Phipson and Smyth 2010).

**Student's t.** t = mean(S) / (sd(S) / sqrt(n)) with n - 1 degrees of freedom, where S is a unit's
sum of weight * difference: without weights and clusters the ordinary paired t-test. Where a few
units hold most of the weight it finds too little rather than too much. (The error of :func:`spread`
would find too much there: up to 7 % false alarms at level 0.05 in simulations, under 5 % so.)

**Wilcoxon's signed ranks.** The differences are ranked by magnitude and the ranks of either sign
summed. Zeros are ranked with the others and then left out (Pratt 1959). A rank has no place for a
weight: each unit counts once, with its own mean difference.

**The smallest difference that so many queries can show** at level alpha with the given power:
(t(1 - alpha / 2) + t(power)) * error, t quantiles with n - 1 degrees of freedom and error that of
the mean difference (Sakai, Laboratory Experiments in Information Retrieval, 2018; Bloom 1995).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.units import (
    SAME,
    Floats,
    Resampling,
    Units,
    blocks,
    on_grid,
    weighted_mean,
)

ALPHA = 0.05
"""Level of the two-sided test."""

POWER = 0.8
"""Chance to find the difference when it is there."""

DECIMALS = 12
"""Of Wilcoxon's test: differences are rounded, so that those equal on paper share a rank."""

MAX_EXACT, MAX_PLAIN = 13, 50
"""With ties or zeros, and without, it looks at all choices of signs of so many units, as scipy."""

Counts = npt.NDArray[np.int64]

Alternative = Literal["two-sided", "greater", "less"]
"""What is tested against "no difference": any, a positive one, or a negative one."""


def randomisation_p_values(
    differences: Units, resampling: Resampling, alternative: Alternative = "two-sided"
) -> list[float | None]:
    """Return p of every column; None where no unit has a value, 1 where all differences are 0.

    ``differences`` has a column for each pair; ``greater`` tests that differences are positive.
    """
    sums = _moving(differences)
    n_patterns = resampling.resamples
    is_few = np.array([2 ** int(n) <= n_patterns for n in np.count_nonzero(sums, axis=0)], bool)
    p_values = np.empty(len(is_few))
    if not is_few.all():
        drawn = sums[:, ~is_few]
        extreme = np.zeros(drawn.shape[1], dtype=np.int64)
        for flips in _random_flips(sums.shape[0], resampling):
            extreme += _as_extreme(flips, drawn, alternative)
        p_values[~is_few] = (extreme + 1) / (n_patterns + 1)
    for number in np.flatnonzero(is_few):
        # A unit without a difference changes no pattern.
        column = sums[sums[:, number] != 0, number]
        counts = (_as_extreme(f, column[:, None], alternative) for f in _all_flips(column.size))
        p_values[number] = sum(int(count[0]) for count in counts) / 2**column.size
    there = np.count_nonzero(differences.weights > 0, axis=0)
    return [p if n else None for p, n in zip(p_values.tolist(), there, strict=True)]


def joint_p_values(differences: Units, resampling: Resampling) -> list[float | None]:
    """Return p of each column against a drop, corrected for all columns by flipping them together.

    p is the share of patterns in which the largest drop of any column, over its root of squares, is
    at least that of the column; columns with larger drops are set aside first (step-down max T:
    Westfall and Young, Resampling-Based Multiple Testing, 1993). So copies of one system are one
    test. None where no unit differs: such a column is no test.

    Args:
        differences: each unit's sums of weight * difference, a column for each pair.
        resampling: the number of patterns, and the seed.
    """
    sums = _moving(differences)
    sums = sums[sums.any(axis=1)]
    n, n_columns = sums.shape
    if n == 0:
        return [None] * n_columns
    is_tested = np.asarray(sums.any(axis=0))
    size = np.abs(sums).sum(axis=0)
    exact, norm = on_grid(sums, size), np.where(is_tested, np.sqrt((sums**2).sum(axis=0)), 1.0)
    near = max(SAME, n * 2.0**-51) * size / norm
    seen = np.where(is_tested, -exact.sum(axis=0) / norm, -np.inf)
    order = np.argsort(-seen, kind="stable")
    bound = (seen - near)[order]
    extreme = np.zeros(n_columns, dtype=np.int64)
    is_exact = 2**n <= resampling.resamples
    for flips in _all_flips(n) if is_exact else _random_flips(n, resampling):
        drops = np.where(is_tested, (2 * (flips @ exact) - exact.sum(axis=0)) / norm, -np.inf)
        largest = np.maximum.accumulate(drops[:, order[::-1]], axis=1)[:, ::-1]
        extreme += (largest >= bound).sum(axis=0)
    shares = extreme / 2**n if is_exact else (extreme + 1) / (resampling.resamples + 1)
    p_values = np.empty(n_columns)
    p_values[order] = np.maximum.accumulate(shares)
    tested = zip(p_values.tolist(), is_tested, strict=True)
    return [p if is_one else None for p, is_one in tested]


def _moving(differences: Units) -> Floats:
    """Return the sums of the units, 0 where rounding alone makes a difference."""
    return np.where(np.abs(differences.sums) > SAME * differences.weights, differences.sums, 0.0)


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


def t_test_p_value(sums: Floats) -> float | None:
    """Return the two-sided p of the units' sums of weight * difference.

    1 when all differences are 0. None when there is no spread to compare with: fewer than two
    units, or all of one and the same difference.
    """
    from scipy.special import stdtr

    difference = spread(sums, np.ones_like(sums))
    if difference is None:
        return None
    if difference.error == 0:
        return 1.0 if abs(difference.mean) <= SAME else None
    return float(2 * stdtr(difference.n_units - 1, -abs(difference.mean) / difference.error))


class Spread(NamedTuple):
    """A weighted mean, its standard error, and the number of units behind it."""

    mean: float
    error: float
    n_units: int


def spread(sums: Floats, weights: Floats) -> Spread | None:
    """Return the weighted mean m = sum(S) / sum(W) of units, and its standard error.

    The error of this ratio is that of the residuals e_i = (S_i - m * W_i) / mean(W): sd(e) /
    sqrt(n) with n - 1 in the variance (Cochran, Sampling Techniques, 1977, section 2.11). None for
    fewer than two units; an error that is rounding alone is 0.
    """
    n_units = sums.size
    mean = weighted_mean(sums, weights)
    if n_units < 2 or mean is None:
        return None
    residuals = (sums - mean * weights) / (math.fsum(weights) / n_units)
    residuals[np.abs(residuals) <= SAME] = 0.0
    variance = math.fsum(residuals**2) / (n_units - 1)
    return Spread(mean, math.sqrt(variance / n_units), n_units)


def detectable_difference(sums: Floats, weights: Floats) -> float | None:
    """Return the minimum detectable difference, in units of the metric; None without a spread."""
    difference = spread(sums, weights)
    return difference and detectable(difference.error, difference.n_units, ALPHA / 2)


def detectable(error: float | None, n_units: int, level: float) -> float | None:
    """Return the smallest true change that a one-sided test finds; None without an error."""
    from scipy.special import stdtrit

    freedom = n_units - 1
    reach = stdtrit(freedom, 1 - level) + stdtrit(freedom, POWER)
    return float(reach * error) if error else None


def wilcoxon_p_value(sums: Floats, weights: Floats) -> float | None:
    """Return the two-sided p; 1 when all differences are 0, None without any unit.

    Up to 13 units it is exact, also with ties and zeros; up to 50 without ties and zeros as well;
    else it is by the normal approximation with the correction for ties and zeros (Cureton 1967).
    ``scipy.stats.wilcoxon`` finds the same, but to import it takes longer than all other tests.
    """
    if sums.size == 0:
        return None
    differences = np.round(sums / weights, DECIMALS)
    if not differences.any():
        return 1.0
    magnitudes, places, counts = np.unique(
        np.abs(differences), return_inverse=True, return_counts=True
    )
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # of equal ones their mean
    positive_sum = float(ranks[differences > 0].sum())
    is_plain = magnitudes[0] > 0 and magnitudes.size == differences.size
    if differences.size <= (MAX_PLAIN if is_plain else MAX_EXACT):
        return _exact_p_value(ranks[differences != 0], positive_sum)
    from scipy.special import ndtr

    n, ties = differences.size, counts[magnitudes > 0]
    zeros = n - int(ties.sum())
    mean = (n * (n + 1) - zeros * (zeros + 1)) / 4
    squares = n * (n + 1) * (2 * n + 1) - zeros * (zeros + 1) * (2 * zeros + 1)
    error = math.sqrt((squares - int((ties**3 - ties).sum()) / 2) / 24)
    return float(2 * ndtr(-abs(positive_sum - mean) / error))


def _exact_p_value(ranks: Floats, positive_sum: float) -> float:
    """Return the share of all choices of signs whose sum of ranks is as far out, on two sides."""
    # Ranks are halves. Of each doubled sum, in how many ways it comes about: at most 2^50, exact.
    ways, place = np.ones(1), round(2 * positive_sum)
    for rank in (2 * ranks).astype(int):
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    extreme = min(float(ways[: place + 1].sum()), float(ways[place:].sum()))
    return min(1.0, 2 * extreme / 2.0**ranks.size)
