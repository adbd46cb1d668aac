"""Whether a retriever's best score tells the queries that have no answer from those that have.

AUROC is the Mann-Whitney statistic: the share of the pairs of an answerable and an unanswerable
query in which the answerable one scores higher, a tie counting one half (Hanley and McNeil,
Radiology 143, 1982). A query is answered when its best score is at least the threshold. The
threshold is the observed score with the largest Youden's J = coverage + rejected - 1 (Youden,
Cancer 3, 1950), so with the largest balanced accuracy (J + 1) / 2; of several, the lowest, which
answers most. A query without hits scores below every other and is never answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.schemas import ANSWERABILITY

DEV, TEST = "dev", "test"


class Query(NamedTuple):
    """The best score of a query (None: nothing was retrieved), and whether it is answerable."""

    score: float | None
    answerable: bool


def answerability(retriever: str, splits: Mapping[str, Sequence[Query]]) -> pa.Table:
    """Return how well the best score tells unanswerable queries.

    Args:
        retriever: whose scores they are.
        splits: split -> its queries. The threshold of ``test`` is the one chosen on ``dev`` where
            there is one; that of any other split is chosen on the split itself, and flatters it.

    Returns:
        Table of :data:`rag_assets.schemas.ANSWERABILITY`, a row a split; without rows when the
        queries are all answerable, or none is. What needs both kinds is null in a split that
        lacks one.
    """
    kinds = {query.answerable for queries in splits.values() for query in queries}
    if len(kinds) < 2:
        return ANSWERABILITY.empty()
    source = {name: DEV if name == TEST and DEV in splits else name for name in splits}
    rows = [
        _row(name, splits[name], source[name], _threshold(*_scores(splits[source[name]])))
        for name in sorted(splits)
    ]
    return ANSWERABILITY.from_rows([{"retriever": retriever, **row} for row in rows])


def has_scores_of_ranks(run: pa.Table) -> bool:
    """Return whether every score of a run is 1 / rank, as of one that came without scores."""
    return bool(run.num_rows) and np.array_equal(
        run["score"].to_numpy(), 1 / run["rank"].to_numpy()
    )


def _row(
    split: str, queries: Sequence[Query], source: str, threshold: float | None
) -> dict[str, object]:
    answerable, unanswerable = _scores(queries)
    has_both = bool(len(answerable)) and bool(len(unanswerable))
    answered = np.inf if threshold is None else threshold
    return {
        "split": split,
        "n_answerable": len(answerable),
        "n_unanswerable": len(unanswerable),
        "auroc": _auroc(answerable, unanswerable) if has_both else None,
        "threshold": threshold,
        "threshold_from": source,
        "coverage": _share(answerable >= answered),
        "rejected": _share(unanswerable < answered),
    }


def _scores(queries: Sequence[Query]) -> tuple[np.ndarray, np.ndarray]:
    scores = np.array([-np.inf if q.score is None else q.score for q in queries], np.float64)
    answerable = np.array([query.answerable for query in queries], bool)
    return scores[answerable], scores[~answerable]


def _auroc(answerable: np.ndarray, unanswerable: np.ndarray) -> float:
    """Count, for each answerable query, the unanswerable ones below it and, by half, its equals."""
    ordered = np.sort(unanswerable)
    below = np.searchsorted(ordered, answerable, side="left")
    not_above = np.searchsorted(ordered, answerable, side="right")
    return float((below + not_above).sum() / (2 * len(answerable) * len(unanswerable)))


def _threshold(answerable: np.ndarray, unanswerable: np.ndarray) -> float | None:
    """Return the lowest observed score with the largest J; None without both kinds, or scores."""
    found = np.unique(np.concatenate([answerable, unanswerable]))
    candidates = found[np.isfinite(found)]
    if not len(answerable) or not len(unanswerable) or not len(candidates):
        return None
    dropped = np.searchsorted(np.sort(answerable), candidates, side="left")
    rejected = np.searchsorted(np.sort(unanswerable), candidates, side="left")
    # Whole numbers, so that equal values of J are equal: J times both counts, but for a constant.
    gains = rejected * len(answerable) - dropped * len(unanswerable)
    return float(candidates[np.argmax(gains)])


def _share(flags: np.ndarray) -> float | None:
    return float(flags.mean()) if len(flags) else None
