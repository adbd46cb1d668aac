"""Analyzer ``english``: ``standard`` tokens without possessive 's and stop words, then stemmed.

The stop list is Lucene's ``ENGLISH_STOP_WORDS_SET`` (33 words). The stemmer is Snowball's
``english`` (Porter2) as in PyStemmer. Numbers and one-character tokens are kept: in technical texts
they carry meaning. This is the chain of Lucene's EnglishAnalyzer, with Porter2 instead of Porter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_assets.retrieval.lexical.analyzers.analyzer import Analyzer, Tokens
from rag_assets.retrieval.lexical.analyzers.standard import standard_tokens

STEMMER = "english"
# fmt: off
STOP_WORDS = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is",
    "it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there",
    "these", "they", "this", "to", "was", "will", "with",
))
# fmt: on
"""Lucene's ``ENGLISH_STOP_WORDS_SET``."""

_POSSESSIVE = re.compile(r"(?<=\w)['\u2019\uff07]s\b", re.IGNORECASE)


def analyze_all(texts: Sequence[str]) -> list[Tokens]:
    """Return the stemmed tokens of each text."""
    kept = [_without_stop_words(text) for text in texts]
    stems = _stems(sorted({token for tokens in kept for token in tokens}))
    return [[stems[token] for token in tokens] for tokens in kept]


def _without_stop_words(text: str) -> Tokens:
    tokens = standard_tokens(_POSSESSIVE.sub("", text))
    return [token for token in tokens if token not in STOP_WORDS]


def _stems(tokens: list[str]) -> dict[str, str]:
    import Stemmer

    # a stemmer object of its own for each call: one must not be shared by threads
    return dict(zip(tokens, Stemmer.Stemmer(STEMMER).stemWords(tokens), strict=True))


ENGLISH = Analyzer("english", analyze_all, distributions=("PyStemmer",))
