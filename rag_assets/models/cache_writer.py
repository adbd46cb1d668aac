"""Hands new vectors to the cache in portions, so that a killed run loses a minute at most."""

from __future__ import annotations

import time
from types import TracebackType

import numpy as np

from rag_assets.models.unit_vectors import Vectors
from rag_assets.store.vector_cache import VectorCache

FLUSH_TEXTS = 2_000
FLUSH_SECONDS = 60.0


class CacheWriter:
    """A context that collects vectors and writes them when there are many, late, or at its end.

    It also writes when the block ends by an error or an interruption.
    """

    def __init__(self, cache: VectorCache | None) -> None:
        """Write to ``cache``; None drops everything."""
        self._cache = cache
        self._texts: list[str] = []
        self._vectors: list[Vectors] = []
        self._written_at = time.monotonic()

    def __enter__(self) -> CacheWriter:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what is left."""
        self._flush()

    def add(self, texts: list[str], vectors: Vectors) -> None:
        """Take the vectors, shape (len(texts), dimension), of these texts."""
        if self._cache is None:
            return
        self._texts += texts
        self._vectors.append(vectors)
        late = time.monotonic() - self._written_at >= FLUSH_SECONDS
        if late or len(self._texts) >= FLUSH_TEXTS:
            self._flush()

    def _flush(self) -> None:
        if self._cache is not None and self._texts:
            self._cache.put(self._texts, np.concatenate(self._vectors))
        self._texts, self._vectors = [], []
        self._written_at = time.monotonic()
