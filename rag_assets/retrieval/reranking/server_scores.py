"""Candidates scored by a server, query by query, each pair paid for once.

A score is kept by query and document. A model that compares documents with each other gives scores
that hold for one list only: with ``listwise`` all candidates go into one request, and the list is
part of each score's key. A request ends with scores, a reason why there are none, or another try.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rag_assets.errors import ModelUnavailable, NotServed
from rag_assets.llm.budget import CallLimit
from rag_assets.llm.endpoint import Endpoint
from rag_assets.retrieval.reranking.candidates import Candidates, Pair, Scores
from rag_assets.retrieval.reranking.pair_scores import PairScoreCache, cache_scores
from rag_assets.servers.failures import Failed, ServerFailure
from rag_assets.store.canonical import canonical_json, fingerprint

GIVE_UP_AFTER = 8
"""Queries in a row that a server did not serve in spite of retries: it will not serve the rest."""


FLUSH_PAIRS = 2_000


FLUSH_SECONDS = 60.0


class DocumentScorer(Protocol):
    """What scores the documents of one query."""

    def score(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        """Return one score a document, or why there are none."""


@dataclass(frozen=True)
class RequestOptions:
    """How candidates are sent.

    Attributes:
        described: all that determines a score besides the texts.
        batch_size: most documents of a request; a listwise request has all.
        listwise: whether scores depend on the other documents of the request.
        concurrency: queries at a time.
        cache: folder of the pair score cache; None remembers nothing.
        max_calls: most requests of one ranking; None: any number.
    """

    described: Mapping[str, Any]
    batch_size: int = 32
    listwise: bool = False
    concurrency: int = 4
    cache: Path | None = None
    max_calls: int | None = None

    def batch_of(self, question: _Question) -> int:
        """Return how many documents of a question go into one request."""
        return len(question.documents) if self.listwise else self.batch_size


def rerank_by_server(
    candidates: Sequence[Candidates],
    endpoint: DocumentScorer,
    options: RequestOptions,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Scores], dict[str, str], dict[str, float]]:
    """Return the score of every candidate of every query, why queries have none, and times.

    Args:
        candidates: of each query.
        endpoint: who is asked.
        options: how.
        progress: called with (different queries done so far, different queries).

    Returns:
        Scores, NaN where there are none; query id -> reason for queries that failed; and query id
        -> seconds of its requests, for those of which nothing was known.

    Raises:
        ModelUnavailable: no request can succeed, or the server does not serve any more; what was
            scored is kept.
        BudgetReached: ``max_calls`` allow no more; likewise.
        StoreError: the cache cannot be written.
    """
    questions_by_name = _questions(candidates, options.listwise)
    questions = list(questions_by_name.values())
    cache = None
    if options.cache is not None:
        cache = PairScoreCache(options.cache, fingerprint(options.described))
        _look_up(cache, questions)
    _ask_all(questions, endpoint, options, _Writer(cache), progress)
    scores: list[Scores] = []
    failures: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for one in candidates:
        question = questions_by_name[_name(one, options.listwise)]
        place = {text: row for row, text in enumerate(question.documents)}
        scores.append(question.scores[[place[text] for text in one.texts]])
        if question.failed is not None:
            failures[one.query_id] = question.failed.reason
        if question.seconds is not None:
            seconds[one.query_id] = question.seconds
    return scores, failures, seconds


def _name(one: Candidates, listwise: bool) -> tuple[str, ...]:
    return (one.query, *(dict.fromkeys(one.texts) if listwise else ()))


def _questions(
    candidates: Sequence[Candidates], listwise: bool
) -> dict[tuple[str, ...], _Question]:
    """Return the different questions; queries of equal text are one, unless lists count."""
    texts: dict[tuple[str, ...], dict[str, None]] = {}
    queries: dict[tuple[str, ...], str] = {}
    for one in candidates:
        name = _name(one, listwise)
        queries[name] = one.query
        texts.setdefault(name, {}).update(dict.fromkeys(one.texts))
    return {name: _Question(queries[name], list(texts[name]), listwise) for name in texts}


def _look_up(cache: PairScoreCache, questions: Sequence[_Question]) -> None:
    known = cache.get([pair for question in questions for pair in question.pairs])
    start = 0
    for question in questions:
        question.scores[:] = known[start : start + len(question.pairs)]
        start += len(question.pairs)


def _ask_all(
    questions: Sequence[_Question],
    endpoint: DocumentScorer,
    options: RequestOptions,
    writer: _Writer,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Ask for all that is not known, several queries at a time; new scores are always kept."""
    incomplete = [question for question in questions if np.isnan(question.scores).any()]
    unserved, total, limit = 0, len(incomplete), CallLimit(options.max_calls)
    with ThreadPoolExecutor(options.concurrency, thread_name_prefix="rerank") as pool:
        try:
            while incomplete:
                block = incomplete[: options.concurrency]
                allowed = limit.take([one.requests(options.batch_of(one)) for one in block])
                block, incomplete = block[:allowed], incomplete[allowed:]
                sizes = [options.batch_of(question) for question in block]
                asked = pool.map(_Question.ask, block, [endpoint] * len(block), sizes)
                for question, rows in zip(block, asked, strict=True):
                    writer.add(question, rows)
                    unserved = _unserved(question, unserved)
                if progress is not None:
                    progress(total - len(incomplete), total)
        finally:
            writer.flush()


def _unserved(question: _Question, before: int) -> int:
    """Return how many queries in a row were not served.

    Raises:
        NotServed: too many.
    """
    if question.failed is None or not question.failed.retryable:
        return 0
    if before + 1 == GIVE_UP_AFTER:
        raise NotServed(
            f"the reranking server did not serve {GIVE_UP_AFTER} queries in a row, the last one: "
            f"{question.failed.reason}; the scores so far are stored, run again later"
        )
    return before + 1


class _Question:
    """A query's text with all documents that it is asked with; equal ones are asked once."""

    def __init__(self, query: str, documents: Sequence[str], listwise: bool) -> None:
        self.query = query
        self.documents = list(documents)
        among = fingerprint(self.documents) if listwise else None
        self.pairs = [
            Pair(query, canonical_json([text, among]) if listwise else text) for text in documents
        ]
        self.scores: Scores = np.full(len(self.documents), np.nan)
        self.failed: Failed | None = None
        self.seconds: float | None = None

    def requests(self, batch_size: int) -> int:
        """Return how many requests its missing scores take."""
        return -(-int(np.isnan(self.scores).sum()) // batch_size)

    def ask(self, endpoint: DocumentScorer, batch_size: int) -> list[int]:
        """Ask for the scores that are missing, and return which documents have a new one."""
        missing = np.flatnonzero(np.isnan(self.scores)).tolist()
        started = time.perf_counter()
        for start in range(0, len(missing), batch_size):
            rows = missing[start : start + batch_size]
            found = endpoint.score(self.query, [self.documents[row] for row in rows])
            if isinstance(found, Failed):
                self.failed = found
                return missing[:start]
            self.scores[rows] = found
        if len(missing) == len(self.documents):
            self.seconds = time.perf_counter() - started
        return missing


class _Writer:
    """Hands new scores to the cache in portions."""

    def __init__(self, cache: PairScoreCache | None) -> None:
        self._cache = cache
        self._new: list[tuple[_Question, list[int]]] = []
        self._written_at = time.monotonic()

    def add(self, question: _Question, rows: list[int]) -> None:
        self._new.append((question, rows))
        late = time.monotonic() - self._written_at >= FLUSH_SECONDS
        if late or sum(len(rows) for _, rows in self._new) >= FLUSH_PAIRS:
            self.flush()

    def flush(self) -> None:
        """Write; where another process was first, its scores are taken over."""
        pairs = [question.pairs[row] for question, rows in self._new for row in rows]
        if pairs:
            scores = np.concatenate([question.scores[rows] for question, rows in self._new])
            final = cache_scores(self._cache, pairs, scores)
            start = 0
            for question, rows in self._new:
                question.scores[rows] = final[start : start + len(rows)]
                start += len(rows)
        self._new, self._written_at = [], time.monotonic()


def with_retries(
    ask: Callable[[], Scores | Failed],
    endpoint: Endpoint,
    path: str,
    sleep: Callable[[float], None],
) -> Scores | Failed:
    """Return how the last attempt ended; another one follows where the server did not serve.

    Args:
        ask: makes an attempt; raises ServerFailure where it got no answer.
        endpoint: who is asked.
        path: of the request, behind the endpoint's address.
        sleep: waits between attempts.

    Raises:
        ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
    """
    try:
        return endpoint.retrying(sleep).answer(ask, endpoint.place)
    except ServerFailure as failure:
        last = failure
    if last.final is not None:
        raise ModelUnavailable(
            f"{endpoint.place}{path}, model '{endpoint.model}': {last.final} ({last}); "
            "check base_url, model and api_key_env"
        )
    return Failed(str(last), last.retryable)


def in_order(rows: Sequence[tuple[object, object]], n: int) -> Scores | Failed:
    """Return the scores of ``n`` documents in their order, from pairs of index and score.

    Raises:
        ValueError: an index is none of ``n`` documents, or a score is not a finite number.
    """
    found = {_index(index, n): _score(score) for index, score in rows}
    if len(rows) != n or len(found) != n:
        return Failed(f"the answer has {len(found)} scores for {n} documents")
    return np.array([found[place] for place in range(n)], dtype=np.float64)


def _index(index: object, n: int) -> int:
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < n:
        raise ValueError(f"index {index!r} is not the number of a document, from 0 to {n - 1}")
    return index


def _score(score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"score {score!r} is not a finite number")
    return float(score)
