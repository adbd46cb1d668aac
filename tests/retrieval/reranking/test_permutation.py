from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.llm.client import LENGTH, REFUSAL, STOP, Answer, Completion, Failure
from rag_assets.retrieval.reranking.listwise import read_permutation
from rag_assets.servers.failures import Failed

FORMS = {
    "arrows": lambda ids: " > ".join(f"[{i}]" for i in ids),
    "no spaces": lambda ids: ">".join(f"[{i}]" for i in ids),
    "bare numbers": lambda ids: " > ".join(map(str, ids)),
    "a JSON list": lambda ids: f"{ids}",
    "commas": lambda ids: ", ".join(f"[{i}]" for i in ids),
    "one a line": lambda ids: "\n".join(map(str, ids)),
    "a full stop": lambda ids: " > ".join(f"[{i}]" for i in ids) + ".",
    "a fence": lambda ids: "```json\n" + str(ids) + "\n```",
    "thoughts": lambda ids: f"<think>3 is best? No, 1.</think>\n\n{ids}",
}


def said(text: str, finish_reason: str = STOP) -> Completion:
    return Completion(text, 1, 1, finish_reason)


@given(ids=st.permutations(range(1, 13)), form=st.sampled_from(sorted(FORMS)))
def test_an_order_in_any_form(ids: list[int], form: str) -> None:
    assert read_permutation(said(FORMS[form](ids)), 12) == [number - 1 for number in ids]


@given(ids=st.lists(st.integers(1, 9), min_size=1, max_size=15))
def test_repeated_numbers_count_once_and_missing_ones_follow(ids: list[int]) -> None:
    found = read_permutation(said(" > ".join(f"[{i}]" for i in ids)), 9)
    named = [i for place, i in enumerate(ids) if i not in ids[:place]]
    rest = [i for i in range(1, 10) if i not in ids]
    assert found == [i - 1 for i in named + rest]


NO_ORDER: dict[str, tuple[Answer, str]] = {
    "a sentence": (
        said("Passage [2] is the best, then [1]."),
        "the answer is no order of passages: Passage [2] is the best, then [1].",
    ),
    "an introduction": (said("Here it is: [1] > [2]"), "the answer is no order of passages: Here"),
    "a refusal in words": (
        said("I cannot rank these 3 passages."),
        "the answer is no order of passages: I cannot rank these 3 passages.",
    ),
    "nothing": (said("  \n"), "the answer is no order of passages: "),
    "thoughts alone": (said("<think>[1] > [2]"), "the answer is no order of passages: "),
    "letters": (said("[a] > [b]"), "the answer is no order of passages: [a] > [b]"),
    "a number too high": (said("[1] > [4]"), "the answer names passage 4 of 3"),
    "zero": (said("[0] > [1]"), "the answer names passage 0 of 3"),
    "a negative number": (said("[-1] > [1]"), "the answer is no order of passages: [-1] > [1]"),
    "cut": (said("[1] > [2", LENGTH), "the answer was cut at max_tokens"),
    "refused": (said("No.", REFUSAL), "the model refused: No."),
    "filtered": (said("", REFUSAL), "the model refused"),
    "failed": (Failure("HTTP 500: wrong"), "HTTP 500: wrong"),
}


@pytest.mark.parametrize("case", NO_ORDER)
def test_what_is_no_order(case: str) -> None:
    answer, reason = NO_ORDER[case]
    found = read_permutation(answer, 3)
    assert isinstance(found, Failed)
    assert found.reason.startswith(reason)


def test_a_long_answer_is_shown_in_short() -> None:
    found = read_permutation(said("words " * 500), 3)
    assert isinstance(found, Failed)
    assert found.reason.endswith("words wo...")
    assert len(found.reason) < 125
