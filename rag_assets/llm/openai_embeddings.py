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
from rag_assets.llm.openai_compatible import (
    ENDPOINT_STATUSES,
    TRANSIENT_STATUSES,
    open_client,
    plain,
    server_message,
    without_key,
)
from rag_assets.llm.retries import retry_after, wait_before

Vectors = npt.NDArray[np.float32]

_log = logging.getLogger(__name__)


class _NotNowError(Exception):
    """An attempt that may be repeated; ``asked`` are the seconds that the server wants."""

    def __init__(self, reason: str, asked: float | None = None) -> None:
        super().__init__(reason)
        self.asked = asked


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
        self._key = endpoint.api_key()
        self._client = open_client(endpoint, self._key)
        self._counted: list[int] = []

    @property
    def tokens(self) -> int | None:
        """Tokens of what was sent so far, as the server counts them; None: it does not tell."""
        return sum(self._counted) if self._counted else None

    def embed(self, texts: Sequence[str]) -> Iterator[tuple[list[str], Vectors]]:
        """Yield texts and their vectors, in order, a few requests at a time.

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
                yield [text for batch in group for text in batch], np.concatenate(found)

    def _embed(self, texts: list[str]) -> Vectors:
        end = self._endpoint
        for attempt in range(end.retries + 1):
            try:
                return self._attempt(texts)
            except _NotNowError as error:
                wait = wait_before(attempt, error.asked, end.backoff, end.max_backoff)
                if attempt == end.retries or wait is None:
                    raise NotServed(self._says(str(error))) from None
                _log.info("%s: %s; again in %.1f s", end.place, error, wait)
                self._sleep(wait)
        raise self._unavailable("no attempt was made")

    def _attempt(self, texts: list[str]) -> Vectors:
        import openai

        try:
            return self._checked(self._send(texts), len(texts))
        except openai.APIStatusError as error:
            raise self._refused(error) from None
        except openai.APITimeoutError:
            raise _NotNowError(f"no answer within {self._endpoint.timeout:g} s") from None
        except openai.APIConnectionError as error:
            reason = self._plain(str(error.__cause__ or error))
            raise _NotNowError(f"the connection failed ({reason})") from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError, LookupError) as error:
            what = self._plain(str(error) or type(error).__name__)
            raise self._unavailable(f"the answer is not what the protocol says: {what}") from None

    def _send(self, texts: list[str]) -> object:
        optional = without_key(self._key)
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
        if isinstance(counted, int):
            self._counted.append(counted)
        if self._dimensions is not None and vectors.shape[1] != self._dimensions:
            found = vectors.shape[1]
            raise ValueError(f"vectors of {found} dimensions, not the {self._dimensions} asked for")
        return vectors

    def _refused(self, error: Any) -> Exception:  # noqa: ANN401 (a type of the optional package)
        status, what = error.status_code, self._plain(server_message(error))
        if status in TRANSIENT_STATUSES or status >= 500:
            return _NotNowError(f"HTTP {status}: {what}", retry_after(error.response.headers))
        means = ENDPOINT_STATUSES.get(status, "the request is refused")
        return self._unavailable(f"{means} (HTTP {status}: {what})")

    def _unavailable(self, reason: str) -> ModelUnavailable:
        return ModelUnavailable(self._says(reason))

    def _says(self, reason: str) -> str:
        end = self._endpoint
        return f"model '{end.model}' at {end.place} is not available: {reason}"

    def _plain(self, text: str) -> str:
        return plain(text, self._endpoint, self._key)
