from __future__ import annotations

import random

import pytest

from rag_assets.lexical.analyzers import ANALYZERS, detect_analyzer, resolve_analyzer

CORPORA = {
    "English": ("english", ["The pump is cooled by water that flows to the heat exchanger."]),
    "German": (
        "standard",
        [
            "Die Pumpe wird von dem Wasser gek\u00fchlt, das in den Tank flie\u00dft.",
            "Was will er?",
        ],
    ),
    "Dutch": ("standard", ["De pomp is gekoeld met water of olie, en het was in de tank."]),
    "Danish": ("standard", ["Skibet er for to by-linjer, og for byer til og fra havet i by."]),
    "French": ("standard", ["La pompe est refroidie par l'eau qui va dans un \u00e9changeur."]),
    "Russian": ("standard", ["\u041c\u043e\u0441\u043a\u0432\u0430 the and of"] * 2),
    "Chinese": ("cjk", ["\u65e5\u672c\u534a\u5bfc\u4f53\u4ea7\u4e1a\u7684\u73b0\u72b6 GPT-4"]),
    "Japanese": ("cjk", ["\u30ab\u30e1\u30e9\u306f\u3069\u3053\u3067\u3059\u304b"]),
    "Korean": ("cjk", ["\uc11c\uc6b8\uc740 \uc5b4\ub514\uc785\ub2c8\uae4c"]),
    "English with one Chinese name": (
        "english",
        ["The city of Beijing (\u5317\u4eac) is the capital of the country, and it is old."],
    ),
    "part numbers": ("standard", ["KFP-30417 seal kit", "KFP-30418 gasket"]),
    "digits and emoji": ("standard", ["1234 \U0001f600", "..."]),
    "nothing": ("standard", []),
}


@pytest.mark.parametrize(("expected", "texts"), CORPORA.values(), ids=CORPORA.keys())
def test_detection(expected: str, texts: list[str]) -> None:
    assert detect_analyzer(texts) == expected
    assert expected in ANALYZERS


def test_detection_looks_at_a_sample_that_does_not_depend_on_the_order() -> None:
    english = [f"The part {i} is that of the pump and it is for the crew." for i in range(2000)]
    chinese = [f"\u65e5\u672c\u534a\u5bfc\u4f53{i}" for i in range(2000)]
    texts = english + chinese
    found = {detect_analyzer(texts), detect_analyzer(texts[::-1])}
    random.Random(1).shuffle(texts)
    assert found | {detect_analyzer(texts)} == {"cjk"}


def test_a_named_analyzer_is_taken_as_it_is() -> None:
    assert resolve_analyzer("whitespace", ["the and of to"]) == "whitespace"
    assert resolve_analyzer("auto", ["this is the one that it is for"]) == "english"
