"""Scores of pairs for rerankers that read a query with one document at a time, through the cache.

Each different pair is scored once. New scores are kept after every portion, so that a killed run
loses one portion at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.errors import DataError
from rag_assets.models.batches import Lengths, in_batches
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.reranking.pair_lengths import letters
from rag_assets.store.canonical import fingerprint
from rag_assets.store.pair_score_cache import Pair, PairScoreCache

PORTION = 512
"""Pairs that are scored between two writes to the cache, and between two reports of progress."""

Scorer = Callable[[Sequence[Pair]], Scores]


def rerank_by_pairs(
    candidates: Sequence[Candidates],
    scorer: Scorer,
    described: Mapping[str, Any],
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    compute: Compute = LOCAL,
    lengths: Callable[[Sequence[Pair]], Lengths] = letters,
) -> list[Scores]:
    """Return the score of every candidate of every query.

    Args:
        candidates: of each query.
        scorer: gives one score a pair, float64; called with new pairs only.
        described: all that determines a score besides the two texts.
        cache: folder of the pair score cache; None remembers nothing.
        progress: called with (new pairs scored, new pairs); not at all when none is new.
        compute: where new pairs are scored.
        lengths: by what new pairs are sorted: those of even length stand together, so that least of
            a batch is wasted.

    Raises:
        DataError: a score is NaN or infinite.
        StoreError: the cache cannot be written.
    """
    asked = [Pair(one.query, text) for one in candidates for text in one.texts]
    rows: dict[Pair, int] = {}
    row_of_pair = [rows.setdefault(pair, len(rows)) for pair in asked]
    unique = list(rows)
    opened = PairScoreCache(cache, fingerprint(described)) if cache is not None else None
    scores = _known(opened, unique)
    missing = np.flatnonzero(np.isnan(scores))
    long = lengths([unique[row] for row in missing.tolist()])
    order = missing[np.argsort(-long, kind="stable")].tolist()
    portions = [*in_batches(order, PORTION)]
    blocks = (([unique[row] for row in portion],) for portion in portions)
    n_done = 0
    for number, new in compute.map(scorer, blocks):
        pairs = [unique[row] for row in portions[number]]
        scores[portions[number]] = kept(opened, pairs, _checked(new, pairs))
        n_done += len(pairs)
        if progress is not None:
            progress(n_done, len(order))
    flat = scores[row_of_pair] if asked else scores
    ends = np.cumsum([0, *(len(one.texts) for one in candidates)])
    return [flat[start:end] for start, end in pairwise(ends.tolist())]


def _known(cache: PairScoreCache | None, pairs: Sequence[Pair]) -> Scores:
    return np.full(len(pairs), np.nan) if cache is None else cache.get(pairs)[0]


def kept(cache: PairScoreCache | None, pairs: Sequence[Pair], scores: Scores) -> Scores:
    """Cache new scores; where another process was first, its score is the one that stays."""
    if cache is None:
        return scores
    cache.put(pairs, scores)
    stored, found = cache.get(pairs)
    return np.where(found, stored, scores)


def _checked(scores: Scores, pairs: Sequence[Pair]) -> Scores:
    wrong = np.flatnonzero(~np.isfinite(scores))
    if wrong.size:
        pair = pairs[int(wrong[0])]
        raise DataError(
            f"the model scores query {pair.query[:80]!r} with document {pair.document[:80]!r} as "
            f"{scores[int(wrong[0])]}; a score must be a finite number"
        )
    return scores
