r"""Unicode words, the first step of most analyzers, and all analyzers.

A word is a run of letters, digits and underscores (``\w``) with the combining marks on them; all
else, such as punctuation, hyphens and emoji, separates words and is dropped. Words are lower-cased
and in Unicode normal form NFKC, so that decomposed accents, ligatures and full-width letters, which
texts extracted from PDF are full of, meet their plain spelling.

- ``standard``: Unicode words, lower-cased; CJK as single characters. For any language, and for
  corpora in several: no stop words, no stemming.
- ``whitespace``: what lies between white space, unchanged. For texts that were tokenised before,
  and for codes in which case and punctuation matter.

These are for scripts that write no blanks between words; others are treated as in ``standard``:

- ``cjk``: of every run of CJK characters each character and each bigram. Two adjacent characters
  come close to a word, and single ones still match what no bigram does.
- ``ngrams``: of every run of Thai, Lao, Khmer or Burmese each 2 and 3 neighbours. Three characters,
  of which one is often a vowel sign or a tone, come close to a syllable; two still match a short
  word inside a longer run. CJK is treated as in ``cjk``. On Thai (XQuAD, nDCG@10 of BM25) this
  reaches what words of ICU's dictionary reach; see docs/results.md.
- ``icu``: runs of Thai, Lao, Khmer, Burmese and CJK are cut into words by the dictionaries of ICU;
  needs the extra ``icu``. Nothing is stemmed.
- ``jieba``: Chinese words by the package jieba; needs the extra ``chinese``. Every run of CJK
  characters is cut into words by jieba's mode for search, which gives the words inside a long word
  too. It knows Chinese only: Japanese and Korean come out as single characters.

Analyzers of one language give ``standard`` tokens, stemmed by the algorithms of PyStemmer
(Snowball):

``english`` drops possessive 's and 33 stop words, those of Lucene's ``ENGLISH_STOP_WORDS_SET``.
The stemmer is ``english`` (Porter2). Numbers and one-character tokens are kept: in technical texts
they carry meaning. This is the chain of Lucene's EnglishAnalyzer, with Porter2 instead of Porter.

``german``, ``french`` ... are one for each other language of PyStemmer. They have no stop words: no
installed package holds lists whose origin and licence are stated. A frequent word weighs little in
BM25 and TF-IDF anyway. An apostrophe separates words, so that French "l'eau" is "l" and "eau".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from rag_assets.errors import UsageError
from rag_assets.package_versions import version

Tokens = list[str]

CJK = (
    "\u2e80-\u2fdf"  # radicals, which NFKC turns into ideographs
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # iteration marks, numerals
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3105-\u312f\u31a0-\u31bf"  # bopomofo
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa0-\uffdc"  # hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # ideographs
    "\U0001aff0-\U0001b16f\U00020000-\U000323af"  # further kana and ideographs
)
"""Characters of Chinese, Japanese and Korean, as the inside of a regular expression's ``[...]``."""

CJK_CHARACTER = re.compile(f"[{CJK}]")

UNSPACED = (
    "\u0e01-\u0e4f"  # Thai without its digits
    "\u0e81-\u0ecf\u0edc-\u0edf"  # Lao
    "\u1780-\u17dd"  # Khmer
    "\u1000-\u103f\u1050-\u108f\u109a-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"  # Burmese
)
"""Letters and marks of scripts without blanks between words, but CJK; for a ``[...]`` too."""

UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")

_LAST_MARK = 0x1E94A

_VARIATION_SELECTORS = (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))

_INVISIBLE = {
    # soft hyphen, joiners, byte order mark: they lie inside words and change how those look only
    code: None
    for code in (0xAD, 0x200C, 0x200D, 0x2060, 0xFEFF, *_VARIATION_SELECTORS)
}

_ASCII_WORD = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True)
class Analyzer:
    """A named way to cut texts into the tokens that are indexed and searched for.

    ``distributions`` names the installed packages that have a part in the result, ``extra`` what
    installs them where they do not come with this package.
    """

    name: str
    analyze_all: Callable[[Sequence[str]], list[Tokens]]
    distributions: tuple[str, ...] = ()
    extra: str | None = None


def of_each(tokens_of: Callable[[str], Tokens]) -> Callable[[Sequence[str]], list[Tokens]]:
    """Return what gives the tokens of each text, by what gives those of one."""

    def analyze_all(texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text."""
        return [tokens_of(text) for text in texts]

    return analyze_all


def words(text: str) -> list[str]:
    """Return the words of ``text`` in order, lower-cased; runs of CJK characters stay whole."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    composed = unicodedata.normalize("NFC", text.translate(_INVISIBLE))
    # NFKC comes after the cut: before it, "Intel(TM)" written with the one sign would be "inteltm"
    return [_plain(word) for word in _word().findall(composed)]


def split_cjk(word: str) -> list[str]:
    """Cut a word into its CJK characters, each alone, and the runs of other scripts between."""
    if word.isascii() or not CJK_CHARACTER.search(word):
        return [word]
    return _cjk_or_other().findall(word)


def _plain(word: str) -> str:
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).lower()


@cache
def _word() -> re.Pattern[str]:
    return re.compile(rf"[\w\u2e80-\u2fdf][\w\u2e80-\u2fdf{_marks()}]*")


@cache
def _cjk_or_other() -> re.Pattern[str]:
    return re.compile(f"[{CJK}][{_marks()}]*|[^{CJK}]+")


@cache
def _marks() -> str:
    r"""Return all combining marks; ``\w`` leaves them out and would cut words at them."""
    codes = map(chr, range(0x300, _LAST_MARK + 1))
    return "".join(code for code in codes if unicodedata.category(code) in {"Mn", "Mc"})


def _by_runs(runs: re.Pattern[str], tokens_of: Callable[[str], Tokens]) -> Callable[[str], Tokens]:
    """Return what cuts words into the runs that a pattern matches, and these into tokens."""

    def tokens(text: str) -> Tokens:
        if text.isascii():  # it has no such runs
            return words(text)
        return [
            token for word in words(text) for run in runs.findall(word) for token in tokens_of(run)
        ]

    return tokens


def standard_tokens(text: str) -> Tokens:
    """Return the words of ``text``, with every Chinese, Japanese or Korean character alone."""
    tokens = words(text)
    if text.isascii():
        return tokens
    return [token for word in tokens for token in split_cjk(word)]


STANDARD = Analyzer("standard", of_each(standard_tokens))

WHITESPACE = Analyzer("whitespace", of_each(str.split))

NGRAM_SIZES = (2, 3)

_UNSPACED_RUNS = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")

_UNCUT = re.compile(f"[{CJK}{UNSPACED}]")

_DICTIONARY_RUNS = re.compile(f"[{CJK}{UNSPACED}]+|[^{CJK}{UNSPACED}]+")

_WHOLE = re.compile(".+")

_CJK_RUNS = re.compile(f"[{CJK}]+|[^{CJK}]+")


def _cjk_tokens(word: str) -> Tokens:
    """Return the units of one word and, where two adjacent ones are both CJK, their bigram."""
    units = split_cjk(word)
    bigrams = [a + b for a, b in pairwise(units) if _is_cjk(a) and _is_cjk(b)]
    return units + bigrams


def _is_cjk(unit: str) -> bool:
    return CJK_CHARACTER.match(unit) is not None


CJK_ANALYZER = Analyzer("cjk", of_each(_by_runs(_WHOLE, _cjk_tokens)))


def _ngrams_of_run(run: str) -> Tokens:
    if UNSPACED_CHARACTER.match(run) is None:
        return _cjk_tokens(run)
    grams = [run[at : at + n] for n in NGRAM_SIZES for at in range(len(run) - n + 1)]
    return grams or [run]


NGRAMS = Analyzer("ngrams", of_each(_by_runs(_UNSPACED_RUNS, _ngrams_of_run)))


def _icu_words_of_run(run: str) -> Tokens:
    if len(run) == 1 or _UNCUT.match(run) is None:
        return [run]
    from icu4py.breakers import WordBreaker

    return list(WordBreaker(run, "root"))


_ICU_WORDS = of_each(_by_runs(_DICTIONARY_RUNS, _icu_words_of_run))
ICU = Analyzer("icu", _ICU_WORDS, distributions=("icu4py",), extra="icu")


def _cut_run(run: str) -> Tokens:
    if len(run) == 1 or not _is_cjk(run):
        return [run]
    return _cutter()(run)


@cache
def _cutter() -> Callable[[str], Tokens]:
    """Return jieba's cut with its dictionary, past the cache that it keeps as a temporary file."""
    import jieba

    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    cut: Callable[[str], Tokens] = tokenizer.lcut_for_search
    return cut


_JIEBA_WORDS = of_each(_by_runs(_CJK_RUNS, _cut_run))
JIEBA = Analyzer("jieba", _JIEBA_WORDS, distributions=("jieba",), extra="chinese")


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
        split = [standard_tokens(text) for text in texts]
        stems = _stems(language, sorted({token for tokens in split for token in tokens}))
        # a stemmer may leave nothing of a token
        return [[stems[token] or token for token in tokens] for tokens in split]

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
