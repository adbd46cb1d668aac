from __future__ import annotations

import pytest

from rag_assets.answers.answer_text import cited_units, without_markers


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("It costs 40 crowns [2].", [2]),
        ("40 crowns[1] and 10 for dogs [3][1]", [1, 3]),
        ("[1, 2]", [1, 2]),
        ("[ 1,2 ]", [1, 2]),
        ("[12]", [12]),
        ("[0] [99]", [0, 99]),
        ("in [2019] and [1-3], [page 4], (2), [a1], [1.5], []", []),
        ("see [1](https://example.org)", []),
        ("2 dogs", []),
    ],
)
def test_markers(text: str, cited: list[int]) -> None:
    assert cited_units(text) == cited


def test_only_markers_of_what_is_cited_are_taken_out() -> None:
    assert without_markers("40 [1] crowns [2, 1] in [3] or [2019]", [1, 2]).split() == [
        "40",
        "crowns",
        "in",
        "[3]",
        "or",
        "[2019]",
    ]
    assert without_markers("40 [1]", []) == "40 [1]"
