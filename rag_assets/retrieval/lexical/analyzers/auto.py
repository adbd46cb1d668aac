"""The default ``auto``: choose an analyzer by the script and the function words of the corpus.

The choice depends on the set of texts alone: not on their order, on queries, or on what is
installed. The sample is what hashes lowest, so an edited text changes one text of it at most.
"""

from __future__ import annotations

import heapq
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from rag_assets.retrieval.lexical.analyzers.function_words import FUNCTION_WORDS
from rag_assets.retrieval.lexical.analyzers.stemmed import LANGUAGES
from rag_assets.retrieval.lexical.analyzers.words import CJK_CHARACTER, UNSPACED_CHARACTER, words

SAMPLE_TEXTS = 500
SAMPLE_CHARACTERS = 1000
"""Of each text that many characters are looked at."""

MIN_UNSPACED_LETTERS = 0.1
"""Share among all letters from which on a script without blanks decides."""

MIN_LATIN_LETTERS = 0.8
MIN_OTHER_LETTERS = 0.5
"""Less, since a stemmer for another script leaves the Latin names between as they are."""

MIN_FUNCTION_WORDS = 0.08
"""Share among the words of a script; 0.15 to 0.4 in prose of all languages that are known."""

MIN_LEAD = 3
"""So many times as often as the other language's own words are those of the language chosen."""

STANDARD, CJK, NGRAMS = "standard", "cjk", "ngrams"
LATIN = "latin"

_SCRIPTS = {
    LATIN: ((0x41, 0x24F), (0x1E00, 0x1EFF)),
    "greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "cyrillic": ((0x400, 0x52F),),
    "armenian": ((0x530, 0x58F),),
    "hebrew": ((0x590, 0x5FF),),
    "arabic": ((0x600, 0x6FF), (0x750, 0x77F)),
    "devanagari": ((0x900, 0x97F),),
    "tamil": ((0xB80, 0xBFF),),
}
_ONE_LANGUAGE = ("greek", "armenian", "tamil")
"""Scripts that are of one language, whose stemmer has the same name."""

CHOICES = (STANDARD, CJK, NGRAMS, "english", *LANGUAGES)
"""The analyzers that may be chosen."""


def detect_analyzer(texts: Sequence[str]) -> str:
    """Return the analyzer for a corpus of these texts.

    ``ngrams`` when at least one letter in ten is Thai, Lao, Khmer or Burmese; ``cjk`` when one in
    ten is Chinese, Japanese or Korean. The stemmer of a language when the letters are mostly of its
    script (80 % for Latin, 50 % for others), at least 8 % of the words of this script are among the
    commonest of the language, and it leads: for each other language, the words that are listed for
    it alone occur at most a third as often as those that are listed for the one chosen alone.
    Otherwise, as for an empty corpus, ``standard``.
    """
    sample = _sample(texts)
    characters = Counter("".join(sample))
    letters = {character: n for character, n in characters.items() if character.isalpha()}
    total = sum(letters.values())
    by_script: Counter[str] = Counter()
    for letter, n in letters.items():
        by_script[_script(letter)] += n
    for unspaced in (NGRAMS, CJK):
        if by_script[unspaced] and by_script[unspaced] >= MIN_UNSPACED_LETTERS * total:
            return unspaced
    script = max(_SCRIPTS, key=lambda name: by_script[name])
    share = MIN_LATIN_LETTERS if script == LATIN else MIN_OTHER_LETTERS
    if not by_script[script] or by_script[script] < share * total:
        return STANDARD
    return script if script in _ONE_LANGUAGE else _by_language(sample, script)


def _by_language(sample: Iterable[str], script: str) -> str:
    """Return the stemmer of the language that leads, else ``standard``."""
    counts = Counter(word for text in sample for word in words(text))
    own = {word: n for word, n in counts.items() if _script(word[0]) == script}
    language = max(FUNCTION_WORDS, key=lambda name: _occurrences(own, FUNCTION_WORDS[name]))
    listed = FUNCTION_WORDS[language]
    if _occurrences(own, listed) < MIN_FUNCTION_WORDS * sum(own.values()) or not own:
        return STANDARD
    for other in FUNCTION_WORDS.values():
        lead = _occurrences(own, listed - other)
        if other != listed and lead < max(1, MIN_LEAD * _occurrences(own, other - listed)):
            return STANDARD
    return language if language in CHOICES else STANDARD


def _occurrences(counts: dict[str, int], listed: Iterable[str]) -> int:
    return sum(counts.get(word, 0) for word in listed)


@cache
def _script(character: str) -> str:
    """Return the script of a character; scripts without blanks by their analyzer, "" for others."""
    if UNSPACED_CHARACTER.match(character):
        return NGRAMS
    if CJK_CHARACTER.match(character):
        return CJK
    code = ord(character)
    for name, ranges in _SCRIPTS.items():
        if any(first <= code <= last for first, last in ranges):
            return name
    return ""


def _sample(texts: Sequence[str]) -> list[str]:
    starts = (text[:SAMPLE_CHARACTERS] for text in texts)
    return heapq.nsmallest(SAMPLE_TEXTS, starts, key=lambda text: (_checksum(text), text))


def _checksum(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))
