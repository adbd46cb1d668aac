"""Whether the best scores of a retriever's queries are distributed as they were before.

The best score of a query is that of its first hit. It falls when the queries leave the corpus, or
the corpus leaves the queries, and no label is needed to see it. A query is far from the corpus when
its best score lies below a threshold; one without a hit is far whatever the threshold.

How far two distributions are apart is told by the population stability index. With the shares a_i
and b_i of the older and the newer values in bin i, PSI = sum over i of (b_i - a_i) * ln(b_i / a_i):
less than 0.1 is called no change and more than 0.25 a large one (Siddiqi, Credit Risk Scorecards,
2006). Every bin of either side gets half a value more, a_i = (n_i + 1/2) / (n + B / 2), so that an
empty one does not make it infinite (Krichevsky and Trofimov 1981).

Few values differ by chance. Where nothing changed, PSI / (1 / n + 1 / m) is distributed as
chi-square with B - 1 degrees of freedom (Yurdakul and Naranjo, Journal of Risk Model Validation
14(4), 2020), so ``chance`` says what is still chance. That holds for independent samples; for the
same queries over a changed corpus the index is smaller by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.experiment.config import DriftConfig
from rag_assets.statistics.paired_tests import ALPHA
from rag_assets.statistics.units import Floats

FEWEST = 20
"""With fewer queries on either side nothing is compared."""

BINS = 10

PER_BIN = 10
"""So many values a bin has at least, on average, of either side: fewer values, fewer bins."""


@dataclass(frozen=True)
class BestScores:
    """The best score of each query that did not fail; NaN where nothing was retrieved."""

    query_ids: Sequence[str]
    scores: Floats


@dataclass(frozen=True)
class ScoreDrift:
    """The best scores of the same retriever, before and now.

    ``far_below`` is the threshold that the limits have for the retriever.
    """

    old: BestScores
    new: BestScores
    limits: DriftConfig
    far_below: float | None

    @cached_property
    def stability(self) -> Stability:
        """The two distributions over the same bins."""
        return stability(self.old.scores, self.new.scores)

    @cached_property
    def threshold(self) -> float:
        """Below it a query is far; minus infinity where nothing was retrieved before."""
        if self.far_below is not None:
            return self.far_below
        present = self.old.scores[~np.isnan(self.old.scores)]
        if not present.size:
            return float("-inf")
        return float(np.quantile(present, self.limits.far_quantile, method="inverted_cdf"))

    @cached_property
    def far(self) -> list[tuple[str, float | None]]:
        """The queries that are far now, and their best scores; those without a hit first."""
        rows = np.flatnonzero(self._is_far(self.new))
        scores = self.new.scores[rows]
        order = np.lexsort((scores, ~np.isnan(scores)))
        queries = [(self.new.query_ids[rows[i]], float(scores[i])) for i in order]
        return [(name, None if np.isnan(score) else score) for name, score in queries]

    @property
    def far_share(self) -> float:
        """The share of queries that are far now."""
        return len(self.far) / len(self.new.query_ids)

    @property
    def old_far_share(self) -> float:
        """The share of queries that were far before."""
        return float(self._is_far(self.old).mean())

    @property
    def shifted(self) -> bool:
        """Whether the index is above its limit, and above what chance explains."""
        return self.stability.psi > max(self.limits.psi, self.stability.chance)

    @property
    def strayed(self) -> bool:
        """Whether too many queries are far."""
        return self.far_share > self.limits.far_share

    def _is_far(self, best: BestScores) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.asarray(np.isnan(best.scores) | (best.scores < self.threshold))


class Stability(NamedTuple):
    """Two distributions over the same bins, as counts.

    ``chance`` is what ``psi`` exceeds in 5 % of the cases where nothing changed; ``edges`` are
    upper bounds, of which the last bin has none. A last bin more holds values that are NaN.
    """

    psi: float
    chance: float
    edges: Floats
    old: npt.NDArray[np.int64]
    new: npt.NDArray[np.int64]


def stability(old: Floats, new: Floats) -> Stability:
    """Return how far newer values are from older ones.

    Bounds of the bins are the quantiles of the older values; equal bounds are one. NaN stands for
    "there is none" and is a bin of its own.
    """
    from scipy.special import chdtri

    present = old[~np.isnan(old)]
    n_bins = min(BINS, max(2, min(old.size, new.size) // PER_BIN))
    shares = np.arange(1, n_bins) / n_bins
    edges = np.array([])
    if present.size:
        edges = np.unique(np.quantile(present, shares, method="inverted_cdf"))
    counts = [_counts(values, edges) for values in (old, new)]
    if not any(count[-1] for count in counts):
        counts = [count[:-1] for count in counts]
    before, after = ((count + 0.5) / (count.sum() + count.size / 2) for count in counts)
    psi = float(np.sum((after - before) * np.log(after / before)))
    by_chance = float(chdtri(len(before) - 1, ALPHA)) if len(before) > 1 else 0.0
    chance = by_chance * sum(1 / int(count.sum()) for count in counts)
    return Stability(psi, chance, edges, *counts)


def _counts(values: Floats, edges: Floats) -> npt.NDArray[np.int64]:
    missing = np.isnan(values)
    bins = np.searchsorted(edges, values[~missing], side="left")
    return np.append(np.bincount(bins, minlength=len(edges) + 1), missing.sum())
