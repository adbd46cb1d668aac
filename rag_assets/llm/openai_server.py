"""Chat models and embeddings behind a server that speaks the OpenAI protocol, by ``openai``.

A text that was embedded before is looked up. An answer's vectors are ordered by their ``index``,
as the protocol says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_assets.errors import ModelUnavailable, NotServed, UsageError
from rag_assets.llm.budget import CallLimit
from rag_assets.llm.client import REFUSAL, STOP, Answer, ChatRequest, Completion, now
from rag_assets.models.cache_fill import (
    DENSE_VECTORS,
    Progress,
    Rows,
    ValueCache,
    Vectors,
    as_wanted,
    filled,
)
from rag_assets.models.token_counts import in_batches
from rag_assets.servers.client import ModelClient, ServedModelOptions, token_count
from rag_assets.servers.failures import Failed, malformed
from rag_assets.servers.transport import Server, Transport
from rag_assets.store.canonical import fingerprint
from rag_assets.store.content_cache import text_keys

if TYPE_CHECKING:
    from openai import OpenAI


class OpenAICompatible(ModelClient):
    """A chat model behind a server."""

    def __init__(
        self, options: ServedModelOptions, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Raises:
            UsageError: the package ``openai`` is not installed, or the variable is not set.
        """
        super().__init__(options, sleep=sleep)
        self._client = open_client(self.server)

    @property
    def identity(self) -> Mapping[str, str]:
        """The model's name and its server."""
        return self.options.served_model

    def answer(self, request: ChatRequest) -> Answer:
        """Ask, and ask again where the server did not serve.

        Raises:
            ModelUnavailable: no request can succeed.
        """
        return self.result(lambda: self._attempt(request))

    def _attempt(self, request: ChatRequest) -> Completion:
        optional = {"temperature": request.temperature, "seed": request.seed}
        body: dict[str, Any] = {
            "model": self.options.model,
            "messages": [message._asdict() for message in request.messages],
            "max_tokens": request.max_tokens,
            **{name: value for name, value in optional.items() if value is not None},
        }
        started = time.perf_counter()
        completion = _completion(self._client.chat.completions.create(**body))
        return completion._replace(seconds=time.perf_counter() - started, time=now())


def open_client(server: Server) -> OpenAI:
    """Return a client of the package ``openai``; nothing is sent yet.

    Raises:
        UsageError: the package is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise UsageError(
            "a model behind a server needs the package openai: pip install 'rag-assets[api]'"
        ) from error
    import httpx2

    # Key, user and query are added on the way. Retries are ours: theirs have no settings.
    transport: Any = Transport(httpx2, server)
    carried = httpx2.Client(transport=transport, trust_env=False)
    return openai.OpenAI(
        api_key="unused", base_url=server.place, http_client=carried, max_retries=0
    )


def _completion(response: Any) -> Completion:  # noqa: ANN401  (servers send what they like)
    """Return the first choice of a response, checked: the package believes what it is sent.

    Raises:
        ServerFailure: it is not what the protocol says.
    """
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise malformed("it has no list of choices")
    choice = choices[0]
    message = choice.message
    refusal = getattr(message, "refusal", None)
    filtered = choice.finish_reason == "content_filter"
    text = refusal or message.content
    usage = getattr(response, "usage", None)
    names = ("prompt_tokens", "completion_tokens")
    prompt, written = (token_count(getattr(usage, name, None)) for name in names)
    reason = str(choice.finish_reason or STOP)
    if refusal or filtered:
        text, reason = str(text or ""), REFUSAL
    if not isinstance(text, str):
        raise malformed("it has no text")
    served = getattr(response, "model", None)
    served = served if isinstance(served, str) and served else None
    f"{text}{reason}{served}".encode()  # half a character of JSON, such as \ud800, is no text
    return Completion(text, prompt, written, reason, served_model=served)


_MAX_MEBIBYTES = 256
"""Of an answer: 2,048 vectors of 3,072 dimensions, written as decimal numbers."""


def embed_cached(
    texts: Sequence[str],
    server: Callable[[], OpenAIEmbeddings],
    described: Mapping[str, Any],
    *,
    normalise: bool = True,
    cache: Path | None,
    progress: Progress | None = None,
) -> Vectors:
    """Return one vector for each text; what was answered is kept if a later one fails.

    Args:
        texts: with their prompt; may repeat.
        server: opens the client; called only when a text is new.
        described: all that determines the vector of a text, ``normalise`` included.
        normalise: whether vectors are brought to length 1.
        cache: folder of the vector cache; None remembers nothing.
        progress: called with (texts embedded, texts to embed); not at all when none is new.

    Returns:
        float32, shape (len(texts), dimension); shape (0, 0) for no texts.

    Raises:
        UsageError: the package ``openai`` is not installed, or the key's variable is not set.
        ModelUnavailable: the server does not answer as it should.
        BudgetReached: ``max_calls`` allow no more.
        DataError: it gives NaN, or what no similarity is defined for, for a text.
    """
    store = None
    if cache is not None:
        store = ValueCache.of_space(cache, fingerprint(dict(described)), DENSE_VECTORS)

    def compute(rows: Rows) -> Iterator[tuple[Rows, Vectors]]:
        missing = [texts[row] for row in rows.tolist()]
        for start, vectors in server().embed(missing):
            some = slice(start, start + len(vectors))
            names = [repr(text[:80]) for text in missing[some]]
            yield rows[some], as_wanted(vectors, names.__getitem__, normalise=normalise)

    return filled(text_keys(texts), DENSE_VECTORS, store, compute, progress=progress)


class OpenAIEmbeddings(ModelClient):
    """An embedding model behind a server."""

    def __init__(
        self,
        options: ServedModelOptions,
        *,
        dimensions: int | None = None,
        batch_size: int = 64,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Args:
            options: where the model is, and how it is asked.
            dimensions: asks the server for shorter vectors; None takes the model's own.
            batch_size: texts a request.
            sleep: waits between attempts.

        Raises:
            UsageError: the package ``openai`` is not installed, or the variable is not set.
        """
        super().__init__(options, max_mebibytes=_MAX_MEBIBYTES, sleep=sleep)
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._calls = CallLimit(options.max_calls)
        self._client = open_client(self.server)

    def embed(self, texts: Sequence[str]) -> Iterator[tuple[int, Vectors]]:
        """Yield (number of the first text of a request, vectors), a few requests at a time.

        Yields:
            float32 of shape (texts of the request, dimension), as the server sent them.

        Raises:
            ModelUnavailable: the server refuses, cannot be reached, or answers something else; one
                line, without the key.
            BudgetReached: ``max_calls`` allow no more; what was given before stays known.
        """
        works = [(partial(self._embed, batch), 1) for batch in in_batches(texts, self._batch_size)]
        for number, vectors in self._calls.results(works, self.concurrency):
            yield number * self._batch_size, vectors

    def _embed(self, texts: list[str]) -> Vectors:
        vectors = self.result(lambda: self._attempt(texts))
        if isinstance(vectors, Failed):
            error = NotServed if vectors.retryable else ModelUnavailable
            place = f"model '{self.options.model}' at {self.server.place}"
            raise error(f"{place} is not available: {vectors.reason}")
        return vectors

    def _attempt(self, texts: list[str]) -> Vectors:
        optional: dict[str, Any] = (
            {} if self._dimensions is None else {"dimensions": self._dimensions}
        )
        response: Any = self._client.embeddings.create(
            model=self.options.model, input=texts, **optional
        )
        rows = {row.index: row.embedding for row in response.data}
        if sorted(rows) != list(range(len(texts))) or len(response.data) != len(texts):
            raise ValueError(f"{len(response.data)} vectors for {len(texts)} texts")
        vectors: Vectors = np.array([rows[row] for row in range(len(texts))], dtype=np.float32)
        if vectors.ndim != 2 or not vectors.size:
            raise ValueError("the vectors are empty")
        if self._dimensions is not None and vectors.shape[1] != self._dimensions:
            given = vectors.shape[1]
            raise ValueError(f"vectors of {given} dimensions, not the {self._dimensions} asked for")
        self.count_tokens(getattr(getattr(response, "usage", None), "total_tokens", None))
        return vectors
