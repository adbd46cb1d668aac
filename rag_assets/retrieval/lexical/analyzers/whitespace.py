"""Analyzer ``whitespace``: what lies between white space, unchanged.

For texts that were tokenised before, and for codes in which case and punctuation matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.retrieval.lexical.analyzers.analyzer import Analyzer, Tokens


def analyze_all(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [text.split() for text in texts]


WHITESPACE = Analyzer("whitespace", analyze_all)
