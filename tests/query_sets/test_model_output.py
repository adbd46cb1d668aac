from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.llm.client import Completion, Failure
from rag_assets.query_sets.model_output import (
    Unusable,
    parsed_line,
    parsed_list,
    parsed_passage,
)

ABC = ["What is a?", "Where is b?", "Who is c?"]


def said(text: str, finish_reason: str = "stop") -> Completion:
    return Completion(text, 1, 1, finish_reason)


LISTS = {
    "json": '["What is a?", "Where is b?", "Who is c?"]',
    "json in a fence": 'Sure!\n```json\n[\n  "What is a?",\n "Where is b?", "Who is c?"]\n```',
    "json behind words": 'Here you are: ["What is a?", "Where is b?", "Who is c?"] Enjoy [all]!',
    "json with a comma too many": '["What is a?", "Where is b?", "Who is c?",]',
    "json with line ends": '["What is\\n a?", "Where\\tis b?", "Who is c?"]',
    "numbers": "1. What is a?\n2. Where is b?\n3. Who is c?",
    "numbers in brackets": "Here are three:\n\n(1) What is a?\n\n(2) Where is b?\n(3) Who is c?\n",
    "numbers and farewell": "1) What is a?\n2) Where is b?\n3) Who is c?\n\nI hope this helps.",
    "bullets": "Queries\n- What is a?\n* Where is b?\n\u2022 Who is c?",
    "letters": "a) What is a?\nb) Where is b?\nc) Who is c?",
    "labels": "Q1: What is a?\nQ2: Where is b?\nQuestion 3: Who is c?",
    "quotes": '1. "What is a?"\n2. \u201cWhere is b?\u201d\n3. **Who is c?**',
    "quoted lines": '"What is a?",\n"Where is b?",\n"Who is c?"',
    "plain lines": "\n What is a?\n\nWhere is b?\r\nWho is c?\n",
    "introduction": "Here are some queries:\nWhat is a?\nWhere is b?\nWho is c?",
    "thinking": "<think>\n1. hm\n2. [ha]\n</think>\n1. What is a?\n2. Where is b?\n3. Who is c?",
    "more than asked": "What is a?\nWhere is b?\nWho is c?\nWhy?",
}


@pytest.mark.parametrize("text", LISTS.values(), ids=LISTS.keys())
def test_lists(text: str) -> None:
    assert parsed_list(said(text), "q", 3) == ABC


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('["What is a?", "Where is b?", "Who i', ABC[:2]),
        ("1. What is a?\n2. Where is b?\n3. Who i", ABC[:2]),
        ("What is a?\nWhere is b?\nWho i", ABC[:2]),
    ],
)
def test_half_lists_lose_their_end(text: str, kept: list[str]) -> None:
    assert parsed_list(said(text, "length"), "q", 3) == kept


@pytest.mark.parametrize("text", ["What i", "1. What i", '["What i', "", "<think>What could"])
def test_nothing_whole_in_half_answers(text: str) -> None:
    half = Unusable("the answer was cut at max_tokens")
    assert parsed_list(said(text, "length"), "q", 3) == half
    assert parsed_line(said(text, "length"), "q") == half


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I cannot assist with this request.",
        "Sorry, I am not able to.",
        "As an AI language model, I have no opinion.",
        "\u62b1\u6b49\uff0c\u6211\u65e0\u6cd5\u56de\u7b54\u3002",
    ],
)
def test_refusals(text: str) -> None:
    for parsed in (parsed_list(said(text), "q", 3), parsed_line(said(text), "q")):
        assert isinstance(parsed, Unusable)
        assert parsed.reason.startswith("the model refused: ")
    assert isinstance(parsed_passage(said(text), "q"), Unusable)


def test_paraphrases_that_begin_like_a_refusal() -> None:
    assert parsed_line(said("I cannot open the door"), "q") == ["I cannot open the door"]
    original = "I can't help my dog"
    assert parsed_line(said("I cannot help my dog"), original) == ["I cannot help my dog"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Failure("HTTP 500"), "HTTP 500"),
        (said(""), "the answer is empty"),
        (said(" \n "), "the answer is empty"),
        (said("[]"), "the answer holds no text"),
        (said("", "refusal"), "the model refused"),
        (said("no way", "refusal"), "the model refused: no way"),
    ],
)
def test_unusable_answers(answer: Completion | Failure, reason: str) -> None:
    assert parsed_list(answer, "q", 3) == Unusable(reason)
    assert parsed_line(answer, "q") == Unusable(reason)


@pytest.mark.parametrize(
    "text",
    [
        "What is a?",
        '"What is a?"',
        "Rewritten question: What is a?",
        "Here is the rewritten question: What is a?",
        "Here is the rewritten question:\n\nWhat is a?",
        "What is a?\n\nThis version is clearer.",
        "1. What is a?",
        "```\nWhat is a?\n```",
        '["What is a?"]',
        "**What is a?**",
    ],
)
def test_one_line(text: str) -> None:
    assert parsed_line(said(text), "q") == ["What is a?"]


@pytest.mark.parametrize(
    "text",
    [
        "12. December: what happened?",
        "3.5 mm jack [sic]",
        '"a" or "b"?',
        "A. Smith was who?",
        "Query",
    ],
)
def test_odd_lines_stay_whole(text: str) -> None:
    assert parsed_line(said(text), "q") == [text]


def test_passages() -> None:
    two = "Passage: Salt is\n\n  a mineral. 1. It is white."
    assert parsed_passage(said(two), "q") == ["Salt is a mineral. 1. It is white."]
    assert parsed_passage(said("Salt is a", "length"), "q") == ["Salt is a"]
    assert parsed_passage(said("```text\nSalt.\n```"), "q") == ["Salt."]
    assert parsed_passage(said("``````"), "q") == Unusable("the answer holds no text")


@given(st.text(), st.sampled_from(["stop", "length", "refusal"]))
def test_any_answer_is_texts_or_a_reason(text: str, finish_reason: str) -> None:
    answer = said(text, finish_reason)
    parses = (parsed_list(answer, "q", 2), parsed_line(answer, "q"), parsed_passage(answer, "q"))
    for parsed in parses:
        if isinstance(parsed, Unusable):
            assert parsed.reason
        else:
            assert 0 < len(parsed) <= 2
            assert all(item and item == " ".join(item.splitlines()).strip() for item in parsed)
