r"""Analyzers: named ways to cut texts into tokens.

A name may end in ``+identifiers``: the analyzer's tokens, and those of part numbers, error codes,
CamelCase names and paths, whole beside their parts. An identifier is a run of ASCII letters and
digits, joined by one of ``- _ . / \ : @`` or by ``::``, ``://``, ``:\``, ``\\`` or ``__``, for
which one of these holds:

- it is joined, and holds a digit or two capitals in a row: ``KFP-30417``, ``ERR-CONN``, ``12:30``;
- it is joined by something that prose does not use between words, or by two slashes:
  ``max_tokens``, ``os.path``, ``std::vector``, ``usr/local/bin``, ``C:\temp``; not ``well-known``,
  ``and/or`` or ``e.g``;
- it is in CamelCase: ``HttpClient``, ``getURL``; not ``PDFs``.

Each gives, besides the tokens of the analyzer, a token of the whole, lower-cased and never stemmed,
and the tokens of its parts that the analyzer does not cut itself: between underscores and at the
capitals. Full-width letters and typographic hyphens are read as the plain ones.
"""

from __future__ import annotations

import re
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

_JOINT = r"(?:://|::|:\\|\\\\|__|[-_./\\:@])"
_RUN = re.compile(rf"(?<![^\W_])[A-Za-z0-9]+(?:{_JOINT}[A-Za-z0-9]+)*(?![^\W_]|[\u0300-\u036f])")
_SPLIT = re.compile(_JOINT)
_CODE = re.compile(r"[0-9]|[A-Z]{2}")
_STRONG_JOINT = re.compile(r"[_\\@]|::|://|/.*/|[A-Za-z0-9]{2}\.[A-Za-z0-9]|\.[A-Za-z0-9]{2}")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")
_CAMEL_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PLAIN = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2013, 0x2212, 0xFE63), "-"),
    **dict.fromkeys((0xAD, 0x200C, 0x200D, 0x2060, 0xFEFF)),
}


def identifiers(text: str) -> list[str]:
    """Return the identifiers of a text in order, as they are written."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.translate(_PLAIN))
    return [run for run in _RUN.findall(text) if _is_identifier(run)]


def with_identifiers(analyzer: Analyzer, texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text, then those of its identifiers and of their parts.

    A whole that the analyzer itself gives as a token is not repeated.
    """
    found = [identifiers(text) for text in texts]
    plain = analyzer.analyze_all(texts)
    inner = analyzer.analyze_all([" ".join(_inner_parts(names)) for names in found])
    return [
        [*tokens, *_wholes(names, tokens), *parts]
        for tokens, names, parts in zip(plain, found, inner, strict=True)
    ]


def _is_identifier(run: str) -> bool:
    segments = _SPLIT.split(run)
    if len(segments) > 1 and (_CODE.search(run) or _STRONG_JOINT.search(run)):
        return True
    return any(map(_CAMEL.search, segments))


def _wholes(names: list[str], tokens: Tokens) -> Tokens:
    known = set(tokens)
    return [name.lower() for name in names if name.lower() not in known]


def _inner_parts(names: list[str]) -> list[str]:
    """Return the parts that lie within one word of the analyzers."""
    parts: list[str] = []
    for name in names:
        for word in re.findall(r"\w+", name):
            segments = [segment for segment in word.split("_") if segment]
            camel = [_CAMEL_PART.findall(each) if _CAMEL.search(each) else [] for each in segments]
            if len(segments) > 1:
                parts += segments
            parts += [part for found in camel for part in found]
    return parts


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
