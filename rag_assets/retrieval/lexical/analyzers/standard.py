"""Analyzer ``standard``: Unicode words, lower-cased; CJK as single characters.

For any language, and for corpora in several: no stop words, no stemming.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.retrieval.lexical.analyzers.analyzer import Analyzer, Tokens
from rag_assets.retrieval.lexical.analyzers.words import split_cjk, words


def standard_tokens(text: str) -> Tokens:
    """Return the words of ``text``, with every Chinese, Japanese or Korean character alone."""
    found = words(text)
    if text.isascii():
        return found
    return [token for word in found for token in split_cjk(word)]


def analyze_all(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [standard_tokens(text) for text in texts]


STANDARD = Analyzer("standard", analyze_all)
