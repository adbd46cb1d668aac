"""How many tokens texts are to a model; a text that was counted before is looked up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rag_assets.code_versions.versions import filled_by
from rag_assets.embedding.model_files import ModelFiles, tokenizer_file
from rag_assets.embedding.models import open_tokenizer
from rag_assets.package_versions import version
from rag_assets.store.canonical import fingerprint
from rag_assets.store.token_count_cache import UNKNOWN, Counts, TokenCountCache

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEXTS_AT_ONCE = 1_000


def token_counts(
    texts: Sequence[str], files: ModelFiles, prompt: str = "", cache: Path | None = None
) -> Counts | None:
    """Return how many tokens each text has, special ones counted, whatever the model reads of them.

    Args:
        texts: without prompt.
        files: the model's files.
        prompt: put before every text.
        cache: folder of the numbers that are known; None remembers nothing.

    Returns:
        int32, shape (len(texts),); None for a model whose tokenizer is no ``tokenizer.json``.

    Raises:
        ModelUnavailable: ``tokenizer.json`` cannot be read.
        StoreError: the cache cannot be written.
    """
    file = tokenizer_file(files.path)
    if file is None:
        return None
    tokenizer, read = open_tokenizer(file), [prompt + text for text in texts]
    if cache is None:
        return _counted(read, tokenizer)
    space = {
        "tokenizer_sha256": files.tokenizer_sha256,
        "tokenizers": version("tokenizers"),
        "code": filled_by(f"{__name__}:token_counts"),
    }
    return _looked_up(read, tokenizer, TokenCountCache(cache, fingerprint(space)))


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
