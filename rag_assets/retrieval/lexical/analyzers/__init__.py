"""Analyzers: named ways to cut texts into tokens.

A name may end in ``+identifiers``: the analyzer's tokens, and those of
:mod:`rag_assets.retrieval.lexical.analyzers.identifiers`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from rag_assets.code_versions.closure import Root
from rag_assets.errors import UsageError, allowed_names
from rag_assets.package_versions import version
from rag_assets.retrieval.lexical.analyzers.auto import CHOICES, detect_analyzer
from rag_assets.retrieval.lexical.analyzers.identifiers import with_identifiers
from rag_assets.retrieval.lexical.analyzers.stemmed import ENGLISH, SNOWBALL
from rag_assets.retrieval.lexical.analyzers.words import (
    CJK_ANALYZER,
    ICU,
    JIEBA,
    NGRAMS,
    STANDARD,
    WHITESPACE,
    Analyzer,
    Tokens,
)

__all__ = [
    "ANALYZERS",
    "AUTO",
    "IDENTIFIERS",
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
IDENTIFIERS = "+identifiers"
"""End of the name of an analyzer that also keeps identifiers whole."""

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
_ENDS: Mapping[str, Callable[[Analyzer, Sequence[str]], list[Tokens]]] = {
    "+identifiers": with_identifiers
}


def analyze(name: str, text: str) -> Tokens:
    """Return the tokens of one text."""
    return analyze_all(name, [text])[0]


def analyze_all(name: str, texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text."""
    analyzer = _analyzer(name.removesuffix(IDENTIFIERS))
    if name.endswith(IDENTIFIERS):
        return _ENDS[IDENTIFIERS](analyzer, texts)
    return analyzer.analyze_all(texts)


def resolve_analyzer(name: str, texts: Sequence[str]) -> str:
    """Return ``name``, or what ``auto`` stands for on this corpus."""
    check_analyzer(name)
    end = IDENTIFIERS if name.endswith(IDENTIFIERS) else ""
    choose = _CHOOSERS.get(name.removesuffix(end))
    return name if choose is None else f"{choose(texts)}{end}"


def analyzer_code(name: str) -> list[Root]:
    """Return the roots of the code that a name stands for; ``auto`` for all that it may choose."""
    plain = name.removesuffix(IDENTIFIERS)
    chosen = CHOICES if plain == AUTO else (plain,)
    entries = ["**SNOWBALL" if one in SNOWBALL else one for one in chosen]
    roots = [f"ANALYZERS[{entry}]" for entry in dict.fromkeys(entries)]
    roots += ["_CHOOSERS[auto]" if plain == AUTO else "_CHOOSERS[]"]
    roots += ["_ENDS[]" if plain == name else f"_ENDS[{IDENTIFIERS}]"]
    return [f"{__name__}:{root}" for root in roots]


def analyzer_versions(name: str) -> dict[str, str]:
    """Return the versions of Unicode and of the packages that determine the tokens.

    ``auto`` names those of every analyzer that it may choose.
    """
    plain = name.removesuffix(IDENTIFIERS)
    chosen = map(_analyzer, CHOICES if plain == AUTO else (plain,))
    packages = sorted({package for one in chosen for package in one.distributions})
    return {"unicode": unicodedata.unidata_version, **{one: version(one) for one in packages}}


def check_analyzer(name: str) -> None:
    """Refuse an unknown name, and an analyzer whose package is not installed."""
    if name.removesuffix(IDENTIFIERS) == AUTO:
        return
    analyzer = _analyzer(name.removesuffix(IDENTIFIERS))
    if analyzer.extra is not None and not all(map(find_spec, analyzer.distributions)):
        raise UsageError(
            f"analyzer {analyzer.name} needs the package {', '.join(analyzer.distributions)}: "
            f"pip install 'rag-assets[{analyzer.extra}]'"
        )


def _analyzer(name: str) -> Analyzer:
    if name not in ANALYZERS:
        raise UsageError(f"analyzer {allowed_names(name, [AUTO, *ANALYZERS])}")
    return ANALYZERS[name]
