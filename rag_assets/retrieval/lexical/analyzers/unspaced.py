"""Analyzers of scripts that write no blanks between words; others are treated as in ``standard``.

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
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from rag_assets.retrieval.lexical.analyzers.words import (
    CJK,
    CJK_CHARACTER,
    UNSPACED,
    UNSPACED_CHARACTER,
    Analyzer,
    Tokens,
    split_cjk,
    tokens_of_runs,
    words,
)

NGRAM_SIZES = (2, 3)


_UNSPACED_RUNS = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")


_UNCUT = re.compile(f"[{CJK}{UNSPACED}]")


_DICTIONARY_RUNS = re.compile(f"[{CJK}{UNSPACED}]+|[^{CJK}{UNSPACED}]+")


_CJK_RUNS = re.compile(f"[{CJK}]+|[^{CJK}]+")


def _cjk_tokens_of(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [_with_bigrams(text) for text in texts]


def _with_bigrams(text: str) -> Tokens:
    if text.isascii():
        return words(text)
    return [token for word in words(text) for token in _cjk_tokens(word)]


def _cjk_tokens(word: str) -> Tokens:
    """Return the units of one word and, where two adjacent ones are both CJK, their bigram."""
    units = split_cjk(word)
    bigrams = [a + b for a, b in pairwise(units) if _is_cjk(a) and _is_cjk(b)]
    return units + bigrams


def _is_cjk(unit: str) -> bool:
    return CJK_CHARACTER.match(unit) is not None


CJK_ANALYZER = Analyzer("cjk", _cjk_tokens_of)


def _ngrams_of(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [tokens_of_runs(text, _UNSPACED_RUNS, _ngrams_of_run) for text in texts]


def _ngrams_of_run(run: str) -> Tokens:
    if UNSPACED_CHARACTER.match(run) is None:
        return _cjk_tokens(run)
    grams = [run[at : at + n] for n in NGRAM_SIZES for at in range(len(run) - n + 1)]
    return grams or [run]


NGRAMS = Analyzer("ngrams", _ngrams_of)


def _icu_words_of(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [tokens_of_runs(text, _DICTIONARY_RUNS, _icu_words_of_run) for text in texts]


def _icu_words_of_run(run: str) -> Tokens:
    if len(run) == 1 or _UNCUT.match(run) is None:
        return [run]
    from icu4py.breakers import WordBreaker

    return list(WordBreaker(run, "root"))


ICU = Analyzer("icu", _icu_words_of, distributions=("icu4py",), extra="icu")


def _jieba_words_of(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [_with_jieba(text) for text in texts]


def _with_jieba(text: str) -> Tokens:
    if text.isascii():
        return words(text)
    return [token for word in words(text) for token in _cut(word)]


def _cut(word: str) -> Tokens:
    if len(split_cjk(word)) == 1:  # one character, or a word of another script
        return [word]
    return [token for run in _CJK_RUNS.findall(word) for token in _cut_run(run)]


def _cut_run(run: str) -> Tokens:
    if re.match(f"[{CJK}]", run) is None:
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


JIEBA = Analyzer("jieba", _jieba_words_of, distributions=("jieba",), extra="chinese")
