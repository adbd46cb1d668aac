"""``type: rerank_api``: a reranking model behind the ``/rerank`` endpoint of a server.

Two dialects are spoken. ``cohere`` is that of Cohere, Jina, vLLM, llama.cpp and others: ``query``,
``documents`` and ``model`` are sent, ``results`` with ``index`` and ``relevance_score`` come back.
``tei`` is that of Text Embeddings Inference: ``query`` and ``texts`` are sent, a list of ``index``
and ``score`` comes back.

Each pair is paid for once: a score is kept by query and document.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assets.llm.completions import CallLimit
from rag_assets.models.cache_fill import Rows, Values
from rag_assets.retrieval.base import Role
from rag_assets.retrieval.reranking.candidates import (
    Candidates,
    Reranked,
    RerankedRetriever,
    pair_keys,
    pairs_of,
    scores_by_query,
)
from rag_assets.retrieval.unit_ranking import Scores
from rag_assets.retrieval.workspace import Workspace
from rag_assets.servers.client import Address, ModelClient, Outage, ServedModelOptions
from rag_assets.servers.failures import Failed
from rag_assets.store.canonical import fingerprint

PATH = "/rerank"

Dialect = Literal["cohere", "tei"]


class RerankApi(ServedModelOptions, RerankedRetriever):
    """Reranking by ``POST <base_url>/rerank``, as Cohere, Jina, vLLM and others offer it.

    ``api_key_env`` names the environment variable with the key; without it none is sent.
    ``dialect: tei`` is for Text Embeddings Inference, whose model is the one that it was started
    with. A query that the server does not score has no results, and says why. ``max_calls`` bounds
    the requests that one ranking may take.
    """

    model_kind: ClassVar[str | None] = "http"

    type: Literal["rerank_api"]
    base_url: Address
    dialect: Dialect = "cohere"
    batch_size: Annotated[int, Field(ge=1, strict=True), Role.NOTHING] = 32

    def describe(self) -> Mapping[str, Any]:
        """Return what determines a score besides the texts, as far as it can be known."""
        named = {"base_url": self.base_url, "model": self.model, "dialect": self.dialect}
        return {**named, "listwise": False}  # in the keys of all scores that are stored

    def passages_by_request(self, depth: int) -> list[int]:
        return [min(self.batch_size, depth - start) for start in range(0, depth, self.batch_size)]

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask the server for the scores of every new pair.

        Raises:
            ModelUnavailable: no request can succeed, or the server does not serve any more; what
                was scored is kept.
            BudgetReached: ``max_calls`` allow no more; likewise.
        """
        with closing(RerankEndpoint(self, self.dialect)) as endpoint:
            calls = _Requests(self, candidates, endpoint)
            keys = pair_keys(fingerprint(self.describe()), calls.pairs)
            tokens = partial(getattr, endpoint, "tokens")
            scores = scores_by_query(candidates, keys, calls.scores, workspace, tokens)
        pairs = [(query.query_id, query.query) for query in candidates]
        failures = {name: calls.failures[text] for name, text in pairs if text in calls.failures}
        seconds = {name: calls.seconds[text] for name, text in pairs if text in calls.seconds}
        return Reranked(scores, failures, seconds)


class _Requests:
    """The pairs of one ranking; by text of the query why it failed, and what its requests took.

    Queries of the same text are asked together. A time is kept where no score was known before.
    """

    def __init__(
        self, options: RerankApi, candidates: Sequence[Candidates], endpoint: RerankEndpoint
    ) -> None:
        self._options, self._endpoint = options, endpoint
        self.pairs = pairs_of(candidates)
        self._sizes = Counter(query for query, _ in set(self.pairs))
        self._outage = Outage("the reranking server")
        self.failures = dict[str, str]()
        self.seconds = dict[str, float]()

    def scores(self, missing: Rows) -> Iterator[tuple[Rows, Values]]:
        """Yield scores as they come, of several queries at a time."""
        by_query = defaultdict[str, list[int]](list)
        for row in missing.tolist():
            by_query[self.pairs[row].query].append(row)
        works = [
            (partial(self._ask, query, rows), len(self._options.passages_by_request(len(rows))))
            for query, rows in by_query.items()
        ]
        limit = CallLimit(self._options.max_calls)
        for _, (query, rows, scores, failed) in limit.results(works, self._options.concurrency):
            self._outage.note(failed)
            if failed is not None:
                self.failures[query] = failed.reason
            yield np.array(rows, dtype=np.int64), scores
        self._outage.check()

    def _ask(self, query: str, rows: list[int]) -> tuple[str, list[int], Scores, Failed | None]:
        """Return the scores of rows, those before a failure, and the failure."""
        self._outage.check()
        started, scores, start = time.perf_counter(), [np.empty(0)], 0
        for size in self._options.passages_by_request(len(rows)):
            texts = [self.pairs[row].document for row in rows[start : start + size]]
            result = self._endpoint.score(query, texts)
            if isinstance(result, Failed):
                return query, rows[:start], np.concatenate(scores), result
            scores.append(result)
            start += size
        if len(rows) == self._sizes[query]:
            self.seconds[query] = time.perf_counter() - started
        return query, rows, np.concatenate(scores), None


class RerankEndpoint(ModelClient):
    """A server that reranks."""

    def __init__(self, options: ServedModelOptions, dialect: Dialect = "cohere") -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Raises:
            UsageError: the variable is not set, or holds what no header can.
        """
        super().__init__(options)
        self._dialect = dialect

    def score(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        """Return one score a document, or why there are none; it is asked again where that helps.

        Raises:
            ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
        """
        return self.result(lambda: self._attempt(query, documents))

    def _attempt(self, query: str, documents: Sequence[str]) -> Scores:
        body: dict[str, Any] = {"query": query, "texts": list(documents), "truncate": True}
        if self._dialect == "cohere":
            body = {"query": query, "documents": list(documents), "top_n": len(documents)}
            body["model"] = self.options.model
        answer = self.post(PATH, body)
        rows = answer["results"] if isinstance(answer, Mapping) else answer
        scores = {_index(row["index"], len(documents)): _score(row) for row in rows}
        if len(rows) != len(documents) or len(scores) != len(documents):
            raise ValueError(f"it has {len(scores)} scores for {len(documents)} documents")
        usage = answer.get("usage") if isinstance(answer, Mapping) else None
        self.count_tokens(usage.get("total_tokens") if isinstance(usage, Mapping) else None)
        return np.array([scores[row] for row in range(len(documents))], dtype=np.float64)


def _index(index: object, n: int) -> int:
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < n:
        raise ValueError(f"index {index!r} is not the number of a document, from 0 to {n - 1}")
    return index


def _score(row: Mapping[str, Any]) -> float:
    score = row["relevance_score"] if "relevance_score" in row else row["score"]
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"score {score!r} is not a finite number")
    return float(score)
