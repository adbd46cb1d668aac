"""Vectors of a store by their texts, as an evaluation keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rag_assets.models.cache_fill import DENSE_VECTORS, ValueCache
from rag_assets.store.content_cache import text_keys


class VectorCache:
    def __init__(self, root: Path, space: str) -> None:
        self._cache = ValueCache.of_space(root, space, DENSE_VECTORS)
        self.folder = self._cache.folder

    def get(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        vectors, is_known = self._cache.get(text_keys(texts))
        return np.zeros((len(texts), 0), np.float32) if vectors is None else vectors, is_known

    def put(self, texts: Sequence[str], vectors: np.ndarray) -> None:
        self._cache.put(text_keys(texts), vectors)
