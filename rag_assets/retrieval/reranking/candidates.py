"""The base of rerankers; from a ranking to the candidates that they score, and back to one."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, field_validator

from rag_assets.evaluation.units import unit_ids
from rag_assets.models.cache_fill import Rows, ValueCache, Values, filled, numbers
from rag_assets.options import Depth
from rag_assets.retrieval.base import ALL, RERANKED, DerivedRetriever, Role
from rag_assets.retrieval.unit_ranking import Scores, ranked_by_score
from rag_assets.retrieval.workspace import Usage, Workspace
from rag_assets.schemas import RUNS, column_values
from rag_assets.store.content_cache import KEY

PAIR_SCORES = numbers("score", np.float64)

_BY_RANK = [("query_id", "ascending"), ("rank", "ascending")]


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


class Reranked(NamedTuple):
    """New scores.

    Attributes:
        scores: for each query, one score a candidate, in the candidates' order; float64.
        failures: query id -> why it has no scores; its entry in ``scores`` is not read.
        seconds: query id -> what a server took for it, where it was asked for all; None where no
            server is asked.
        cost: money for a query that a server scores, on average; None where that is not known.
    """

    scores: Sequence[Scores]
    failures: Mapping[str, str] = {}
    seconds: Mapping[str, float] | None = None
    cost: float | None = None


class RerankedRetriever(DerivedRetriever, ABC):
    """The candidates of another retriever in a new order; nothing below them is returned.

    With ``candidates: all`` they are all chunks that the input can return, and the input is not
    asked; more than ``max_pairs`` pairs of a query and a chunk are refused.

    Attributes:
        drops: whether it may leave candidates out.
        scores_pairs: whether a score depends on the query and the text alone, and costs no money:
            then all chunks can be its candidates.
    """

    drops: ClassVar[bool] = False
    scores_pairs: ClassVar[bool] = False

    family: ClassVar[str] = "reranked"
    level: ClassVar[int] = RERANKED

    input: str
    candidates: Depth | Literal["top_k", "all"] = 50
    max_pairs: Annotated[int, Field(ge=1, strict=True), Role.NOTHING] = 200_000

    @field_validator("candidates")
    @classmethod
    def _all_by_pairs(cls, candidates: int | str) -> int | str:
        if candidates == ALL and not cls.scores_pairs:
            raise ValueError(
                "all is only for local models that score each text by itself, such as "
                "cross_encoder and "
                "maxsim; give a number or top_k"
            )
        return candidates

    @property
    def input_names(self) -> tuple[str, ...]:
        return (self.input,)

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the scores besides the options, such as a model's weights."""
        return {}

    @abstractmethod
    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Score the candidates of every query; equal scores are ordered by id, descending.

        A reranker that gives an order and no scores returns 1 / rank. A candidate whose score is
        NaN is dropped; only a type that :attr:`drops` gives it.
        """

    def passages_by_request(self, depth: int) -> list[int]:
        """Return how many of ``depth`` candidates each request about one query shows a server."""
        return [1] * depth

    def tokens_at_most(
        self, n_queries: int, query_bytes: int, sizes: Sequence[int], depth: int
    ) -> tuple[int, float | None]:
        """Return tokens of all requests and their cost, at most; a token has at least a byte.

        Args:
            n_queries: how many are asked about.
            query_bytes: of all of them.
            sizes: bytes of every text that can be a candidate, descending.
            depth: candidates of a query.
        """
        n_requests = len(self.passages_by_request(depth))
        return n_queries * sum(sizes[:depth]) + query_bytes * n_requests, None

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        """Rerank one query past what is kept of it, for a measurement.

        It loads the model where all scores were known: a new ranking has a time of its own, also
        where only the code is another one.

        Returns:
            Whether it was done; never where a server is asked, which would charge for it.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        return False


def candidate_lists(
    ranking: pa.Table, queries: pa.Table, texts: Mapping[str, str]
) -> list[Candidates]:
    """Return the candidates of every query that has some, by ascending query id.

    Args:
        ranking: table of :data:`rag_assets.schemas.RUNS`, cut at the candidates.
        queries: with the columns ``query_id`` and ``text``.
        texts: chunk id -> text.
    """
    text_of = dict(column_values(queries, "query_id", "text"))
    ordered = ranking.sort_by(_BY_RANK)
    names, units, chunks = (
        ordered[name].to_pylist() for name in ("query_id", "unit_id", "chunk_id")
    )
    scores: Scores = ordered["score"].to_numpy()
    lists, start = [], 0
    for query_id, rows in groupby(names):
        end = start + sum(1 for _ in rows)
        passages = [texts[chunk] for chunk in chunks[start:end]]
        of_query = text_of[query_id], units[start:end], passages, scores[start:end]
        lists.append(Candidates(query_id, *of_query))
        start = end
    return lists


def complete_ranking(queries: pa.Table, chunks: pa.Table, judge: str) -> pa.Table:
    """Return a ranking of all chunks for every query, in their order, with a score of 0 each.

    Args:
        queries: with the column ``query_id``.
        chunks: with ``chunk_id``, ``document_id`` and, where there are parents,
            ``parent_chunk_id``.
        judge: ``document``, or a unit that is the chunk or its parent; a unit stands once for each
            of its chunks.
    """
    n_queries, n_chunks = queries.num_rows, chunks.num_rows
    rows = pa.array(np.tile(np.arange(n_chunks), n_queries))
    query_rows = pa.array(np.repeat(np.arange(n_queries), n_chunks))
    columns = {
        "query_id": queries.column("query_id").take(query_rows),
        "rank": pa.array(np.tile(np.arange(1, n_chunks + 1, dtype=np.int32), n_queries)),
        "score": pa.array(np.zeros(n_queries * n_chunks)),
        "unit_id": unit_ids(chunks, judge).take(rows),
        **{name: chunks.column(name).take(rows) for name in ("chunk_id", "document_id")},
    }
    return pa.table(columns, schema=RUNS.arrow())


def reordered(
    ranking: pa.Table,
    candidates: Sequence[Candidates],
    scores: Sequence[Scores],
    failures: Mapping[str, str],
    depth: int,
) -> pa.Table:
    """Return the ranking by new scores; a query that failed has no rows.

    Args:
        ranking: the table that ``candidates`` were made of by :func:`candidate_lists`; a unit of it
            may stand there for several chunks, of which the best counts.
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
