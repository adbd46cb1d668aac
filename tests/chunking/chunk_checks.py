from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rag_assets.chunking.chunker import CHUNKING_TYPES, Cutter, EmbedBy
from rag_assets.testing.chunkers import MARKS, letter_vectors


def by_letters(model: str) -> Any:
    """Vectors without a model."""
    return letter_vectors


def cutter(strategy: str, embed_by: EmbedBy = by_letters, **options: Any) -> Cutter:
    """What cuts by a strategy, of so many characters where one is given, without an overlap."""
    if {"max_characters", "max_tokens"} & options.keys() and strategy in ("fixed", "recursive"):
        options = {"overlap": 0, **options}
    return (
        CHUNKING_TYPES[strategy].model_validate({"strategy": strategy, **options}).cutter(embed_by)
    )


TEXTS = st.lists(
    st.sampled_from(MARKS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    max_size=25,
).map("".join)
"""Texts of all scripts, line ends and Markdown marks, and of anything else."""
