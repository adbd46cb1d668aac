from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rag_assets.chunking.chunker import CHUNKING_TYPES, Embed
from rag_assets.chunking.pieces import Cutter
from rag_assets.testing.chunkers import MARKS, letter_vectors


def cutter(strategy: str, embed: Embed = letter_vectors, **options: Any) -> Cutter:
    """What a strategy cuts with these options by; sizes are of characters unless it says tokens."""
    if strategy in ("fixed", "recursive", "markdown"):
        options = {"overlap": 0, **options}
    options = {"strategy": strategy, **options}
    return CHUNKING_TYPES[strategy].model_validate(options).cutter(lambda _: embed)


TEXTS = st.lists(
    st.sampled_from(MARKS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    max_size=25,
).map("".join)
"""Texts of all scripts, line ends and Markdown marks, and of anything else."""
