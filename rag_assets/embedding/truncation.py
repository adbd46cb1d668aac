"""How many texts are longer than a model reads: what is beyond its maximum length has no effect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_assets.embedding.model_config import declared_max_seq_length
from rag_assets.embedding.model_files import ModelFiles, tokenizer_file
from rag_assets.embedding.models import open_tokenizer
from rag_assets.package_versions import version
from rag_assets.store.canonical import fingerprint
from rag_assets.store.token_count_cache import UNKNOWN, Counts, TokenCountCache

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEXTS_AT_ONCE = 1_000


def count_truncated(
    texts: Sequence[str], files: ModelFiles, prompt: str = "", cache: Path | None = None
) -> int | None:
    """Return how many texts have more tokens, special ones counted, than the model reads.

    Args:
        texts: without prompt.
        files: the model's files.
        prompt: put before every text.
        cache: folder of the numbers that are known; None remembers nothing.

    Returns:
        0 for a model without a limit; None for one whose tokenizer is no ``tokenizer.json``.

    Raises:
        ModelUnavailable: ``tokenizer.json`` cannot be read.
        StoreError: the cache cannot be written.
    """
    limit = declared_max_seq_length(files.path)
    if limit is None:
        return 0
    file = tokenizer_file(files.path)
    if file is None:
        return None
    tokenizer, read = open_tokenizer(file), [prompt + text for text in texts]
    if cache is None:
        counts = _counted(read, tokenizer)
    else:
        space = {"tokenizer_sha256": files.tokenizer_sha256, "tokenizers": version("tokenizers")}
        counts = _looked_up(read, tokenizer, TokenCountCache(cache, fingerprint(space)))
    return int((counts > limit).sum())


def _looked_up(texts: Sequence[str], tokenizer: Tokenizer, cache: TokenCountCache) -> Counts:
    counts = cache.get(texts)
    missing = np.flatnonzero(counts == UNKNOWN)
    if missing.size:
        new = [texts[row] for row in missing.tolist()]
        counts[missing] = _counted(new, tokenizer)
        cache.put(new, counts[missing])
    return counts


def _counted(texts: Sequence[str], tokenizer: Tokenizer) -> Counts:
    counts = np.empty(len(texts), dtype=np.int32)
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        some = slice(start, start + TEXTS_AT_ONCE)
        counts[some] = [len(found.ids) for found in tokenizer.encode_batch(list(texts[some]))]
    return counts


def truncation_facts(n_truncated: int | None, n_texts: int) -> dict[str, Any]:
    """Return ``n_truncated`` where it is known, with a note for people where it is not 0."""
    if n_truncated is None:
        return {}
    note = f"{n_truncated} of {n_texts} chunks are longer than the model reads; what is beyond has "
    notes = {"notes": [f"{note}no effect"]} if n_truncated else {}
    return {"n_truncated": n_truncated, **notes}
