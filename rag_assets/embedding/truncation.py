"""How many texts are longer than a model reads: what is beyond its maximum length has no effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rag_assets.embedding.model_config import declared_max_seq_length
from rag_assets.embedding.model_files import ModelFiles, tokenizer_file
from rag_assets.embedding.models import open_tokenizer

TEXTS_AT_ONCE = 1_000


def count_truncated(texts: Sequence[str], files: ModelFiles, prompt: str = "") -> int | None:
    """Return how many texts have more tokens, special ones counted, than the model reads.

    Args:
        texts: without prompt.
        files: the model's files.
        prompt: put before every text.

    Returns:
        0 for a model without a limit; None for one whose tokenizer is no ``tokenizer.json``.

    Raises:
        ModelUnavailable: ``tokenizer.json`` cannot be read.
    """
    limit = declared_max_seq_length(files.path)
    if limit is None:
        return 0
    file = tokenizer_file(files.path)
    if file is None:
        return None
    tokenizer = open_tokenizer(file)
    count = 0
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        group = [prompt + text for text in texts[start : start + TEXTS_AT_ONCE]]
        count += sum(len(found.ids) > limit for found in tokenizer.encode_batch(group))
    return count


def truncation_facts(n_truncated: int | None, n_texts: int) -> dict[str, Any]:
    """Return ``n_truncated`` where it is known, with a note for people where it is not 0."""
    if n_truncated is None:
        return {}
    note = f"{n_truncated} of {n_texts} chunks are longer than the model reads; what is beyond has "
    notes = {"notes": [f"{note}no effect"]} if n_truncated else {}
    return {"n_truncated": n_truncated, **notes}
