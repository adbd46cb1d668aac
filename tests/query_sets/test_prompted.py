"""The strategies that ask a model, against a real server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ConfigError, UsageError
from rag_assets.llm.budget import Budget, BudgetReached, Limits
from rag_assets.llm.completions import Completions
from rag_assets.llm.replies import ReplyStore
from rag_assets.query_sets.prompted import PromptedVariants, prompted_variants, requests_for
from rag_assets.query_sets.query_set import Strategy
from rag_assets.query_sets.rewriting import (
    DecomposeQuerySet,
    HydeQuerySet,
    MultiQuerySet,
    RewriteQuerySet,
    StepBackQuerySet,
)
from tests.llm import server as replies
from tests.llm.requests import model
from tests.llm.server import Server, serving
from tests.query_sets.queries import queries_of, texts_of

QUERIES = queries_of({"q1": "What is salt?", "q2": "Who was {n}?", "q3": "Why?"})


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda prompt: json.dumps([f"one of {len(prompt)}", "two"])) as running:
        yield running


def paraphrasing(n: int = 4, **options: Any) -> Strategy:
    return MultiQuerySet(strategy="multi_query", n=n, **options).prompted()


def decomposing(n: int) -> Strategy:
    return DecomposeQuerySet(strategy="decompose", n=n).prompted()


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


@pytest.mark.parametrize(
    ("strategy", "template"),
    [
        (RewriteQuerySet(strategy="rewrite", language="French").prompted(), "rewrite/1"),
        (StepBackQuerySet(strategy="step_back", language="French").prompted(), "step_back/1"),
    ],
)
def test_one_line_strategies(
    server: Server, tmp_path: Path, strategy: Strategy, template: str
) -> None:
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
    assert set(found.answers.column("template").to_pylist()) == {template}
    assert "French" in server.received[0].text


def test_decompose(server: Server, tmp_path: Path) -> None:
    server.on("salt", replies.says('["What is salt?"]'))
    server.on("{n}", replies.says('["Who?", "When?", "Where?"]'))
    found = made(server, tmp_path, decomposing(2))
    assert texts_of(found.variants)["q1"] == ["What is salt?"]
    assert texts_of(found.variants)["q2"] == ["Who was {n}?", "Who?", "When?"]
    assert found.failures == {}
    assert "at most 2 simpler questions" in server.received[0].text


def test_hyde_samples_have_seeds_of_their_own(server: Server, tmp_path: Path) -> None:
    server.on("salt", replies.says("Salt is\n a mineral."), replies.says("Passage: Salt is white."))
    server.on("{n}", replies.broken_json(), replies.cut_off("Nobody knows"))
    server.on("Why", replies.no_choices())
    strategy = hypothetical_documents(2, temperature=0.7, seed=5)
    found = made(server, tmp_path, strategy)
    assert sorted(texts_of(found.variants)["q1"]) == [
        "Salt is a mineral.",
        "Salt is white.",
        "What is salt?",
    ]
    assert texts_of(found.variants)["q2"] == ["Who was {n}?", "Nobody knows"]
    assert list(found.failures) == ["q3"]
    assert [row["failure"] is None for row in found.answers.to_pylist()].count(False) == 3
    assert sorted(r.body["seed"] for r in server.received) == [5, 5, 5, 6, 6, 6]


def test_a_stopped_run_resumes(server: Server, tmp_path: Path) -> None:
    with pytest.raises(BudgetReached):
        made(server, tmp_path, paraphrasing(2), Limits(max_calls=2))
    found = made(server, tmp_path, paraphrasing(2), Limits(max_calls=1))
    assert len(server.received) == 3
    again = made(server, tmp_path, paraphrasing(2), Limits(max_calls=0))
    assert again.variants.equals(found.variants)
    assert again.answers.equals(found.answers)


def test_every_setting_is_asked_anew(server: Server, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("version: 7\n[user]\nSay {query} anew.\n")
    strategies = [
        paraphrasing(2),
        paraphrasing(3),
        paraphrasing(2, language="German"),
        paraphrasing(2, seed=1),
        paraphrasing(2, template=mine),
        decomposing(2),
    ]
    for number, strategy in enumerate(strategies, start=1):
        made(server, tmp_path / "cache", strategy)
        assert len(server.received) == 3 * number
    assert server.received[-6].text.startswith("Say ")
    requests = requests_for(QUERIES, strategies[4])
    assert {request.template for request in requests} == {"mine/7"}
    assert requests[1].messages[0].content == "Say Who was {n}? anew."


def test_wrong_settings(tmp_path: Path) -> None:
    for wanting in (paraphrasing, decomposing, hypothetical_documents):
        with pytest.raises(ValueError, match="greater than or equal to 1"):
            wanting(0)
    with pytest.raises(UsageError, match="2 samples need a temperature above 0 and a seed"):
        hypothetical_documents(2)
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("version: 1\n[user]\n{query} {n}")
    with pytest.raises(
        ConfigError, match="`n`: nothing fills this place; allowed: language, query"
    ):
        RewriteQuerySet(strategy="rewrite", template=wrong).prompted()
    assert paraphrasing(template=wrong).template.label == "wrong/1"
