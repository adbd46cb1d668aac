r"""Unicode words: the common first step of most analyzers, and the two analyzers of words alone.

A word is a run of letters, digits and underscores (``\w``) with the combining marks on them; all
else, such as punctuation, hyphens and emoji, separates words and is dropped. Words are lower-cased
and in Unicode normal form NFKC, so that decomposed accents, ligatures and full-width letters, which
texts extracted from PDF are full of, meet their plain spelling.

- ``standard``: Unicode words, lower-cased; CJK as single characters. For any language, and for
  corpora in several: no stop words, no stemming.
- ``whitespace``: what lies between white space, unchanged. For texts that were tokenised before,
  and for codes in which case and punctuation matter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

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


def tokens_of_runs(
    text: str, runs: re.Pattern[str], tokens_of: Callable[[str], list[str]]
) -> list[str]:
    """Return the tokens of a text whose words are cut into runs of one kind of script first.

    Args:
        text: any text; ASCII has no such runs.
        runs: matches each run of a word.
        tokens_of: gives the tokens of a run.
    """
    found = words(text)
    if text.isascii():
        return found
    return [token for word in found for run in runs.findall(word) for token in tokens_of(run)]


def standard_tokens(text: str) -> Tokens:
    """Return the words of ``text``, with every Chinese, Japanese or Korean character alone."""
    found = words(text)
    if text.isascii():
        return found
    return [token for word in found for token in split_cjk(word)]


def _standard_tokens_of(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [standard_tokens(text) for text in texts]


STANDARD = Analyzer("standard", _standard_tokens_of)


def _whitespace_tokens(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [text.split() for text in texts]


WHITESPACE = Analyzer("whitespace", _whitespace_tokens)
