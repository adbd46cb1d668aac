"""Vectors of texts by a server; a text that was embedded before is looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.llm.openai_embeddings import OpenAIEmbeddings
from rag_assets.models.cache_writer import CacheWriter
from rag_assets.models.unit_vectors import Vectors, checked_lengths, to_unit_rows
from rag_assets.store.canonical import fingerprint
from rag_assets.store.vector_cache import VectorCache


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
