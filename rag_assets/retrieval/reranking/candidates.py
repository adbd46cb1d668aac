"""From a ranking to the lists of candidates that a reranker scores, and back to a ranking."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.models.cache_fill import Rows, ValueCache, Values, filled, numbers
from rag_assets.ordering import Hits, byte_order_ranks, top_k
from rag_assets.retrieval.unit_ranking import unit_ranking
from rag_assets.retrieval.workspace import Usage, Workspace
from rag_assets.schemas import RUNS
from rag_assets.store.content_cache import KEY
from rag_assets.store.sql_paths import scratch_connection

Scores = npt.NDArray[np.float64]

PAIR_SCORES = numbers("score", np.float64)

_BY_RANK = [("query_id", "ascending"), ("rank", "ascending")]

_ORDER = """
SELECT query_id, row_number() OVER (
           PARTITION BY query_id ORDER BY score DESC, encode(unit_id) DESC)::INTEGER AS rank,
       score, unit_id, chunk_id, document_id
FROM scored QUALIFY rank <= $depth ORDER BY query_id, rank
"""


class Candidates(NamedTuple):
    """What a reranker puts in order for one query.

    Attributes:
        query_id: the query.
        query: its text as it was asked.
        unit_ids: the judged units, in the order of the input, best first.
        texts: the text of each: its best chunk, as it is indexed.
        scores: the input's scores; float64, shape (n,).
    """

    query_id: str
    query: str
    unit_ids: Sequence[str]
    texts: Sequence[str]
    scores: Scores


def candidate_lists(
    ranking: pa.Table, queries: pa.Table, texts: Mapping[str, str]
) -> list[Candidates]:
    """Return the candidates of every query that has some, by ascending query id.

    Args:
        ranking: table of :data:`rag_assets.schemas.RUNS`, cut at the candidates.
        queries: with the columns ``query_id`` and ``text``.
        texts: chunk id -> text.
    """
    text_of = dict(zip(*(queries[name].to_pylist() for name in ("query_id", "text")), strict=True))
    ordered = ranking.sort_by(_BY_RANK)
    names, units, chunks = (
        ordered[name].to_pylist() for name in ("query_id", "unit_id", "chunk_id")
    )
    scores: Scores = ordered["score"].to_numpy()
    lists, start = [], 0
    for query_id, rows in groupby(names):
        end = start + sum(1 for _ in rows)
        shown = [texts[chunk] for chunk in chunks[start:end]]
        of_query = text_of[query_id], units[start:end], shown, scores[start:end]
        lists.append(Candidates(query_id, *of_query))
        start = end
    return lists


def complete_lists(
    queries: pa.Table, chunks: pa.Table, texts: Mapping[str, str]
) -> list[Candidates]:
    """Return all chunks, in their order, as the candidates of every query, by ascending query id.

    Args:
        queries: with the columns ``query_id`` and ``text``.
        chunks: with the column ``chunk_id``.
        texts: chunk id -> text.
    """
    ids = chunks.column("chunk_id").to_pylist()
    shown, none = [texts[chunk] for chunk in ids], np.zeros(len(ids))
    rows = queries.sort_by("query_id").select(["query_id", "text"]).to_pylist()
    return [Candidates(row["query_id"], row["text"], ids, shown, none) for row in rows]


def best_units(
    chunks: pa.Table,
    candidates: Sequence[Candidates],
    scores: Sequence[Scores],
    failures: Mapping[str, str],
    *,
    judge: str,
    depth: int,
) -> pa.Table:
    """Return the ranking of the units of all chunks; a unit's score is that of its best chunk.

    Args:
        chunks: with ``chunk_id``, ``document_id`` and, where there are parents,
            ``parent_chunk_id``.
        candidates: :func:`complete_lists` of them.
        scores: for each, one score a chunk.
        failures: queries without scores; they have no rows.
        judge: ``document``, or a unit that is the chunk or its parent.
        depth: how many ranks are kept.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`.
    """
    order = byte_order_ranks(chunks.column("chunk_id").to_pylist())
    rows = zip(candidates, scores, strict=True)
    scored = [(query.query_id, part) for query, part in rows if query.query_id not in failures]

    def search(numbers: Sequence[int], k: int) -> list[Hits]:
        best = [top_k(scored[number][1], order, k) for number in numbers]
        return [Hits(top, scored[n][1][top]) for n, top in zip(numbers, best, strict=True)]

    names = [query_id for query_id, _ in scored]
    return unit_ranking(names, chunks, search, judge=judge, depth=depth)


def reordered(
    ranking: pa.Table,
    candidates: Sequence[Candidates],
    scores: Sequence[Scores],
    failures: Mapping[str, str],
    depth: int,
) -> pa.Table:
    """Return the ranking by new scores; a query that failed has no rows.

    Args:
        ranking: the table that ``candidates`` were made of by :func:`candidate_lists`.
        candidates: of every query.
        scores: for each, one score a candidate; NaN: it is dropped.
        failures: queries without scores.
        depth: how many ranks are kept.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`: score descending, then id descending.
    """
    parts = [
        np.full(len(query.unit_ids), np.nan) if query.query_id in failures else part
        for query, part in zip(candidates, scores, strict=True)
    ]
    new = np.concatenate([np.empty(0), *parts])
    table = ranking.sort_by(_BY_RANK).drop_columns(["rank", "score"])
    table = table.append_column("score", pa.array(new))
    return ranked_by_score(table.filter(pa.array(~np.isnan(new))), depth)


def ranked_by_score(scored: pa.Table, depth: int) -> pa.Table:
    """Return the first ``depth`` rows of every query in the order of their scores, then of ids.

    Args:
        scored: the columns of :data:`rag_assets.schemas.RUNS` but the rank, in any order.
        depth: how many ranks are kept.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.
    """
    with scratch_connection() as connection:
        connection.register("scored", scored)
        ranked = connection.sql(_ORDER, params={"depth": depth}).to_arrow_table()
    return RUNS.check(ranked.cast(RUNS.arrow()).combine_chunks())


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
