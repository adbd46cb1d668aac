"""Analyzers ``german``, ``french`` ...: ``standard`` tokens, stemmed by Snowball's algorithm.

One for each language of PyStemmer but English, which has an analyzer with more to it. They have no
stop words: no installed package holds lists whose origin and licence are stated. A frequent word
weighs little in BM25 and TF-IDF anyway. An apostrophe separates words, so that French "l'eau" is
"l" and "eau".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rag_assets.retrieval.lexical.analyzers.analyzer import Analyzer, Tokens
from rag_assets.retrieval.lexical.analyzers.standard import standard_tokens

# fmt: off
LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "esperanto", "estonian",
    "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
    "lithuanian", "nepali", "norwegian", "persian", "polish", "portuguese", "romanian", "russian",
    "serbian", "sesotho", "spanish", "swedish", "tamil", "turkish", "yiddish",
)
# fmt: on
"""Names of PyStemmer's algorithms, which are also those of the analyzers."""


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

    # a stemmer object of its own for each call: one must not be shared by threads
    return dict(zip(tokens, Stemmer.Stemmer(language).stemWords(tokens), strict=True))


SNOWBALL = {
    language: Analyzer(language, _analyze_all(language), distributions=("PyStemmer",))
    for language in LANGUAGES
}
