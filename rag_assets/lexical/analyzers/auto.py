"""The default ``auto``: choose an analyzer by the script and the function words of the corpus.

The choice depends on the set of texts alone, not on their order: the sample is what hashes lowest.
"""

from __future__ import annotations

import heapq
import re
import zlib
from collections.abc import Sequence

from rag_assets.lexical.analyzers.words import CJK_CHARACTER, words

VERSION = "1"
SAMPLE_TEXTS = 500
SAMPLE_CHARACTERS = 1000
"""Of each sampled text that many characters are looked at."""

MIN_CJK_LETTERS = 0.1
"""Share of CJK among all letters from which on the corpus needs bigrams."""

MIN_LATIN_LETTERS = 0.8
MIN_FUNCTION_WORDS = 0.06
"""Share of function words among all words; 0.1 to 0.15 in English prose."""

FUNCTION_WORDS = frozenset(
    ("the", "and", "that", "with", "are", "this", "it", "from", "which", "has", "their", "they")
)
"""Frequent in English, and hardly ever words of another language in Latin script.

Not "in", "is", "of", "was", "a", "on", "to", "for", "by": they are words of German, Dutch, French
or Danish too.
"""

_LATIN_LETTER = re.compile("[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]")


def detect_analyzer(texts: Sequence[str]) -> str:
    """Return ``cjk``, ``english`` or ``standard`` for a corpus of these texts.

    ``cjk`` when at least one letter in ten is Chinese, Japanese or Korean; ``english`` when at
    least 80 % of the letters are Latin and 6 % of the words are English function words; otherwise,
    as for an empty corpus, ``standard``.
    """
    sample = [text[:SAMPLE_CHARACTERS] for text in _sample(texts)]
    letters = sum(sum(map(str.isalpha, text)) for text in sample)
    if letters == 0:
        return "standard"
    if _count(CJK_CHARACTER, sample) >= MIN_CJK_LETTERS * letters:
        return "cjk"
    if _count(_LATIN_LETTER, sample) < MIN_LATIN_LETTERS * letters:
        return "standard"
    found = [word for text in sample for word in words(text)]
    functional = sum(word in FUNCTION_WORDS for word in found)
    return "english" if functional >= MIN_FUNCTION_WORDS * len(found) else "standard"


def _sample(texts: Sequence[str]) -> list[str]:
    return heapq.nsmallest(SAMPLE_TEXTS, texts, key=lambda text: (_checksum(text), text))


def _checksum(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _count(pattern: re.Pattern[str], sample: list[str]) -> int:
    return sum(len(pattern.findall(text)) for text in sample)
