"""Answers for many requests: from the cache, and in batches from the model, within a budget.

Answers are kept by content: what was asked once is never paid for again. The key of an answer is
the SHA-256 of all that determines it: the model's identity, the messages, temperature, seed, most
tokens, and the name and version of the prompt. Failures are not kept, so that they are asked again;
a refusal and a half answer are answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rag_assets.errors import ModelUnavailable, NotServed
from rag_assets.llm.budget import Budget, Limits
from rag_assets.llm.client import Answer, ChatModel, ChatRequest, Completion, Failure
from rag_assets.store.canonical import canonical_json
from rag_assets.store.segments import KEY, Segments

BATCH = 16


GIVE_UP_AFTER = 8
"""Requests in a row that a server did not serve in spite of retries: it will not serve the rest."""


Progress = Callable[[int, int], None]


SECONDS = "seconds"
"""Column of what an answer took; files of older versions have none."""


_VALUES = {
    "text": pa.string(),
    "prompt_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "finish_reason": pa.string(),
}


_SCHEMA = pa.schema(
    [
        pa.field("key", KEY, False),
        pa.field("request", pa.string(), False),  # for people: what the key is the hash of
        pa.field("text", pa.string(), False),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        pa.field("finish_reason", pa.string(), False),
        pa.field(SECONDS, pa.float64()),
    ]
)


@dataclass(frozen=True)
class Estimate:
    """What requests would need.

    Attributes:
        cached: different requests whose answer is known.
        calls: different requests that would be sent.
        cost_at_most: what these cost at most, in the unit of the prices; None without prices.
    """

    cached: int
    calls: int
    cost_at_most: float | None


def estimate(
    requests: Sequence[ChatRequest],
    identity: Mapping[str, str],
    cache: CompletionCache,
    limits: Limits,
) -> Estimate:
    """Return what the answers of the model ``identity`` would need; no model and no key does it."""
    distinct = list(dict.fromkeys(requests))
    missing = _missing(distinct, cache.get(identity, distinct))
    cost = sum(limits.cost_at_most(request) for request in missing) if limits.priced else None
    return Estimate(len(distinct) - len(missing), len(missing), cost)


class Completions:
    """A model with its cache and its budget."""

    def __init__(
        self,
        model: ChatModel,
        cache: CompletionCache,
        budget: Budget | None = None,
        *,
        batch: int = BATCH,
        progress: Progress | None = None,
    ) -> None:
        """Ask ``model`` for what ``cache`` does not hold.

        Args:
            model: who answers.
            cache: where every answer is kept as soon as its batch is there.
            budget: asked before each batch; shared by all that one evaluation does.
            batch: requests that are sent together, and lost together when the process is killed.
            progress: called with (answers of this call that are there, all of them).
        """
        self.model = model
        self.budget = budget or Budget()
        self._cache = cache
        self._batch = batch
        self._progress = progress

    def answer(self, requests: Sequence[ChatRequest]) -> list[Answer]:
        """Return the answer to each request, in order; equal requests are asked once.

        Raises:
            BudgetReached: the limits allow no more; what was answered is in the cache.
            ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
            StoreError: the cache cannot be written.
        """
        distinct = list(dict.fromkeys(requests))
        known = self._cache.get(self.model.identity, distinct)
        answers: dict[ChatRequest, Answer] = {
            request: answer
            for request, answer in zip(distinct, known, strict=True)
            if answer is not None
        }
        missing = _missing(distinct, known)
        unserved: list[Failure] = []
        while missing:
            self._tell(len(answers), len(distinct))
            allowed = self.budget.affordable(missing[: self._batch])
            if not allowed:
                raise self.budget.reached(len(answers), len(missing))
            batch, missing = missing[:allowed], missing[allowed:]
            found = self._ask(batch)
            answers.update(zip(batch, found, strict=True))
            unserved = _unserved(unserved, found)
        self._tell(len(answers), len(distinct))
        return [answers[request] for request in requests]

    def _ask(self, batch: Sequence[ChatRequest]) -> list[Answer]:
        """Return the answers to a batch, after they are counted and kept."""
        found = self.model.complete(batch)
        paid = []
        for request, answer in zip(batch, found, strict=True):
            self.budget.spend(request, answer)
            if isinstance(answer, Completion):
                paid.append((request, answer))
        self._cache.put(self.model.identity, paid)
        return found

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


def _missing(
    requests: Sequence[ChatRequest], known: Sequence[Completion | None]
) -> list[ChatRequest]:
    return [request for request, answer in zip(requests, known, strict=True) if answer is None]


def _unserved(before: list[Failure], found: Sequence[Answer]) -> list[Failure]:
    """Return the failures to serve at the end of the row of answers; refuse a row too long."""
    row = before
    for answer in found:
        if isinstance(answer, Failure) and answer.kind == "endpoint":
            raise ModelUnavailable(f"LLM: {answer.reason}")
        transient = isinstance(answer, Failure) and answer.kind == "transient"
        row = [*row, answer] if transient and isinstance(answer, Failure) else []
        if len(row) >= GIVE_UP_AFTER:
            raise NotServed(
                f"LLM: {len(row)} requests in a row were not served in spite of retries, the last "
                f"one: {row[-1].reason}; what was answered is kept, run again later"
            )
    return row


class CompletionCache:
    """The answers in one folder; several processes may read and write it at once."""

    def __init__(self, folder: Path) -> None:
        """Use ``folder``; it is created by the first ``put``."""
        self._segments = Segments(folder, [*_VALUES, SECONDS], _check, "completion cache")

    def get(
        self, identity: Mapping[str, str], requests: Sequence[ChatRequest]
    ) -> list[Completion | None]:
        """Return the answer of the model ``identity`` to each request, None where there is none."""
        answers: list[Completion | None] = [None] * len(requests)
        keys = _keys(request_text(identity, request) for request in requests)
        for part in self._segments.find(keys):
            rows = part.values.take(pa.array(part.rows))
            names = [name for name in (*_VALUES, SECONDS) if name in rows.column_names]
            columns = (rows.column(name).to_pylist() for name in names)
            for asked, values in zip(part.asked.tolist(), zip(*columns, strict=True), strict=True):
                answers[asked] = Completion(*values)
        return answers

    def put(
        self, identity: Mapping[str, str], answers: Sequence[tuple[ChatRequest, Completion]]
    ) -> None:
        """Add answers of the model ``identity``; what is known already stays as it is.

        Raises:
            StoreError: the folder cannot be written.
        """
        by_text = {request_text(identity, request): answer for request, answer in answers}
        texts = list(by_text)
        keys = _keys(texts)
        new = self._segments.unknown(keys)
        if not new.size:
            return
        chosen = [texts[i] for i in new.tolist()]
        values = zip(*(by_text[text] for text in chosen), strict=True)
        columns = [keys.take(pa.array(new)), pa.array(chosen)]
        typed = zip(values, [*_VALUES.values(), pa.float64()], strict=True)
        columns += [pa.array(column, kind) for column, kind in typed]
        self._segments.add(pa.Table.from_arrays(columns, schema=_SCHEMA))


def request_text(identity: Mapping[str, str], request: ChatRequest) -> str:
    """Return the canonical JSON whose SHA-256 is the key of an answer."""
    return canonical_json({"model": dict(identity), "request": request.content()})


def _keys(texts: Iterable[str]) -> pa.Array:
    digests = [hashlib.sha256(text.encode()).digest() for text in texts]
    return pa.array(digests, KEY)


def _check(schema: pa.Schema) -> None:
    for name, kind in _VALUES.items():
        if schema.field(name).type != kind:
            raise ValueError(f"column {name} is {schema.field(name).type}")
