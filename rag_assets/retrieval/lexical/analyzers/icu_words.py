"""Analyzer ``icu``: words by the dictionaries of ICU; needs the extra ``icu``.

Runs of Thai, Lao, Khmer, Burmese and CJK are cut into words. Other scripts are treated as in
``standard``, and nothing is stemmed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_assets.retrieval.lexical.analyzers.analyzer import Analyzer, Tokens
from rag_assets.retrieval.lexical.analyzers.words import CJK, UNSPACED, tokens_of_runs

PACKAGE, EXTRA = "icu4py", "icu"

_UNCUT = re.compile(f"[{CJK}{UNSPACED}]")
_RUNS = re.compile(f"[{CJK}{UNSPACED}]+|[^{CJK}{UNSPACED}]+")


def analyze_all(texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return [tokens_of_runs(text, _RUNS, _of_run) for text in texts]


def _of_run(run: str) -> Tokens:
    if len(run) == 1 or _UNCUT.match(run) is None:
        return [run]
    from icu4py.breakers import WordBreaker

    return list(WordBreaker(run, "root"))


ICU = Analyzer("icu", analyze_all, distributions=(PACKAGE,), extra=EXTRA)
