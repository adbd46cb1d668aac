"""Analyzer ``jieba``: Chinese words by the package jieba; needs the extra ``chinese``.

Every run of CJK characters is cut into words by jieba's mode for search, which gives the words
inside a long word too. It knows Chinese only: Japanese and Korean come out as single characters.
Other scripts are treated as in ``standard``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from rag_assets.retrieval.lexical.analyzers.analyzer import Analyzer, Tokens
from rag_assets.retrieval.lexical.analyzers.words import CJK, split_cjk, words

PACKAGE, EXTRA = "jieba", "chinese"

_RUNS = re.compile(f"[{CJK}]+|[^{CJK}]+")


def analyze_all(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [_tokens(text) for text in texts]


def _tokens(text: str) -> Tokens:
    if text.isascii():
        return words(text)
    return [token for word in words(text) for token in _cut(word)]


def _cut(word: str) -> Tokens:
    if len(split_cjk(word)) == 1:  # one character, or a word of another script
        return [word]
    return [token for run in _RUNS.findall(word) for token in _cut_run(run)]


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


JIEBA = Analyzer("jieba", analyze_all, distributions=(PACKAGE,), extra=EXTRA)
