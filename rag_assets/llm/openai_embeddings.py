"""Texts to vectors by a server that speaks the OpenAI protocol, through the package ``openai``.

A text that was embedded before is looked up. The answer's vectors are ordered by their ``index``,
as the protocol says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.errors import ModelUnavailable, NotServed
from rag_assets.llm.budget import CallLimit
from rag_assets.llm.endpoint import Endpoint
from rag_assets.llm.openai_compatible import open_client
from rag_assets.models.batches import CacheWriter
from rag_assets.models.unit_vectors import Vectors, checked_lengths, to_unit_rows
from rag_assets.models.vector_cache import VectorCache
from rag_assets.servers.failures import ServerFailure, answered
from rag_assets.store.canonical import fingerprint

_MOST_MEBIBYTES = 256
"""Of an answer: 2,048 vectors of 3,072 dimensions, written as decimal numbers."""


def embed_cached(
    texts: Sequence[str],
    server: Callable[[], OpenAIEmbeddings],
    described: Mapping[str, Any],
    *,
    normalise: bool = True,
    cache: Path | None,
    progress: Callable[[int, int], None] | None = None,
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
        DataError: it gives NaN, or what no similarity is defined for, for a text.
    """
    if not texts:
        return np.empty((0, 0), dtype=np.float32)
    rows: dict[str, int] = {}
    row_of_text = [rows.setdefault(text, len(rows)) for text in texts]
    unique = list(rows)
    store = VectorCache(cache, fingerprint(dict(described))) if cache is not None else None
    known = np.zeros(len(unique), dtype=np.bool_)
    vectors: Vectors = np.zeros((len(unique), 0), dtype=np.float32)
    if store is not None:
        vectors, known = store.get(unique)
    missing = [text for text, is_known in zip(unique, known, strict=True) if not is_known]
    if missing:
        dimension = vectors.shape[1] or None
        new = _embed(missing, server(), store, progress, normalise, dimension)
        if not known.any():
            vectors = np.empty((len(unique), new.shape[1]), dtype=np.float32)
        vectors[~known] = new
    return vectors[row_of_text]


def _embed(
    texts: list[str],
    server: OpenAIEmbeddings,
    store: VectorCache | None,
    progress: Callable[[int, int], None] | None,
    normalise: bool,
    dimension: int | None,
) -> Vectors:
    parts: list[Vectors] = []
    done = 0
    with CacheWriter(store) as writer:
        for group, raw in server.embed(texts, dimension):
            parts.append(_checked(raw, group, normalise))
            writer.add(group, parts[-1])
            done += len(group)
            if progress is not None:
                progress(done, len(texts))
    return np.concatenate(parts)


def _checked(raw: Vectors, texts: Sequence[str], normalise: bool) -> Vectors:
    def name_of(row: int) -> str:
        return repr(texts[row][:80])

    if normalise:
        return to_unit_rows(raw, name_of)
    checked_lengths(raw, name_of)
    return raw


class OpenAIEmbeddings:
    """An embedding model at an :class:`Endpoint`."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        dimensions: int | None = None,
        batch_size: int = 64,
        max_calls: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Args:
            endpoint: the server.
            dimensions: asks the server for shorter vectors; None takes the model's own.
            batch_size: texts a request.
            max_calls: most requests that are answered or fail; None: any number.
            sleep: waits between attempts.

        Raises:
            UsageError: the package ``openai`` is not installed, or the variable is not set.
        """
        self._endpoint = endpoint
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._calls = CallLimit(max_calls)
        self._retries = endpoint.retrying(sleep)
        server = endpoint.server(_MOST_MEBIBYTES)
        self._secrets = server.secrets
        self._client = open_client(server)
        self._counted: list[int] = []

    @property
    def tokens(self) -> int | None:
        """Tokens of what was sent so far, as the server counts them; None: it does not tell."""
        return sum(self._counted) if self._counted else None

    def embed(
        self, texts: Sequence[str], dimension: int | None = None
    ) -> Iterator[tuple[list[str], Vectors]]:
        """Yield texts and their vectors, in order, a few requests at a time.

        Args:
            texts: what is embedded.
            dimension: of the vectors that the server gave before; None: of the first ones.

        Yields:
            The texts, and float32 of shape (len(texts), dimension), as the server sent them.

        Raises:
            ModelUnavailable: the server refuses, cannot be reached, or answers something else; one
                line, without the key.
            BudgetReached: ``max_calls`` allow no more; what was given before stays known.
        """
        end, size = self._endpoint, self._batch_size
        batches = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        with ThreadPoolExecutor(end.concurrency, thread_name_prefix="embeddings") as pool:
            while batches:
                allowed = self._calls.take([1] * len(batches[: end.concurrency]))
                group, batches = batches[:allowed], batches[allowed:]
                found = list(pool.map(self._embed, group))
                dimension = dimension or found[0].shape[1]
                for vectors in found:
                    if vectors.shape[1] != dimension:
                        what = f"{dimension} dimensions, then of {vectors.shape[1]}"
                        raise ModelUnavailable(self._says(f"it gave vectors of {what}"))
                yield [text for batch in group for text in batch], np.concatenate(found)

    def _embed(self, texts: list[str]) -> Vectors:
        try:
            return self._retries.answer(lambda: self._attempt(texts), self._endpoint.place)
        except ServerFailure as failure:
            last = failure
        if last.retryable:
            raise NotServed(self._says(str(last)))
        refused = "the request is refused" if last.kind == "refused" else None
        means = last.final or refused
        raise ModelUnavailable(self._says(f"{means} ({last})" if means else str(last)))

    def _attempt(self, texts: list[str]) -> Vectors:
        """Return the vectors of one request.

        Raises:
            ServerFailure: there are none.
        """
        return answered(lambda: self._checked(self._send(texts), len(texts)), self._secrets)

    def _send(self, texts: list[str]) -> object:
        optional: dict[str, Any] = {}
        if self._dimensions is not None:
            optional["dimensions"] = self._dimensions
        return self._client.embeddings.create(model=self._endpoint.model, input=texts, **optional)

    def _checked(self, response: Any, n_texts: int) -> Vectors:  # noqa: ANN401 (from a server)
        rows = {row.index: row.embedding for row in response.data}
        if sorted(rows) != list(range(n_texts)) or len(response.data) != n_texts:
            raise ValueError(f"{len(response.data)} vectors for {n_texts} texts")
        vectors: Vectors = np.array([rows[number] for number in range(n_texts)], dtype=np.float32)
        if vectors.ndim != 2 or not vectors.size:
            raise ValueError("the vectors are empty")
        counted = getattr(getattr(response, "usage", None), "total_tokens", None)
        if isinstance(counted, int) and 0 <= counted < 2**31:
            self._counted.append(counted)
        if self._dimensions is not None and vectors.shape[1] != self._dimensions:
            found = vectors.shape[1]
            raise ValueError(f"vectors of {found} dimensions, not the {self._dimensions} asked for")
        return vectors

    def _says(self, reason: str) -> str:
        end = self._endpoint
        return f"model '{end.model}' at {end.place} is not available: {reason}"
