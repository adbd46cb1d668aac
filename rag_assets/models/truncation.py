"""How many texts are longer than a model reads: what is beyond its maximum length has no effect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_assets.models.model_config import declared_max_seq_length
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.token_counts import token_counts


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
    counts = token_counts(texts, files, prompt, cache)
    return int((counts > limit).sum()) if counts is not None else None


def truncation_facts(n_truncated: int | None, n_texts: int) -> dict[str, Any]:
    """Return ``n_truncated`` where it is known, with a note for people where it is not 0."""
    if n_truncated is None:
        return {}
    note = f"{n_truncated} of {n_texts} chunks are longer than the model reads; what is beyond has "
    notes = {"notes": [f"{note}no effect"]} if n_truncated else {}
    return {"n_truncated": n_truncated, **notes}
