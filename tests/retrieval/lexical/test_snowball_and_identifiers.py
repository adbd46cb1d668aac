from __future__ import annotations

import pytest
import snowballstemmer
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import UsageError
from rag_assets.retrieval.lexical.analyzers import (
    ANALYZERS,
    analyze,
    analyze_all,
    analyzer_code,
    analyzer_versions,
    identifiers,
    resolve_analyzer,
)
from rag_assets.retrieval.lexical.analyzers.words import LANGUAGES

SENTENCES = {
    "german": ("Die Pumpen wurden gek\u00fchlt", ["die", "pump", "wurd", "gekuhlt"]),
    "french": ("Les pompes de l'eau", ["le", "pomp", "de", "l", "eau"]),
    "spanish": ("Las bombas corriendo", ["las", "bomb", "corr"]),
    "russian": ("\u043d\u0430\u0441\u043e\u0441\u044b", ["\u043d\u0430\u0441\u043e\u0441"]),
}


@pytest.mark.parametrize(("language", "case"), SENTENCES.items())
def test_examples(language: str, case: tuple[str, list[str]]) -> None:
    text, tokens = case
    assert analyze(language, text) == tokens


def test_every_language_of_the_stemmer_has_an_analyzer() -> None:
    older, installed = {"porter", "dutch_porter"}, {*Stemmer.algorithms()}
    newer = {"czech", "esperanto", "estonian", "persian", "polish", "sesotho"}
    assert {*LANGUAGES, "english"} - newer <= installed <= {*LANGUAGES, "english"} | older
    assert set(LANGUAGES) < set(ANALYZERS)


def test_a_language_that_an_older_stemmer_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stemmer, "algorithms", lambda: ["english"])
    with pytest.raises(UsageError, match="analyzer 'polish' needs PyStemmer 3, not "):
        analyze("polish", "pompy")


@pytest.mark.parametrize("language", sorted({*LANGUAGES} & {*snowballstemmer.algorithms()}))
def test_equal_to_the_stemmer_in_python(language: str) -> None:
    texts = [text for text, _ in SENTENCES.values()] + [
        "ma\u0142ych \u03bb\u03cc\u03b3\u03bf\u03b9"
    ]
    stemmer = snowballstemmer.stemmer(language)
    for text in texts:
        words = analyze("standard", text)
        assert analyze(language, text) == [stemmer.stemWord(w) or w for w in words]


IDENTIFIERS = {
    "part number": ("Seal KFP-30417, rev. B2.", ["KFP-30417"]),
    "error codes": ("E0277 ERR-CONN 0x80070005 ORA-00942:", ["ERR-CONN", "ORA-00942"]),
    "camel case": ("call getURL of HttpClient, HTTPServer", ["getURL", "HttpClient", "HTTPServer"]),
    "snake case": ("max_tokens=200 __init__", ["max_tokens"]),
    "paths": (
        "in /usr/local/bin or C:\\temp\\x.log, ./run.sh",
        ["usr/local/bin", "C:\\temp\\x.log", "run.sh"],
    ),
    "names in code": ("std::vector os.path.join()", ["std::vector", "os.path.join"]),
    "addresses": (
        "see https://example.org/a-b and ops@example.org.",
        ["https://example.org/a-b", "ops@example.org"],
    ),
    "numbers": ("v2.3.1 on 192.168.0.1 at 12:30", ["v2.3.1", "192.168.0.1", "12:30"]),
    "prose": ("A well-known and/or so-called end, e.g. U.S. PDFs.", []),
    "other scripts": ("Gr\u00f6\u00dfe_max \u65e5\u672c-\u4eba KFP-3\u00e9", []),
    "typographic hyphen": ("KFP\u201130417", ["KFP-30417"]),
    "full width": ("\uff2b\uff26\uff30\uff0d\uff13", ["KFP-3"]),
    "soft hyphen": ("KFP-30\u00ad417", ["KFP-30417"]),
}


@pytest.mark.parametrize(("text", "found"), IDENTIFIERS.values(), ids=IDENTIFIERS.keys())
def test_identifiers(text: str, found: list[str]) -> None:
    assert identifiers(text) == found


WHOLES_AND_PARTS = {
    "part number": ("standard", "KFP-30417", ["kfp", "30417", "kfp-30417"]),
    "camel case": ("standard", "getURL2", ["geturl2", "get", "url", "2"]),
    "snake case": ("standard", "max_tokens", ["max_tokens", "max", "tokens"]),
    "whole is not stemmed, parts are": (
        "english",
        "HttpHeaders",
        ["httpheader", "httpheaders", "http", "header"],
    ),
    "path": (
        "standard",
        "src/my_app/Main.java",
        ["src", "my_app", "main", "java", "src/my_app/main.java", "my", "app"],
    ),
    "each occurrence": ("standard", "a-1 a-1", ["a", "1", "a", "1", "a-1", "a-1"]),
    "none": ("english", "The pumps", ["pump"]),
}


@pytest.mark.parametrize(
    ("analyzer", "text", "tokens"), WHOLES_AND_PARTS.values(), ids=WHOLES_AND_PARTS.keys()
)
def test_wholes_and_parts(analyzer: str, text: str, tokens: list[str]) -> None:
    assert analyze(f"{analyzer}+identifiers", text) == tokens


@pytest.mark.parametrize("name", ["standard", "cjk", "german"])
@given(texts=st.lists(st.text(max_size=40), max_size=4))
def test_the_tokens_of_the_analyzer_come_first(name: str, texts: list[str]) -> None:
    longer = analyze_all(f"{name}+identifiers", texts)
    for text, plain, tokens in zip(texts, analyze_all(name, texts), longer, strict=True):
        assert tokens[: len(plain)] == plain
        assert all(tokens)
        assert len(tokens) == len(plain) or identifiers(text)
        assert analyze(f"{name}+identifiers", text) == tokens


def test_auto_and_versions() -> None:
    assert resolve_analyzer("auto+identifiers", ["KFP-1"]) == "standard+identifiers"
    assert resolve_analyzer("german+identifiers", []) == "german+identifiers"
    assert set(analyzer_versions("german+identifiers")) == {"PyStemmer", "unicode"}
    chosen = set(analyzer_code("english+identifiers"))
    assert chosen - set(analyzer_code("auto+identifiers")) == {
        "rag_assets.retrieval.lexical.analyzers:_CHOOSERS[]"
    }
    with pytest.raises(UsageError, match="analyzer 'x'; allowed: auto, english"):
        resolve_analyzer("x+identifiers", [])
