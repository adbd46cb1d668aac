"""Texts in batches of as many tokens, so that few are added to fill up a batch.

sentence-transformers sorts all that it is given at once by letters. Sorted by these, a tenth to a
fifth of the tokens of a batch of English texts only fill it up; sorted by tokens, a hundredth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rag_assets.models.model_config import declared_max_seq_length
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.token_counts import token_counts

Lengths = npt.NDArray[np.int_]
Item = TypeVar("Item")


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
