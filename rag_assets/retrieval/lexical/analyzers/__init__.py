"""Analyzers: named ways to cut texts into tokens."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from rag_assets.code_versions.closure import Root
from rag_assets.errors import UsageError, allowed_names
from rag_assets.package_versions import version
from rag_assets.retrieval.lexical.analyzers.auto import CHOICES, detect_analyzer
from rag_assets.retrieval.lexical.analyzers.words import (
    CJK_ANALYZER,
    ENGLISH,
    ICU,
    JIEBA,
    NGRAMS,
    SNOWBALL,
    STANDARD,
    WHITESPACE,
    Analyzer,
    Tokens,
)

__all__ = [
    "ANALYZERS",
    "AUTO",
    "Analyzer",
    "analyze",
    "analyze_all",
    "analyzer_code",
    "analyzer_versions",
    "check_analyzer",
    "detect_analyzer",
    "resolve_analyzer",
]

AUTO = "auto"

# Code that a name stands for is found in these tables, see ``analyzer_code``.
ANALYZERS: dict[str, Analyzer] = {
    "english": ENGLISH,
    "standard": STANDARD,
    "cjk": CJK_ANALYZER,
    "ngrams": NGRAMS,
    "whitespace": WHITESPACE,
    **SNOWBALL,
    "jieba": JIEBA,
    "icu": ICU,
}
_CHOOSERS: Mapping[str, Callable[[Sequence[str]], str]] = {"auto": detect_analyzer}


def analyze(name: str, text: str) -> Tokens:
    """Return the tokens of one text."""
    return analyze_all(name, [text])[0]


def analyze_all(name: str, texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    return _analyzer(name).analyze_all(texts)


def resolve_analyzer(name: str, texts: Sequence[str]) -> str:
    """Return ``name``, or what ``auto`` stands for on this corpus."""
    check_analyzer(name)
    choose = _CHOOSERS.get(name)
    return name if choose is None else choose(texts)


def analyzer_code(name: str) -> list[Root]:
    """Return the roots of the code that a name stands for; ``auto`` for all that it may choose."""
    chosen = CHOICES if name == AUTO else (name,)
    entries = ["**SNOWBALL" if one in SNOWBALL else one for one in chosen]
    roots = [f"ANALYZERS[{entry}]" for entry in dict.fromkeys(entries)]
    roots += ["_CHOOSERS[auto]" if name == AUTO else "_CHOOSERS[]"]
    return [f"{__name__}:{root}" for root in roots]


def analyzer_versions(name: str) -> dict[str, str]:
    """Return the versions of Unicode and of the packages that determine the tokens.

    ``auto`` names those of every analyzer that it may choose.
    """
    chosen = map(_analyzer, CHOICES if name == AUTO else (name,))
    packages = sorted({package for one in chosen for package in one.distributions})
    return {"unicode": unicodedata.unidata_version, **{one: version(one) for one in packages}}


def check_analyzer(name: str) -> None:
    """Refuse an unknown name, and an analyzer whose package is not installed."""
    if name == AUTO:
        return
    analyzer = _analyzer(name)
    if analyzer.extra is not None and not all(map(find_spec, analyzer.distributions)):
        raise UsageError(
            f"analyzer {analyzer.name} needs the package {', '.join(analyzer.distributions)}: "
            f"pip install 'rag-assets[{analyzer.extra}]'"
        )


def _analyzer(name: str) -> Analyzer:
    if name not in ANALYZERS:
        raise UsageError(f"analyzer {allowed_names(name, [AUTO, *ANALYZERS])}")
    return ANALYZERS[name]
