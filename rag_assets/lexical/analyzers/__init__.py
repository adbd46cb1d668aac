"""Analyzers: named, versioned ways to cut texts into tokens.

A name may end in ``+identifiers``: the analyzer's tokens, and those of
:mod:`rag_assets.lexical.analyzers.identifiers`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from importlib.util import find_spec

from rag_assets.errors import UsageError, allowed_names
from rag_assets.lexical.analyzers import auto, identifiers, snowball
from rag_assets.lexical.analyzers.analyzer import Analyzer, Tokens
from rag_assets.lexical.analyzers.auto import detect_analyzer
from rag_assets.lexical.analyzers.cjk import CJK
from rag_assets.lexical.analyzers.english import ENGLISH
from rag_assets.lexical.analyzers.icu_words import ICU
from rag_assets.lexical.analyzers.identifiers import with_identifiers
from rag_assets.lexical.analyzers.jieba_words import JIEBA
from rag_assets.lexical.analyzers.ngrams import NGRAMS
from rag_assets.lexical.analyzers.snowball import SNOWBALL
from rag_assets.lexical.analyzers.standard import STANDARD
from rag_assets.lexical.analyzers.whitespace import WHITESPACE
from rag_assets.package_versions import version

__all__ = [
    "ANALYZERS",
    "AUTO",
    "IDENTIFIERS",
    "Analyzer",
    "analyze",
    "analyze_all",
    "analyzer_versions",
    "check_analyzer",
    "detect_analyzer",
    "resolve_analyzer",
]

AUTO = "auto"
ANALYZERS: dict[str, Analyzer] = {
    each.name: each for each in (ENGLISH, STANDARD, CJK, NGRAMS, WHITESPACE, *SNOWBALL, JIEBA, ICU)
}

IDENTIFIERS = "+identifiers"
"""End of the name of an analyzer that also keeps identifiers whole."""


def analyze(name: str, text: str) -> Tokens:
    """Return the tokens of one text.

    Raises:
        UsageError: there is no analyzer of this name.
    """
    return analyze_all(name, [text])[0]


def analyze_all(name: str, texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text.

    Raises:
        UsageError: there is no analyzer of this name (``auto`` is resolved before).
    """
    analyzer = _analyzer(name.removesuffix(IDENTIFIERS))
    if name.endswith(IDENTIFIERS):
        return with_identifiers(analyzer, texts)
    return analyzer.analyze_all(texts)


def resolve_analyzer(name: str, texts: Sequence[str]) -> str:
    """Return ``name``, or what ``auto`` stands for on this corpus.

    Raises:
        UsageError: the name is neither ``auto`` nor an analyzer.
    """
    check_analyzer(name)
    end = IDENTIFIERS if name.endswith(IDENTIFIERS) else ""
    return f"{detect_analyzer(texts)}{end}" if name.removesuffix(end) == AUTO else name


def analyzer_versions(name: str) -> dict[str, str]:
    """Return all that determines the tokens besides the text: what to version -> its version.

    ``auto`` names every analyzer that it may choose, since the choice is not known beforehand.

    Raises:
        UsageError: the name is neither ``auto`` nor an analyzer.
    """
    versions = {"unicode": unicodedata.unidata_version}
    if name.endswith(IDENTIFIERS):
        versions["analyzer.identifiers"] = identifiers.VERSION
        name = name.removesuffix(IDENTIFIERS)
    if name != AUTO:
        return versions | _own_versions(_analyzer(name))
    for candidate in (STANDARD, CJK, NGRAMS, ENGLISH):
        versions |= _own_versions(candidate)
    # one for all stemmers, which are one piece of code
    return versions | {"analyzer.snowball": snowball.VERSION, "analyzer.auto": auto.VERSION}


def check_analyzer(name: str) -> None:
    """Refuse an unknown name, and an analyzer whose package is not installed.

    Raises:
        UsageError: the name is neither ``auto`` nor an analyzer, or an extra is missing.
    """
    if name.removesuffix(IDENTIFIERS) == AUTO:
        return
    analyzer = _analyzer(name.removesuffix(IDENTIFIERS))
    if analyzer.extra is not None and not all(map(find_spec, analyzer.distributions)):
        raise UsageError(
            f"analyzer {analyzer.name} needs the package {', '.join(analyzer.distributions)}: "
            f"pip install 'rag-assets[{analyzer.extra}]'"
        )


def _own_versions(analyzer: Analyzer) -> dict[str, str]:
    packages = {name: version(name) for name in analyzer.distributions}
    return {f"analyzer.{analyzer.name}": analyzer.version, **packages}


def _analyzer(name: str) -> Analyzer:
    if name not in ANALYZERS:
        raise UsageError(f"analyzer {allowed_names(name, [AUTO, *ANALYZERS])}")
    return ANALYZERS[name]
