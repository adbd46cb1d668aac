"""By what pairs are sorted, so that few tokens are added to fill up a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rag_assets.models.batches import Lengths
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.token_counts import token_counts
from rag_assets.store.pair_score_cache import Pair


def letters(pairs: Sequence[Pair]) -> Lengths:
    """Return how many letters both texts of each pair have; shape (len(pairs),)."""
    return np.array([len(pair.query) + len(pair.document) for pair in pairs], dtype=np.int_)


def pair_lengths(
    pairs: Sequence[Pair],
    files: ModelFiles,
    batch_size: int,
    limit: int | None,
    counted: Path | None = None,
) -> Lengths:
    """Return how many tokens of each pair a model reads, where they can be counted.

    Those that stand around and between the texts are the same in all pairs, and are not exact.
    Letters of what is one batch anyway.

    Args:
        pairs: of a query and a document.
        files: the model's files.
        batch_size: pairs that the model reads at once.
        limit: after how many tokens a pair is cut; None: never.
        counted: folder of the numbers of tokens that are known; None remembers none.

    Returns:
        Shape (len(pairs),).

    Raises:
        ModelUnavailable: ``tokenizer.json`` cannot be read.
        StoreError: the cache cannot be written.
    """
    if len(pairs) <= batch_size:
        return letters(pairs)
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    counts = token_counts(texts, files, cache=counted)
    if counts is None:
        return letters(pairs)
    count_of = dict(zip(texts, counts.tolist(), strict=True))
    both = np.array([count_of[pair.query] + count_of[pair.document] for pair in pairs])
    return both if limit is None else np.minimum(both, limit)
