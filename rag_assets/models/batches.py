"""Texts in batches of as many tokens, and the encoding of those that a cache does not hold.

Few tokens are to be added to fill up a batch. sentence-transformers sorts all that it is given at
once by letters. Sorted by these, a tenth to a fifth of the tokens of a batch of English texts only
fill it up; sorted by tokens, a hundredth. New vectors are handed to the cache in portions, so that
a killed run loses a minute at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from rag_assets.compute.compute import Compute
from rag_assets.models.model_config import declared_max_seq_length
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.token_counts import token_counts
from rag_assets.models.unit_vectors import Vectors
from rag_assets.store.vector_caches import VectorCache

Lengths = npt.NDArray[np.int_]


Item = TypeVar("Item")


Encoded = TypeVar("Encoded")


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


class Cache(Protocol[Encoded]):
    """What is known of texts, each with its prompt."""

    def get(self, texts: Sequence[str]) -> dict[str, Encoded]:
        """Return what is known of those texts that are known."""

    def put(self, vectors: Mapping[str, Encoded]) -> None:
        """Keep what was unknown."""


def encode_unknown(
    texts: Sequence[str],
    encode: Callable[[list[str]], list[Encoded]],
    *,
    lengths: Callable[[Sequence[str]], Lengths],
    prompt: str,
    cache: Cache[Encoded] | None,
    compute: Compute,
    group_size: int,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Encoded]:
    """Return text -> what it is encoded as.

    Unknown texts are encoded in groups, longest first, so that those of a group are of even length;
    each group is kept as soon as it is there.

    Args:
        texts: may repeat; each is encoded once.
        encode: encodes one group, and puts the prompt before its texts; it can be pickled.
        lengths: by what unknown texts are sorted, see ``batch_lengths``.
        prompt: stands before every text in the cache.
        cache: None remembers nothing.
        compute: where groups are encoded.
        group_size: texts of a group.
        progress: called with (texts encoded, texts to encode); not at all when none is unknown.
    """
    unique = list(dict.fromkeys(texts))
    known = cache.get([prompt + text for text in unique]) if cache is not None else {}
    found = {text: known[prompt + text] for text in unique if prompt + text in known}
    unknown = [text for text in unique if text not in found]
    missing = [unknown[row] for row in np.argsort(-lengths(unknown), kind="stable").tolist()]
    groups = [*in_batches(missing, group_size)]
    n_done = 0
    for number, part in compute.map(encode, ((group,) for group in groups)):
        new = dict(zip(groups[number], part, strict=True))
        if cache is not None:
            cache.put({prompt + text: one for text, one in new.items()})
        found |= new
        n_done += len(new)
        if progress is not None:
            progress(n_done, len(missing))
    return found


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
