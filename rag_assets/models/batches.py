"""Texts in batches of as many tokens, and new vectors in portions for their cache.

Few tokens are to be added to fill up a batch. sentence-transformers sorts all that it is given at
once by letters. Sorted by these, a tenth to a fifth of the tokens of a batch of English texts only
fill it up; sorted by tokens, a hundredth. New vectors are handed to the cache in portions, so that
a killed run loses a minute at most.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rag_assets.models.model_files import ModelFiles, declared_max_seq_length
from rag_assets.models.token_counts import token_counts
from rag_assets.models.unit_vectors import Vectors
from rag_assets.models.vector_cache import VectorCache

Lengths = npt.NDArray[np.int_]


Item = TypeVar("Item")


FLUSH_TEXTS = 2_000


FLUSH_SECONDS = 60.0


def fills_up(files: ModelFiles) -> bool:
    """Return whether a model fills up its batches: one without a limit, a static one, does not."""
    return declared_max_seq_length(files.path) is not None


def batch_lengths(
    texts: Sequence[str],
    files: ModelFiles,
    batch_size: int,
    prompt: str = "",
    counted: Path | None = None,
) -> Lengths:
    """Return by what texts are sorted before they are cut into batches.

    Tokens that the model reads, where they can be counted. Letters of what is one batch anyway, and
    of texts of a model that fills up nothing.

    Args:
        texts: without prompt.
        files: the model's files.
        batch_size: texts that the model reads at once.
        prompt: put before every text.
        counted: folder of the numbers of tokens that are known; None remembers none.

    Returns:
        Shape (len(texts),).

    Raises:
        ModelUnavailable: ``tokenizer.json`` cannot be read.
        StoreError: the cache cannot be written.
    """
    limit = declared_max_seq_length(files.path)
    counts = None
    if limit is not None and len(texts) > batch_size:
        counts = token_counts(texts, files, prompt, counted)
    if limit is None or counts is None:
        return np.array([len(text) for text in texts], dtype=np.int_)
    return np.minimum(counts, limit).astype(np.int_)


def in_batches(items: Sequence[Item], size: int) -> Iterator[list[Item]]:
    """Yield ``size`` items at a time, in their order.

    A batch that sentence-transformers is given by itself stays the batch that it is.
    """
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


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
