"""Analyzer ``cjk``: of every run of CJK characters each character and each bigram.

Chinese and Japanese write no blanks between words; two adjacent characters come close to a word,
and single ones still match what no bigram does. Other scripts are treated as in ``standard``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rag_assets.retrieval.lexical.analyzers.analyzer import Analyzer, Tokens
from rag_assets.retrieval.lexical.analyzers.words import CJK_CHARACTER, split_cjk, words


def analyze_all(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [_tokens(text) for text in texts]


def _tokens(text: str) -> Tokens:
    if text.isascii():
        return words(text)
    return [token for word in words(text) for token in cjk_tokens(word)]


def cjk_tokens(word: str) -> Tokens:
    """Return the units of one word and, where two adjacent ones are both CJK, their bigram."""
    units = split_cjk(word)
    bigrams = [a + b for a, b in pairwise(units) if _is_cjk(a) and _is_cjk(b)]
    return units + bigrams


def _is_cjk(unit: str) -> bool:
    return CJK_CHARACTER.match(unit) is not None


CJK = Analyzer("cjk", analyze_all)
