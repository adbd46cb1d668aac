"""Query sets that a language model writes, and what it meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import ConfigError, UsageError
from rag_assets.llm.client import Completion
from rag_assets.llm.completions import Budget, Completions, Limits
from rag_assets.llm.replies import ReplyStore
from rag_assets.query_sets.model_output import Unusable, parsed_line, parsed_list, parsed_passage
from rag_assets.query_sets.query_set import PromptedVariants, Strategy, prompted_variants
from rag_assets.query_sets.strategies import HydeQuerySet, MultiQuerySet, RewriteQuerySet
from rag_assets.servers.failures import Failed
from tests.llm import server as replies
from tests.llm.requests import model
from tests.llm.server import Server
from tests.query_sets.queries import queries_of, texts_of

QUERIES = queries_of({"q1": "What is salt?", "q2": "Who was {n}?", "q3": "Why?"})


def reply(text: str) -> str:
    return json.dumps([f"one of {len(text)}", "two"])


def paraphrasing(n: int = 4, **options: Any) -> Strategy:
    return MultiQuerySet(strategy="multi_query", n=n, **options).prompted()


def hypothetical_documents(samples: int, **options: Any) -> Strategy:
    return HydeQuerySet(strategy="hyde", samples=samples, **options).prompted()


def made(
    server: Server, folder: Path, strategy: Strategy, limits: Limits | None = None
) -> PromptedVariants:
    asked = Completions(model(server, retries=0), ReplyStore(folder), Budget(limits))
    return prompted_variants(QUERIES, strategy, asked)


def test_multi_query(server: Server, tmp_path: Path) -> None:
    server.on(
        "salt", replies.says("1. What is NaCl?\n2. what is  SALT?\n3. Salt, what is it?\n4. x")
    )
    server.on("{n}", replies.refuses("I won't."))
    found = made(server, tmp_path, paraphrasing(3))
    assert texts_of(found.variants) == {
        "q1": ["What is salt?", "What is NaCl?", "Salt, what is it?"],
        "q2": ["Who was {n}?"],
        "q3": ["Why?", found.variants.to_pylist()[-2]["text"], "two"],
    }
    assert found.failures == {"q2": "the model refused: I won't."}
    prompt = server.received[0].body["messages"]
    assert [message["role"] for message in prompt] == ["system", "user"]
    assert "Write 3 different queries" in prompt[1]["content"]
    assert "the language of the question" in prompt[1]["content"]


def test_answers_are_a_table_with_all_that_determined_them(server: Server, tmp_path: Path) -> None:
    server.on("salt", replies.cut_off("1. What is NaCl?\n2. Salt, wh"))
    server.on("{n}", replies.error(400, "no"))
    found = made(server, tmp_path, paraphrasing(3, temperature=0.7, seed=11, max_tokens=64))
    salt, who, _ = found.answers.to_pylist()
    assert salt == {
        "query_id": "q1",
        "sample": 0,
        "model": "tiny",
        "template": "multi_query/1",
        "temperature": 0.7,
        "seed": 11,
        "max_tokens": 64,
        "text": "1. What is NaCl?\n2. Salt, wh",
        "finish_reason": "length",
        "prompt_tokens": 10,
        "completion_tokens": 7,
        "failure": None,
    }
    assert (who["text"], who["failure"]) == (None, "HTTP 400: no")
    assert texts_of(found.variants)["q1"] == ["What is salt?", "What is NaCl?"]


def test_rewrite(server: Server, tmp_path: Path) -> None:
    strategy = RewriteQuerySet(strategy="rewrite", language="French").prompted()
    server.on("salt", replies.says('Rewritten question: "What is table salt?"\n\nBye.'))
    server.on("{n}", replies.cut_off("Who was"))
    server.on("Why", replies.says("WHY?"))
    found = made(server, tmp_path, strategy)
    assert list(texts_of(found.variants).values()) == [
        ["What is salt?", "What is table salt?"],
        ["Who was {n}?"],
        ["Why?"],
    ]
    assert found.failures == {"q2": "the answer was cut at max_tokens"}
    assert set(found.answers.column("template").to_pylist()) == {"rewrite/1"}
    assert "French" in server.received[0].text


def test_hyde_samples_have_seeds_of_their_own(server: Server, tmp_path: Path) -> None:
    server.on("salt", replies.says("Salt is\n a mineral."), replies.says("Passage: Salt is white."))
    server.on("{n}", replies.broken_json(), replies.cut_off("Nobody knows"))
    server.on("Why", replies.no_choices())
    found = made(server, tmp_path, hypothetical_documents(2, temperature=0.7, seed=5))
    texts = ["Salt is a mineral.", "Salt is white.", "What is salt?"]
    assert sorted(texts_of(found.variants)["q1"]) == texts
    assert texts_of(found.variants)["q2"] == ["Who was {n}?", "Nobody knows"]
    assert list(found.failures) == ["q3"]
    assert [row["failure"] is None for row in found.answers.to_pylist()].count(False) == 3
    assert sorted(r.body["seed"] for r in server.received) == [5, 5, 5, 6, 6, 6]


def test_wrong_settings(tmp_path: Path) -> None:
    for wanting in (paraphrasing, hypothetical_documents):
        with pytest.raises(ValueError, match="greater than or equal to 1"):
            wanting(0)
    with pytest.raises(UsageError, match="2 samples need a temperature above 0 and a seed"):
        hypothetical_documents(2)
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("version: 1\n[user]\n{query} {n}")
    with pytest.raises(ConfigError, match="`n`: unknown placeholder; allowed: language, query"):
        RewriteQuerySet(strategy="rewrite", template=wrong).prompted()
    assert paraphrasing(template=wrong).template.label == "wrong/1"


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
        *((text, []) for text in ("What i", "1. What i", '["What i', "", "<think>What could")),
    ],
)
def test_half_lists_lose_their_end(text: str, kept: list[str]) -> None:
    half = Unusable("the answer was cut at max_tokens")
    assert parsed_list(said(text, "length"), "q", 3) == (kept or half)
    assert kept or parsed_line(said(text, "length"), "q") == half


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
        (Failed("HTTP 500"), "HTTP 500"),
        (said(""), "the answer is empty"),
        (said(" \n "), "the answer is empty"),
        (said("[]"), "the answer is an empty list"),
        (said("``````"), "the answer holds no text"),
        (said("", "refusal"), "the model refused"),
        (said("no way", "refusal"), "the model refused: no way"),
    ],
)
def test_unusable_answers(answer: Completion | Failed, reason: str) -> None:
    assert parsed_list(answer, "q", 3) == Unusable(reason)
    assert parsed_line(answer, "q") == Unusable(reason)


LINES = (
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
)
ODD = ("12. December: what?", "3.5 mm jack [sic]", '"a" or "b"?', "A. Smith was who?", "Query")


@pytest.mark.parametrize(
    ("text", "line"), [*((text, "What is a?") for text in LINES), *((text, text) for text in ODD)]
)
def test_one_line(text: str, line: str) -> None:
    assert parsed_line(said(text), "q") == [line]


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
