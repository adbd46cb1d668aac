from __future__ import annotations

from hypothesis import strategies as st

from rag_assets.testing.chunkers import MARKS

TEXTS = st.lists(
    st.sampled_from(MARKS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    max_size=25,
).map("".join)
"""Texts of all scripts, line ends and Markdown marks, and of anything else."""
