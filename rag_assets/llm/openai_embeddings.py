"""Texts to vectors by a server that speaks the OpenAI protocol, through the package ``openai``.

The answer's vectors are ordered by their ``index``, as the protocol says.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.errors import ModelUnavailable, NotServed
from rag_assets.llm.endpoint import Endpoint
from rag_assets.llm.openai_compatible import open_client
from rag_assets.servers.failures import ServerFailure, answered
from rag_assets.servers.retries import wait_before

Vectors = npt.NDArray[np.float32]

_MOST_MEBIBYTES = 256
"""Of an answer: 2,048 vectors of 3,072 dimensions, written as decimal numbers."""

_log = logging.getLogger(__name__)


class OpenAIEmbeddings:
    """An embedding model at an :class:`Endpoint`."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        dimensions: int | None = None,
        batch_size: int = 64,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Args:
            endpoint: the server.
            dimensions: asks the server for shorter vectors; None takes the model's own.
            batch_size: texts a request.
            sleep: waits between attempts.

        Raises:
            UsageError: the package ``openai`` is not installed, or the variable is not set.
        """
        self._endpoint = endpoint
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._sleep = sleep
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
        """
        end, size = self._endpoint, self._batch_size
        batches = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        with ThreadPoolExecutor(end.concurrency, thread_name_prefix="embeddings") as pool:
            for start in range(0, len(batches), end.concurrency):
                group = batches[start : start + end.concurrency]
                found = list(pool.map(self._embed, group))
                dimension = dimension or found[0].shape[1]
                for vectors in found:
                    if vectors.shape[1] != dimension:
                        what = f"{dimension} dimensions, then of {vectors.shape[1]}"
                        raise ModelUnavailable(self._says(f"it gave vectors of {what}"))
                yield [text for batch in group for text in batch], np.concatenate(found)

    def _embed(self, texts: list[str]) -> Vectors:
        end = self._endpoint
        for attempt in range(end.retries + 1):
            try:
                return self._attempt(texts)
            except ServerFailure as failure:
                last = failure
            if not last.transient:
                break
            wait = wait_before(attempt, last.asked, end.backoff, end.max_backoff)
            if attempt == end.retries or wait is None:
                raise NotServed(self._says(str(last)))
            _log.info("%s: %s; again in %.1f s", end.place, last, wait)
            self._sleep(wait)
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
