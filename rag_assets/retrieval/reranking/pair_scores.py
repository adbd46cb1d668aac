"""Scores of a query with each of its texts: each different pair is scored once, and kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.models.cache_fill import Rows, ValueCache, Values, filled, numbers
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.workspace import Usage, Workspace
from rag_assets.store.content_cache import KEY

PAIR_SCORES = numbers("score", np.float64)


class Pair(NamedTuple):
    """A query and a document, as the model reads them."""

    query: str
    document: str


def pairs_of(candidates: Sequence[Candidates]) -> list[Pair]:
    """Return the pairs of every candidate of every query, in their order."""
    return [Pair(query.query, text) for query in candidates for text in query.texts]


def pair_keys(scorer: str, pairs: Sequence[Pair]) -> pa.Array:
    """Return the keys of pairs for a scorer, which is named by its fingerprint.

    Parts are hashed before they are joined, so no two pairs read alike.
    """

    def digest(text: str) -> bytes:
        return hashlib.sha256(text.encode()).digest()

    digests = {text: digest(text) for text in {text for pair in pairs for text in pair}}
    joined = (digest(scorer) + digests[pair.query] + digests[pair.document] for pair in pairs)
    return pa.array([hashlib.sha256(parts).digest() for parts in joined], KEY)


def scores_by_query(
    candidates: Sequence[Candidates],
    keys: pa.Array,
    compute: Callable[[Rows], Iterator[tuple[Rows, Values]]],
    workspace: Workspace,
    tokens: Callable[[], int | None] = lambda: None,
) -> list[Scores]:
    """Return the scores of every query's candidates: looked up, or computed once and stored.

    Args:
        candidates: of each query.
        keys: of all their pairs, in the order of :func:`pairs_of`; they may repeat.
        compute: yields rows of those that it is given, and their scores; a row that it leaves out
            has the score NaN.
        workspace: has the cache, shows the progress, and keeps how many pairs were new.
        tokens: how many a server counted for the new ones.

    Raises:
        StoreError: the cache cannot be written.
    """
    folder, n_new, started = workspace.cache_of("pair_scores"), 0, time.perf_counter()
    with workspace.progress("rerank", len(candidates)) as advance:

        def count(done: int, total: int) -> None:
            nonlocal n_new
            n_new = done
            advance(done, total)

        cache = ValueCache(folder, PAIR_SCORES) if folder is not None else None
        scores = filled(keys, PAIR_SCORES, cache, compute, progress=count, make=_unscored)
    seconds = time.perf_counter() - started
    workspace.measure(Usage("ask", n_new, seconds, tokens=tokens()))
    workspace.measure(Usage("ask", len(keys.unique()) - n_new, cached=True))
    ends = np.cumsum([0, *(len(query.texts) for query in candidates)])
    return [scores[start:end] for start, end in pairwise(ends.tolist())]


def _unscored(shape: tuple[int, ...], *, dtype: npt.DTypeLike) -> Values:
    return np.full(shape, np.nan, dtype=dtype)
