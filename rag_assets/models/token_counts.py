"""How many tokens texts are to a model; a text that was counted before is looked up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rag_assets.code_versions.versions import filled_by
from rag_assets.models.model_files import ModelFiles, tokenizer_file
from rag_assets.models.model_names import open_tokenizer
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
    return counts_by(file, files.tokenizer_sha256, [prompt + text for text in texts], cache)


def counts_by(
    file: Path,
    digest: str,
    texts: Sequence[str],
    cache: Path | None,
    *,
    special: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Counts:
    """Return how many tokens each text has by a tokenizer.

    Args:
        file: its ``tokenizer.json``.
        digest: the SHA-256 of that file.
        texts: the texts.
        cache: folder of the numbers that are known; None remembers nothing.
        special: whether special tokens are counted.
        progress: told how many of the texts that were not known have been counted.

    Raises:
        ModelUnavailable: the file cannot be read.
        StoreError: the cache cannot be written.
    """
    if cache is None:
        return _counted(texts, open_tokenizer(file), special=special, progress=progress)
    space = {
        "tokenizer_sha256": digest,
        "tokenizers": version("tokenizers"),
        "special": special,
        "code": filled_by(f"{__name__}:_counted"),
    }
    known = TokenCountCache(cache, fingerprint(space))
    counts = known.get(texts)
    missing = np.flatnonzero(counts == UNKNOWN)
    if missing.size:
        new = [texts[row] for row in missing.tolist()]
        counts[missing] = _counted(new, open_tokenizer(file), special=special, progress=progress)
        known.put(new, counts[missing])
    return counts


def _counted(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    special: bool,
    progress: Callable[[int], None] | None,
) -> Counts:
    counts = np.empty(len(texts), dtype=np.int32)
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        batch = list(texts[start : start + TEXTS_AT_ONCE])
        found = tokenizer.encode_batch_fast(batch, add_special_tokens=special)
        counts[start : start + len(batch)] = [len(one.ids) for one in found]
        if progress is not None:
            progress(start + len(batch))
    return counts
