"""Answerers on the command line, everywhere where retrievers are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from rag_assets.answers.summary_stage import ANSWER_COMPARISONS_KEY
from tests.answers.answering import GOLDS, PREDICTIONS, with_answers
from tests.tiny_experiment import Tiny

Invoke = Callable[..., Result]

OTHER = {**PREDICTIONS, "q1": "40 crowns", "q2": GOLDS["q2"][0], "q3": "beside", "q5": "at six"}
"""Against PREDICTIONS: half lost, won, half won, tied, failed no more."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("answers")).write()
    with_answers(
        tiny,
        generators={
            "predicted": {"type": "file", "path": "predictions.json"},
            "other": {"type": "file", "path": "other.json"},
        },
        answers={
            "official": {"generator": "predicted"},
            "read": {"generator": "other", "retriever": "bm25", "top_k": [3]},
        },
    )
    (tiny.folder / "other.json").write_text(json.dumps({**OTHER, "q7": "the captain"}), "utf-8")
    tiny.run()
    tiny.snapshot()
    return tiny


@pytest.fixture(scope="module")
def run(tiny: Tiny, invoke: Invoke) -> Invoke:
    def command(name: str, *arguments: object) -> Result:
        return invoke(name, tiny.folder, *arguments, "--store", tiny.root / "store")

    return command


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_all_pairs_are_those_of_the_evaluation(run: Invoke, tiny: Tiny) -> None:
    table = tiny.pipeline().artifact(ANSWER_COMPARISONS_KEY).table().to_pylist()
    (stored,) = [row for row in table if row["metric"] == "answer_f1"]
    assert parsed(run("compare", "--metric", "answer_f1", "--format", "json")) == [stored]


def test_a_pair_with_the_questions_that_moved(run: Invoke) -> None:
    row = parsed(run("compare", "official@-", "read@3", "--format", "json"))
    assert (row["answerer_a"], row["answerer_b"], row["metric"]) == (
        "official@-",
        "read@3",
        "answer_f1",
    )
    assert (row["n"], row["won"], row["tied"], row["lost"]) == (7, 3, 2, 2)
    # Without articles: q3 one of one word and one of two, q5 one of two and one of four.
    gained = {one["query_id"]: one["difference"] for one in row["most_won"] + row["most_lost"]}
    assert gained == pytest.approx({"q2": 7 / 9, "q3": 2 / 3, "q5": 1 / 3, "q1": -1 / 2, "q7": -1})
    assert row["difference"] == pytest.approx(sum(gained.values()) / 7)
    assert row["low"] <= row["difference"] <= row["high"]
    (first, *_) = row["most_won"]
    assert (first["golds"], first["answer_a"]) == (GOLDS["q2"], "in the wind")


def test_a_pair_for_people(run: Invoke) -> None:
    shown = run("compare", "official@-", "read@3").stdout
    assert "tiny: read@3 against official@- on answer_f1" in shown
    assert "no difference shown between official@- and read@3 on answer_f1:" in shown
    assert "official@-: (failed)" in shown
    assert "right: (unanswerable)" in shown
    assert "answerers" in run("compare", "--metric", "answer_em").stdout
    moves = run("compare", "official@-", "read@3", "--moves").stdout
    assert "(refused)" in moves
    assert "tied" in moves


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["official@-", "bm25"], "bm25 is a retriever, and answer_f1 is a metric of answers"),
        (["bm25", "okapi", "--metric", "answer_em"], "bm25 is a retriever, and answer_em is"),
        (["official@-", "read@9"], "unknown answerer 'read@9' (did you mean 'read@3'?)"),
        (["official@-", "read@3", "--metric", "answer_f1@5"], "answer_f1 has no cut-off"),
        (["--metric", "abstention_f1"], "abstention_f1 is no mean of single questions"),
        (["official@-", "read@3", "--metric", "ndcg"], "official@- is an answerer, and ndcg@5"),
    ],
)
def test_what_cannot_be_compared(run: Invoke, arguments: list[str], problem: str) -> None:
    failed = run("compare", *arguments)
    assert failed.exit_code == 2
    assert problem in failed.stderr
