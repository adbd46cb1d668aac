"""Analyzers of one language: ``standard`` tokens, stemmed by Snowball's algorithms as in PyStemmer.

``english`` drops possessive 's and 33 stop words, those of Lucene's ``ENGLISH_STOP_WORDS_SET``.
The stemmer is ``english`` (Porter2). Numbers and one-character tokens are kept: in technical texts
they carry meaning. This is the chain of Lucene's EnglishAnalyzer, with Porter2 instead of Porter.

``german``, ``french`` ... are one for each other language of PyStemmer. They have no stop words: no
installed package holds lists whose origin and licence are stated. A frequent word weighs little in
BM25 and TF-IDF anyway. An apostrophe separates words, so that French "l'eau" is "l" and "eau".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rag_assets.errors import UsageError
from rag_assets.package_versions import version
from rag_assets.retrieval.lexical.analyzers.words import Analyzer, Tokens, standard_tokens

# fmt: off
STOP_WORDS = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is",
    "it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there",
    "these", "they", "this", "to", "was", "will", "with",
))
# fmt: on
"""Lucene's ``ENGLISH_STOP_WORDS_SET``."""

# fmt: off
LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "esperanto", "estonian",
    "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
    "lithuanian", "nepali", "norwegian", "persian", "polish", "portuguese", "romanian", "russian",
    "serbian", "sesotho", "spanish", "swedish", "tamil", "turkish", "yiddish",
)
# fmt: on
"""Names of PyStemmer's algorithms, which are also those of the analyzers."""

_POSSESSIVE = re.compile(r"(?<=\w)['\u2019\uff07]s\b", re.IGNORECASE)


def _english_tokens(texts: Sequence[str]) -> list[Tokens]:
    """Return the stemmed tokens of each text."""
    tokens_of_texts = [_without_stop_words(text) for text in texts]
    stems = _stems("english", sorted({token for tokens in tokens_of_texts for token in tokens}))
    return [[stems[token] for token in tokens] for tokens in tokens_of_texts]


def _without_stop_words(text: str) -> Tokens:
    tokens = standard_tokens(_POSSESSIVE.sub("", text))
    return [token for token in tokens if token not in STOP_WORDS]


ENGLISH = Analyzer("english", _english_tokens, distributions=("PyStemmer",))


def _analyze_all(language: str) -> Callable[[Sequence[str]], list[Tokens]]:
    def analyze_all(texts: Sequence[str]) -> list[Tokens]:
        """Return the stemmed tokens of each text."""
        found = [standard_tokens(text) for text in texts]
        stems = _stems(language, sorted({token for tokens in found for token in tokens}))
        # a stemmer may leave nothing of a token
        return [[stems[token] or token for token in tokens] for tokens in found]

    return analyze_all


def _stems(language: str, tokens: list[str]) -> dict[str, str]:
    import Stemmer

    if language not in Stemmer.algorithms():
        problem = f"analyzer '{language}' needs PyStemmer 3, not {version('PyStemmer')}"
        raise UsageError(f"{problem}; install it, or choose another analyzer")
    # a stemmer object of its own for each call: one must not be shared by threads
    return dict(zip(tokens, Stemmer.Stemmer(language).stemWords(tokens), strict=True))


SNOWBALL = {
    language: Analyzer(language, _analyze_all(language), distributions=("PyStemmer",))
    for language in LANGUAGES
}
