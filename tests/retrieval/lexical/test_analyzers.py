from __future__ import annotations

import unicodedata
from dataclasses import replace
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import UsageError
from rag_assets.retrieval.lexical.analyzers import (
    ANALYZERS,
    analyze_all,
    analyzer_versions,
    check_analyzer,
)
from rag_assets.retrieval.lexical.analyzers.words import LANGUAGES, STOP_WORDS

STANDARD_CASES = {
    "part number": ("Use KFP-30417, rev. B2!", ["use", "kfp", "30417", "rev", "b2"]),
    "umlauts": ("Stra\u00dfe \u00dcber \u00c4RGER", ["stra\u00dfe", "\u00fcber", "\u00e4rger"]),
    "decomposed accent": ("cafe\u0301 CAFE\u0301", ["caf\u00e9", "caf\u00e9"]),
    "vowel signs stay in the word": (
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e",
        ["\u0939\u093f\u0928\u094d\u0926\u0940", "\u092d\u093e\u0937\u093e"],
    ),
    "emoji": ("ship \U0001f6a2\ufe0f\U0001f469\u200d\U0001f52c it", ["ship", "it"]),
    "ligature": ("\ufb01lter e\ufb03cient", ["filter", "efficient"]),
    "soft hyphen": ("ro\u00adtor", ["rotor"]),
    "snake case": ("max_tokens=200", ["max_tokens", "200"]),
    "Chinese": ("\u65e5\u672c\u7684", ["\u65e5", "\u672c", "\u7684"]),
    "kana": ("\u30ab\u30e1\u30e9\u306f", ["\u30ab", "\u30e1", "\u30e9", "\u306f"]),
    "decomposed Hangul": (unicodedata.normalize("NFD", "\uc11c\uc6b8"), ["\uc11c", "\uc6b8"]),
    "radical of a PDF": ("\u2f08\u53e3", ["\u4eba", "\u53e3"]),
    "Chinese and Latin": ("GPT4\u6a21\u578bv2", ["gpt4", "\u6a21", "\u578b", "v2"]),
    "empty": ("", []),
    "punctuation": ("--- ... \u3002\uff0c", []),
}


ENGLISH_CASES = {
    "stems": ("Running pumps were RUNNING", ["run", "pump", "were", "run"]),
    "stop words": ("There is no such thing as that", ["thing"]),
    "only stop words": ("To be, or not to be", []),
    "possessive": ("the ship's mate\u2019s S'S", ["ship", "mate", "s"]),
    "numbers and single characters": ("1 x 30417 5", ["1", "x", "30417", "5"]),
    "part number": ("KFP-30417", ["kfp", "30417"]),
    "Chinese inside": ("the \u65e5\u672c rules", ["\u65e5", "\u672c", "rule"]),
}


def test_the_stop_list_is_that_of_lucene() -> None:
    from bm25s.stopwords import STOPWORDS_EN

    assert set(STOPWORDS_EN) == STOP_WORDS
    assert len(STOP_WORDS) == 33


CJK_CASES = {
    "one character": ("\u65e5", ["\u65e5"]),
    "three characters": (
        "\u65e5\u672c\u4eba",
        ["\u65e5", "\u672c", "\u4eba", "\u65e5\u672c", "\u672c\u4eba"],
    ),
    "no bigram over punctuation": ("\u65e5\uff0c\u672c", ["\u65e5", "\u672c"]),
    "no bigram over another script": ("\u65e5a\u672c", ["\u65e5", "a", "\u672c"]),
    "kana": ("\u30ab\u30e1", ["\u30ab", "\u30e1", "\u30ab\u30e1"]),
    "Hangul": ("\uc11c\uc6b8", ["\uc11c", "\uc6b8", "\uc11c\uc6b8"]),
    "Latin as in standard": ("KFP-30417 The pumps", ["kfp", "30417", "the", "pumps"]),
    "accented Latin": ("\u00dcber\u65e5\u672c", ["\u00fcber", "\u65e5", "\u672c", "\u65e5\u672c"]),
}


THAI = "\u0e01\u0e32\u0e23\u0e15\u0e25\u0e32\u0e14"
NGRAMS_CASES = {
    "pairs and threes": (THAI[:4], [THAI[:2], THAI[1:3], THAI[2:4], THAI[:3], THAI[1:4]]),
    "two characters": (THAI[:2], [THAI[:2]]),
    "one character": (THAI[:1], [THAI[:1]]),
    "Thai beside Latin and digits": (f"PZPR2{THAI[:2]}", ["pzpr2", THAI[:2]]),
    "Thai digits are a number": ("\u0e52\u0e53\u0e54\u0e55", ["\u0e52\u0e53\u0e54\u0e55"]),
    "Khmer, Lao, Burmese": (
        "\u1781\u17d2\u1798 \u0ea5\u0eb2 \u1019\u103c\u1014\u103a",
        [
            *("\u1781\u17d2", "\u17d2\u1798", "\u1781\u17d2\u1798", "\u0ea5\u0eb2"),
            *("\u1019\u103c", "\u103c\u1014", "\u1014\u103a"),
            *("\u1019\u103c\u1014", "\u103c\u1014\u103a"),
        ],
    ),
    "CJK as in cjk": ("\u65e5\u672c", ["\u65e5", "\u672c", "\u65e5\u672c"]),
    "Latin as in standard": ("KFP-30417 The pumps", ["kfp", "30417", "the", "pumps"]),
}


CASES = [
    pytest.param(analyzer, *case, id=f"{analyzer}: {name}")
    for analyzer, cases in {
        "standard": STANDARD_CASES,
        "english": ENGLISH_CASES,
        "cjk": CJK_CASES,
        "ngrams": NGRAMS_CASES,
    }.items()
    for name, case in cases.items()
]


@pytest.mark.parametrize(("analyzer", "text", "tokens"), CASES)
def test_tokens(analyzer: str, text: str, tokens: list[str]) -> None:
    assert analyze_all(analyzer, [text])[0] == tokens


def test_icu_cuts_thai_into_words() -> None:
    pytest.importorskip("icu4py", reason="the extra `icu` is not installed")
    assert analyze_all("icu", [f"{THAI} KFP-30417"])[0] == [THAI[:3], THAI[3:], "kfp", "30417"]
    assert analyze_all("icu", ["plain Words"])[0] == ["plain", "words"]


def test_jieba_cuts_chinese_into_words() -> None:
    pytest.importorskip("jieba", reason="the extra `chinese` is not installed")
    cut = analyze_all("jieba", ["\u4e2d\u56fd\u79d1\u5b66\u9662\u7684 KFP-30417\u53f7"])[0]
    # inside "Chinese academy of sciences" stand "China", "science" and "academy of sciences"
    assert {"\u4e2d\u56fd\u79d1\u5b66\u9662", "\u4e2d\u56fd", "\u79d1\u5b66"} <= set(cut)
    assert cut[-3:] == ["kfp", "30417", "\u53f7"]
    assert analyze_all("jieba", ["plain Words"])[0] == ["plain", "words"]


def test_an_analyzer_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = replace(ANALYZERS["jieba"], name="absent", distributions=("no_such",))
    monkeypatch.setitem(ANALYZERS, "absent", absent)
    with pytest.raises(UsageError, match=r"needs the package no_such: .*rag-assets\[chinese\]"):
        check_analyzer("absent")


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, one in ANALYZERS.items()
        if (one.extra is None or all(map(find_spec, one.distributions)))
        and name not in LANGUAGES[1:]  # the stemmers are one piece of code
    ],
)
@given(texts=st.lists(st.text(max_size=40), max_size=5))
def test_texts_are_analysed_independently_of_their_batch(name: str, texts: list[str]) -> None:
    assert analyze_all(name, texts) == [analyze_all(name, [text])[0] for text in texts]
    assert all(token for tokens in analyze_all(name, texts) for token in tokens)


@pytest.mark.parametrize("name", ["standard", "english", "cjk", "ngrams"])
@given(text=st.text(max_size=40))
def test_composed_and_decomposed_texts_give_the_same_tokens(name: str, text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert analyze_all(name, [composed])[0] == analyze_all(name, [decomposed])[0]


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=60))
def test_the_short_way_for_ascii_gives_the_same_tokens(text: str) -> None:
    # the ideograph makes the whole text take the long way
    assert analyze_all("standard", [text + " \u65e5"])[0] == [
        *analyze_all("standard", [text])[0],
        "\u65e5",
    ]


def test_versions_name_what_determines_the_tokens() -> None:
    assert set(analyzer_versions("english")) == {"PyStemmer", "unicode"}
    assert set(analyzer_versions("cjk")) == {"unicode"}
    everything = analyzer_versions("auto")
    for name in ("english", "cjk", "ngrams", "standard", "german"):
        assert everything.items() >= analyzer_versions(name).items()
    # what happens to be installed has no part in the choice
    assert not {"jieba", "icu4py"} & set(everything)
