from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.labels.generation import question_generation as filters
from rag_assets.labels.generation.question_generation import (
    contains_words,
    copied_share,
    fault,
    near_earlier,
    question_words,
)
from rag_assets.labels.generation.question_options import QuestionOptions

CHUNK = question_words(
    "The mill at Brook was built in 1812 by Ann Lee. Paris is the capital of France."
)


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("Who built the mill at Brook?", "Ann Lee", None),
        ("What is the capital of France?", "Paris", None),
        ('Who built "the mill of Brook?"', None, None),
        ("Why mills?", None, filters.TOO_SHORT),
        ("", None, filters.TOO_SHORT),
        ("Tell me who built the mill", None, filters.NOT_A_QUESTION),
        ("Paris is the capital of France?", None, filters.COPIED),
        ("The mill at Brook was built in 1812 by Ann Lee, right?", None, filters.COPIED),
        ("What did Ann Lee build in Brook?", "ann LEE", filters.ANSWER_INSIDE),
        ("Is there no mill in Paris?", "No", None),
        ("What does the text say about mills?", None, filters.ABOUT_THE_PASSAGE),
        ("According to the passage, who built the mill?", None, filters.ABOUT_THE_PASSAGE),
        ("Who built the mill mentioned in the document?", None, filters.ABOUT_THE_PASSAGE),
        ("What is the main topic of this article?", None, filters.ABOUT_THE_PASSAGE),
        ("What is the main idea of the excerpt?", None, filters.ABOUT_THE_PASSAGE),
        ("What can be said based on the information provided?", None, filters.ABOUT_THE_PASSAGE),
        ("How is the document management system started?", None, None),
        ("Which text editor did Ann Lee use?", None, None),
        ("Who is the author of Middlemarch?", None, None),
        ("磨坊是谁建造的\uff1f", "安", None),
        ("文中提到的磨坊是谁建造的\uff1f", None, filters.ABOUT_THE_PASSAGE),
        ("磨坊\uff1f", None, filters.TOO_SHORT),
    ],
)
def test_faults(question: str, answer: str | None, reason: str | None) -> None:
    assert fault(question, answer, CHUNK, QuestionOptions()) == reason


def test_bounds_are_settings() -> None:
    assert fault("Why mills?", None, CHUNK, QuestionOptions(min_words=2)) is None
    copied = "Paris is the capital of France?"
    assert fault(copied, None, CHUNK, QuestionOptions(max_copied=1.0)) is None
    asked = "What is the capital of France?"
    assert fault(asked, None, CHUNK, QuestionOptions(max_copied=0.5)) == filters.COPIED


def test_runs_of_words() -> None:
    text = ["a", "b", "c", "d", "e"]
    assert copied_share(["b", "c", "d", "x"], text, 3) == 0.5
    assert copied_share(["b", "c"], text, 3) == 0.0
    assert contains_words(text, ["d", "e"])
    assert not contains_words(text, ["d", "c"])
    assert not contains_words(text, [])


def sets(*texts: str) -> list[frozenset[str]]:
    return [frozenset(text.split()) for text in texts]


def test_near_duplicates_go_by_words() -> None:
    asked = sets(
        "who built the mill", "the mill who built", "who built the old mill", "why", "", ""
    )
    assert near_earlier(asked, 0.8) == {1: 0, 2: 0}
    assert near_earlier(asked, 0.9) == {1: 0}
    years = "what happened at the old mill in the year"
    assert near_earlier(sets(f"{years} 1812", f"{years} 1813", f"{years} 1812"), 0.8) == {2: 0}


WORDS = st.frozensets(st.sampled_from("abcdefgh"), max_size=7)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=9), st.sampled_from([0.3, 0.5, 2 / 3, 0.7, 0.8, 1.0]))
def test_prefixes_miss_no_pair(asked: list[frozenset[str]], threshold: float) -> None:
    expected: dict[int, int] = {}
    for number, words in enumerate(asked):
        for earlier in (n for n in range(number) if n not in expected):
            shared = len(words & asked[earlier])
            union = len(words | asked[earlier])
            if words and shared >= threshold * union:
                expected[number] = earlier
                break
    assert near_earlier(asked, threshold) == expected
