"""The population stability index: how far two distributions are apart, over bins.

With the shares a_i and b_i of the older and the newer values that lie in bin i,

    PSI = sum over i of (b_i - a_i) * ln(b_i / a_i).

It is the symmetric divergence of Jeffreys (Proceedings of the Royal Society A 186, 1946) over bins,
and has its name from credit scoring. There less than 0.1 is called no change and more than 0.25 a
large one (Siddiqi, Credit Risk Scorecards, 2006).

A bin without a value would make it infinite, so every bin of either side gets half a value more:
a_i = (n_i + 1/2) / (n + B / 2), the mean under Jeffreys' prior (same source; Krichevsky and
Trofimov, IEEE Transactions on Information Theory 27, 1981).

Few values differ by chance. Where nothing changed, PSI / (1 / n + 1 / m) is distributed as
chi-square with B - 1 degrees of freedom for large n and m (Yurdakul and Naranjo, Journal of Risk
Model Validation 14(4), 2020), so ``chance`` says what is still chance. It holds for independent
samples; for the same queries over a changed corpus the index is smaller than that by chance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.detectable import ALPHA
from rag_assets.statistics.resampling import Floats

BINS = 10
PER_BIN = 10
"""So many values a bin has at least, on average, of either side: fewer values, fewer bins."""


class Stability(NamedTuple):
    """Two distributions over the same bins.

    Attributes:
        psi: the population stability index.
        chance: what it exceeds by chance alone in 5% of the cases where nothing changed.
        edges: upper bounds of the bins, which belong to them; the last bin has none, so there is
            one bin more than edges.
        old: counts of the older values, one a bin; a last one of values that are NaN, where there
            are any on either side.
        new: counts of the newer values.
    """

    psi: float
    chance: float
    edges: Floats
    old: npt.NDArray[np.int64]
    new: npt.NDArray[np.int64]


def stability(old: Floats, new: Floats) -> Stability:
    """Return how far newer values are from older ones.

    Bounds of the bins are the quantiles of the older values, so that each bin holds as many of
    them; equal bounds are one. NaN stands for "there is none" and is a bin of its own.

    Args:
        old: at least one value; NaN is allowed.
        new: the same.

    Raises:
        ValueError: one of them has no value.
    """
    if not (old.size and new.size):
        raise ValueError("both sides need a value")
    edges = _edges(old, min(BINS, max(2, min(old.size, new.size) // PER_BIN)))
    counts = [_counts(values, edges) for values in (old, new)]
    if not any(count[-1] for count in counts):
        counts = [count[:-1] for count in counts]
    return Stability(_psi(*counts), _chance(*counts), edges, *counts)


def _edges(values: Floats, n_bins: int) -> Floats:
    present = values[~np.isnan(values)]
    if not present.size:
        return np.array([])
    shares = np.arange(1, n_bins) / n_bins
    return np.unique(np.quantile(present, shares, method="inverted_cdf"))


def _counts(values: Floats, edges: Floats) -> npt.NDArray[np.int64]:
    missing = np.isnan(values)
    bins = np.searchsorted(edges, values[~missing], side="left")
    return np.append(np.bincount(bins, minlength=len(edges) + 1), missing.sum())


def _psi(old: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> float:
    before, after = ((count + 0.5) / (count.sum() + count.size / 2) for count in (old, new))
    return float(np.sum((after - before) * np.log(after / before)))


def _chance(old: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> float:
    from scipy.special import chdtri

    if old.size < 2:
        return 0.0
    return float(chdtri(old.size - 1, ALPHA) * (1 / old.sum() + 1 / new.sum()))
