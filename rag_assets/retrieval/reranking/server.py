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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from rag_assets.errors import ModelUnavailable, NotServed
from rag_assets.llm.budget import CallLimit
from rag_assets.llm.endpoint import Endpoint
from rag_assets.models.cache_fill import Rows, ValueCache, Values, filled
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import (
    PAIR_SCORES,
    Candidates,
    Pair,
    Scores,
    pair_keys,
)
from rag_assets.retrieval.workspace import Usage, Workspace
from rag_assets.servers.client import Address, Outage, ServedModelOptions
from rag_assets.servers.failures import Failed, ServerFailure, answered
from rag_assets.servers.transport import Transport
from rag_assets.store.canonical import canonical_json, fingerprint

PATH = "/rerank"

Dialect = Literal["cohere", "tei"]
Name = tuple[str, ...]


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
        """Ask the server for the scores of every new pair."""
        started = time.perf_counter()
        with (
            closing(RerankEndpoint(Endpoint.of(self), self.dialect)) as endpoint,
            workspace.progress("rerank", len(candidates)) as advance,
        ):
            reranked = self._reranked(candidates, endpoint, workspace, advance)
        seconds = time.perf_counter() - started
        n_pairs = len({(query.query, text) for query in candidates for text in query.texts})
        workspace.measure(Usage("ask", endpoint.n_scored, seconds, tokens=endpoint.tokens))
        workspace.measure(Usage("ask", max(0, n_pairs - endpoint.n_scored), cached=True))
        return reranked

    def _reranked(
        self,
        candidates: Sequence[Candidates],
        endpoint: RerankEndpoint,
        workspace: Workspace,
        progress: Callable[[int, int], None],
    ) -> Reranked:
        """Return scores, NaN where there are none; why queries failed; times of unknown ones.

        Raises:
            ModelUnavailable: no request can succeed, or the server does not serve any more; what
                was scored is kept.
            BudgetReached: ``max_calls`` allow no more; likewise.
            StoreError: the cache cannot be written.
        """
        questions = self._questions(candidates)
        pairs = [pair for question in questions.values() for pair in question.pairs(self.listwise)]
        folder = workspace.cache_of("pair_scores")
        scores = filled(
            pair_keys(fingerprint(self.describe()), pairs),
            PAIR_SCORES,
            ValueCache(folder, PAIR_SCORES) if folder is not None else None,
            lambda rows: self._ask(list(questions.values()), rows, endpoint, progress),
            make=_unscored,
        )
        found: list[Scores] = []
        failures, seconds = dict[str, str](), dict[str, float]()
        for query in candidates:
            question = questions[self._name(query)]
            row_of = {text: row for row, text in enumerate(question.texts, start=question.first)}
            found.append(scores[[row_of[text] for text in query.texts]])
            if question.failed is not None:
                failures[query.query_id] = question.failed.reason
            if question.seconds is not None:
                seconds[query.query_id] = question.seconds
        return Reranked(found, failures, seconds)

    def _name(self, query: Candidates) -> Name:
        """Return what makes a question: queries of equal text are one, unless lists count."""
        return (query.query, *(dict.fromkeys(query.texts) if self.listwise else ()))

    def _questions(self, candidates: Sequence[Candidates]) -> dict[Name, _Question]:
        questions: dict[Name, _Question] = {}
        for query in candidates:
            question = questions.setdefault(self._name(query), _Question(query.query))
            question.texts = list(dict.fromkeys([*question.texts, *query.texts]))
        first = 0
        for question in questions.values():
            question.first, first = first, first + len(question.texts)
        return questions

    def _ask(
        self,
        questions: Sequence[_Question],
        missing: Rows,
        endpoint: RerankEndpoint,
        progress: Callable[[int, int], None],
    ) -> Iterator[tuple[Rows, Values]]:
        """Yield scores as they come, of several questions at a time; a failure is noted in each."""
        ends = np.searchsorted(missing, [question.first for question in questions[1:]])
        asked = zip(questions, np.split(missing, ends), strict=True)
        waiting = [(question, rows) for question, rows in asked if rows.size]
        outage = Outage()

        def after_block(done: int) -> None:
            if outage.reason is not None:
                raise NotServed(
                    f"the reranking server: {outage.reason}; the scores so far are stored, run "
                    "again later"
                )
            progress(done, len(waiting))

        size = None if self.listwise else self.batch_size
        works = [partial(question.ask, endpoint, rows, size) for question, rows in waiting]
        requests = [len(self.passages_by_request(rows.size)) for _, rows in waiting]
        limit = CallLimit(self.max_calls)
        for number, scored in limit.results(works, requests, self.concurrency, after_block):
            outage.note(waiting[number][0].failed)
            yield scored


@dataclass
class _Question:
    """A query's text with all texts that it is asked with; equal ones are asked once.

    Attributes:
        query: its text.
        texts: the different texts of its candidates.
        first: the row of the first of them.
        failed: why it has no scores.
        seconds: what its requests took, where nothing was known.
    """

    query: str
    texts: list[str] = field(default_factory=list)
    first: int = 0
    failed: Failed | None = None
    seconds: float | None = None

    def pairs(self, listwise: bool) -> list[Pair]:
        """Return what the scores are kept by."""
        if not listwise:
            return [Pair(self.query, text) for text in self.texts]
        among = fingerprint(self.texts)
        return [Pair(self.query, canonical_json([text, among])) for text in self.texts]

    def ask(self, endpoint: RerankEndpoint, rows: Rows, size: int | None) -> tuple[Rows, Values]:
        """Return the scores of rows, in requests of ``size`` texts; those before a failure."""
        started, scores = time.perf_counter(), [np.empty(0)]
        size = len(rows) if size is None else size
        for start in range(0, len(rows), size):
            texts = [self.texts[row - self.first] for row in rows[start : start + size].tolist()]
            result = endpoint.score(self.query, texts)
            if isinstance(result, Failed):
                self.failed = result
                return rows[:start], np.concatenate(scores)
            scores.append(result)
        if len(rows) == len(self.texts):
            self.seconds = time.perf_counter() - started
        return rows, np.concatenate(scores)


def _unscored(shape: tuple[int, ...], *, dtype: npt.DTypeLike) -> Values:
    return np.full(shape, np.nan, dtype=dtype)


class RerankEndpoint:
    """A server that reranks."""

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect = "cohere",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Raises:
            UsageError: the variable is not set, or holds what no header can.
        """
        import httpx2

        self._endpoint, self._dialect = endpoint, dialect
        self._retries = endpoint.retrying(sleep)
        self._server = endpoint.server()
        self._transport = Transport(httpx2, self._server)
        self._counts: list[tuple[int, int | None]] = []

    @property
    def n_scored(self) -> int:
        """Documents that were scored so far."""
        return sum(documents for documents, _ in self._counts)

    @property
    def tokens(self) -> int | None:
        """Tokens of what was sent so far, as the server counts them; None: it does not tell."""
        tokens = [count for _, count in self._counts if count is not None]
        return sum(tokens) if tokens else None

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def score(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        """Return one score a document, or why there are none; it is asked again where that helps.

        Raises:
            ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
        """
        end, secrets = self._endpoint, self._server.secrets
        try:
            return self._retries.answer(
                lambda: answered(lambda: self._attempt(query, documents), secrets), end.place
            )
        except ServerFailure as failure:
            last = failure
        if last.final is not None:
            raise ModelUnavailable(
                f"{end.place}{PATH}, model '{end.model}': {last.final} ({last}); "
                "check base_url, model and api_key_env"
            )
        return Failed(last.reason, last.retryable)

    def _attempt(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        body: dict[str, Any] = {"query": query, "texts": list(documents), "truncate": True}
        if self._dialect == "cohere":
            body = {"query": query, "documents": list(documents), "top_n": len(documents)}
            body["model"] = self._endpoint.model
        answer = json.loads(self._transport.post(PATH, body))
        rows = answer["results"] if isinstance(answer, Mapping) else answer
        scores = {_index(row["index"], len(documents)): _score(row) for row in rows}
        if len(rows) != len(documents) or len(scores) != len(documents):
            return Failed(f"the answer has {len(scores)} scores for {len(documents)} documents")
        self._counts.append((len(documents), _tokens(answer)))
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


def _tokens(answer: object) -> int | None:
    """Return ``usage.total_tokens`` of an answer, which Jina and vLLM tell; None without it."""
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    tokens = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    is_count = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < 2**31
    return tokens if is_count else None
