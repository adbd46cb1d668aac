"""Analyzer ``ngrams``: of every run of Thai, Lao, Khmer or Burmese each 2 and 3 neighbours.

These scripts write no blanks between words. Three characters, of which one is often a vowel sign or
a tone, come close to a syllable; two still match a short word inside a longer run. CJK is treated
as in ``cjk``, other scripts as in ``standard``. On Thai (XQuAD, nDCG@10 of BM25) this reaches what
words of ICU's dictionary reach; see docs/results.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_assets.retrieval.lexical.analyzers.analyzer import Analyzer, Tokens
from rag_assets.retrieval.lexical.analyzers.cjk import cjk_tokens
from rag_assets.retrieval.lexical.analyzers.words import (
    UNSPACED,
    UNSPACED_CHARACTER,
    tokens_of_runs,
)

SIZES = (2, 3)

_RUNS = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")


def analyze_all(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [tokens_of_runs(text, _RUNS, _of_run) for text in texts]


def _of_run(run: str) -> Tokens:
    if UNSPACED_CHARACTER.match(run) is None:
        return cjk_tokens(run)
    grams = [run[at : at + n] for n in SIZES for at in range(len(run) - n + 1)]
    return grams or [run]


NGRAMS = Analyzer("ngrams", analyze_all)
