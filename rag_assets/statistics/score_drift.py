"""Whether the best scores of a retriever's queries are distributed as they were before.

The best score of a query is that of its first hit; for an embedding retriever it is the similarity
of the nearest chunk. It falls when the queries leave the corpus, or the corpus leaves the queries,
and no label is needed to see it. A query is far from the corpus when its best score lies below a
threshold; one for which nothing was retrieved is far whatever the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.stability_index import Stability, stability

FEWEST = 20
"""With fewer queries on either side nothing is compared."""


@dataclass(frozen=True)
class BestScores:
    """The best score of each query.

    Attributes:
        query_ids: the queries on which the retriever did not fail.
        scores: one a query, in the same order; NaN where nothing was retrieved.
    """

    query_ids: Sequence[str]
    scores: Floats


@dataclass(frozen=True)
class Limits:
    """What is still no drift.

    Attributes:
        psi: the largest population stability index.
        far_share: the largest share of queries that are far.
        far_quantile: the share of the older queries that the threshold calls far.
        far_below: a threshold that takes its place; None: none does.
    """

    psi: float
    far_share: float
    far_quantile: float
    far_below: float | None = None


@dataclass(frozen=True)
class ScoreDrift:
    """The best scores of the same retriever, before and now."""

    old: BestScores
    new: BestScores
    limits: Limits

    @cached_property
    def stability(self) -> Stability:
        """The two distributions over the same bins."""
        return stability(self.old.scores, self.new.scores)

    @cached_property
    def threshold(self) -> float:
        """Below it a query is far; minus infinity where nothing was retrieved before."""
        if self.limits.far_below is not None:
            return self.limits.far_below
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
        found = [(self.new.query_ids[rows[i]], float(scores[i])) for i in order]
        return [(name, None if np.isnan(score) else score) for name, score in found]

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


def too_few(old: BestScores, new: BestScores) -> bool:
    """Return whether there are too few queries to compare two distributions."""
    return min(len(old.query_ids), len(new.query_ids)) < FEWEST
