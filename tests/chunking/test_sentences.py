from __future__ import annotations

import pytest

from rag_assets.chunking import windows
from rag_assets.chunking.windows import sentence_spans


def split(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Dr. Smith paid $3.50 at 5 p.m. on Monday. He left!",
            ["Dr. Smith paid $3.50 at 5 p.m. on Monday.", "He left!"],
        ),
        (
            "The wind, e.g. in Jan. 2020, was strong. See Fig. 3.",
            ["The wind, e.g. in Jan. 2020, was strong.", "See Fig. 3."],
        ),
        ("A line that is\nbroken here. Next one.", ["A line that is\nbroken here.", "Next one."]),
        ("A heading\n\nA paragraph.", ["A heading", "A paragraph."]),
        (
            "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002\u6211\u4eec\u53bb\u516c\u56ed\u5427\uff01"
            "\u7248\u672c3.5\u53d1\u5e03\u4e86\u3002",
            [
                "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
                "\u6211\u4eec\u53bb\u516c\u56ed\u5427\uff01",
                "\u7248\u672c3.5\u53d1\u5e03\u4e86\u3002",
            ],
        ),
        (
            "Hi \U0001f600. \U0001f468\u200d\U0001f469 family!",
            ["Hi \U0001f600.", "\U0001f468\u200d\U0001f469 family!"],
        ),
        ("  \n\t ", []),
        ("", []),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert split(text) == expected


def test_abbreviations_are_those_of_the_language() -> None:
    text = "Das gilt bzw. Anderes gilt. Ende."
    assert split(text, "de") == ["Das gilt bzw. Anderes gilt.", "Ende."]
    assert len(split(text, "en")) == 3


@pytest.mark.parametrize(
    ("count", "overlap", "expected"),
    [
        (2, 0, ["A. B.", "C. D.", "E."]),
        (3, 1, ["A. B. C.", "C. D. E."]),
        (3, 2, ["A. B. C.", "B. C. D.", "C. D. E."]),
        (9, 3, ["A. B. C. D. E."]),
        (1, 0, ["A.", "B.", "C.", "D.", "E."]),
    ],
)
def test_sentences_a_chunk(count: int, overlap: int, expected: list[str]) -> None:
    text = "One went. Two went. Three went. Four went. Five went."
    names = dict(zip("ABCDE", ["One", "Two", "Three", "Four", "Five"], strict=True))
    [pieces] = windows.sentence_cutter(count, overlap, "en")([text])
    wanted = [" ".join(f"{names[c[0]]} went." for c in each.split()) for each in expected]
    assert [text[p.start : p.end] for p in pieces] == wanted
