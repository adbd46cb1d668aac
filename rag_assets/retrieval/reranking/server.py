"""``type: rerank_api``: a reranking model behind the ``/rerank`` endpoint of a server.

Two dialects are spoken. ``cohere`` is that of Cohere, Jina, vLLM, llama.cpp and others: ``query``,
``documents`` and ``model`` are sent, ``results`` with ``index`` and ``relevance_score`` come back.
``tei`` is that of Text Embeddings Inference: ``query`` and ``texts`` are sent, a list of ``index``
and ``score`` comes back.

Each pair is paid for once: a score is kept by query and document. A model that compares documents
with each other gives scores that hold for one list only: with ``listwise`` all candidates go into
one request, and the list is part of each score's key.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assets.llm.budget import CallLimit
from rag_assets.models.cache_fill import Rows, Values
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import (
    Candidates,
    Pair,
    Scores,
    pair_keys,
    pairs_of,
    scores_by_query,
)
from rag_assets.retrieval.workspace import Workspace
from rag_assets.servers.client import Address, ModelClient, Outage, ServedModelOptions
from rag_assets.servers.failures import Failed
from rag_assets.servers.transport import Transport
from rag_assets.store.canonical import canonical_json, fingerprint

PATH = "/rerank"

Dialect = Literal["cohere", "tei"]


class Question(NamedTuple):
    """What texts are scored for: equal ones are asked together.

    Attributes:
        query: its text.
        among: fingerprint of the list of texts, where scores hold for one list only.
    """

    query: str
    among: str = ""


class RerankApi(ServedModelOptions, RerankedRetriever):
    """Reranking by ``POST <base_url>/rerank``, as Cohere, Jina, vLLM and others offer it.

    ``api_key_env`` names the environment variable with the key; without it none is sent.
    ``dialect: tei`` is for Text Embeddings Inference, whose model is the one that it was started
    with. ``listwise`` is for models whose scores depend on the other documents of a request. A
    query that the server does not score has no results, and says why. ``max_calls`` bounds the
    requests that one ranking may take.
    """

    model_kind: ClassVar[str | None] = "http"

    type: Literal["rerank_api"]
    base_url: Address
    dialect: Dialect = "cohere"
    listwise: bool = False
    batch_size: int = Field(default=32, ge=1, strict=True)

    @model_validator(mode="after")
    def _one_request_has_all(self) -> Self:
        if self.listwise and "batch_size" in self.model_fields_set:
            raise ValueError(
                "batch_size: only without listwise, whose requests have all candidates"
            )
        return self

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results."""
        return super().described(exclude=exclude | self.of_requests | {"batch_size"})

    def describe(self) -> Mapping[str, Any]:
        """Return what determines a score besides the texts, as far as it can be known."""
        named = {"base_url": self.base_url, "model": self.model, "dialect": self.dialect}
        return {**named, "listwise": self.listwise}

    def passages_by_request(self, depth: int) -> list[int]:
        """Return the sizes of the batches of one query's candidates."""
        size = max(depth, 1) if self.listwise else self.batch_size
        return [min(size, depth - start) for start in range(0, depth, size)]

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask the server for the scores of every new pair.

        Raises:
            ModelUnavailable: no request can succeed, or the server does not serve any more; what
                was scored is kept.
            BudgetReached: ``max_calls`` allow no more; likewise.
        """
        with closing(RerankEndpoint(self, self.dialect)) as endpoint:
            asked = _Asked(self, candidates, endpoint)
            keys, tokens = asked.keys(fingerprint(self.describe())), lambda: endpoint.tokens
            scores = scores_by_query(candidates, keys, asked.scores, workspace, tokens)
        pairs = list(zip(candidates, asked.questions, strict=True))
        failures = {q.query_id: asked.failures[name] for q, name in pairs if name in asked.failures}
        seconds = {q.query_id: asked.seconds[name] for q, name in pairs if name in asked.seconds}
        return Reranked(scores, failures, seconds)


class _Asked:
    """All questions of one ranking, why some failed, and the times of those without known scores.

    Attributes:
        questions: that of each query.
        failures: why a question has no scores.
        seconds: what the requests of a question took, where nothing was known.
    """

    def __init__(
        self, options: RerankApi, candidates: Sequence[Candidates], endpoint: RerankEndpoint
    ) -> None:
        self._options, self._endpoint = options, endpoint
        self.questions = [
            Question(query.query, fingerprint(list(dict.fromkeys(query.texts))))
            if options.listwise
            else Question(query.query)
            for query in candidates
        ]
        rows = zip(candidates, self.questions, strict=True)
        self._question_of = [question for query, question in rows for _ in query.texts]
        self._pairs = pairs_of(candidates)
        texts = [pair.document for pair in self._pairs]
        self._sizes = Counter(q for q, _ in set(zip(self._question_of, texts, strict=True)))
        self._outage = Outage("the reranking server")
        self.failures = dict[Question, str]()
        self.seconds = dict[Question, float]()

    def keys(self, scorer: str) -> Any:  # noqa: ANN401 (an array of Arrow)
        """Return what the scores are kept by."""
        pairs = self._pairs
        if self._options.listwise:
            rows = zip(pairs, self._question_of, strict=True)
            pairs = [Pair(p.query, canonical_json([p.document, q.among])) for p, q in rows]
        return pair_keys(scorer, pairs)

    def scores(self, missing: Rows) -> Iterator[tuple[Rows, Values]]:
        """Yield scores as they come, of several questions at a time."""
        by_question = defaultdict[Question, list[int]](list)
        for row in missing.tolist():
            by_question[self._question_of[row]].append(row)
        works = [
            (partial(self._ask, question, rows), len(self._options.passages_by_request(len(rows))))
            for question, rows in by_question.items()
        ]
        limit = CallLimit(self._options.max_calls)
        for _, (question, rows, scores, failed) in limit.results(works, self._options.concurrency):
            self._outage.note(failed)
            if failed is not None:
                self.failures[question] = failed.reason
            yield np.array(rows, dtype=np.int64), scores
        self._outage.check()

    def _ask(
        self, question: Question, rows: list[int]
    ) -> tuple[Question, list[int], Scores, Failed | None]:
        """Return the scores of rows, those before a failure, and the failure."""
        self._outage.check()
        started, scores, start = time.perf_counter(), [np.empty(0)], 0
        for size in self._options.passages_by_request(len(rows)):
            texts = [self._pairs[row].document for row in rows[start : start + size]]
            result = self._endpoint.score(question.query, texts)
            if isinstance(result, Failed):
                return question, rows[:start], np.concatenate(scores), result
            scores.append(result)
            start += size
        if len(rows) == self._sizes[question]:
            self.seconds[question] = time.perf_counter() - started
        return question, rows, np.concatenate(scores), None


class RerankEndpoint(ModelClient):
    """A server that reranks."""

    def __init__(
        self,
        options: ServedModelOptions,
        dialect: Dialect = "cohere",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Raises:
            UsageError: the variable is not set, or holds what no header can.
        """
        import httpx2

        super().__init__(options, sleep=sleep)
        self._dialect = dialect
        self._transport = Transport(httpx2, self.server)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

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
        answer = json.loads(self._transport.post(PATH, body))
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
