"""Answers on the page, in a terminal and in a notebook."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from rag_assets.answers.waterfall_stage import CLASSES
from rag_assets.report.answer_waterfall import (
    CLASS_NAMES,
    answer_flows,
    waterfall_rows,
    waterfall_sheet,
)
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.page.answers import answers, headline_sentences
from rag_assets.report.page.explorer import explorer
from rag_assets.report.page.page import page
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import sheet_view
from rag_assets.report.view import Context, View
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import CONFIG, GOLDS, PREDICTIONS, with_answers
from tests.tiny_experiment import Tiny

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e[bold]"

OFFICIAL = {
    "failed": 1,
    "unanswerable_refused": 1,
    "right_context_unknown": 3,
    "wrong_context_unknown": 1,
    "refused_context_unknown": 1,
}
"""Of the planted predictions: q5, q7, q1 with q4 and q6, q2, q3."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    tiny = Tiny(tmp_path_factory.mktemp("answers_section"))
    tiny.folder.mkdir(parents=True)
    (tiny.folder / "hostile.json").write_text(json.dumps({"q1": HOSTILE, "q7": HOSTILE}))
    tiny.write()
    config: dict[str, Any] = json.loads(json.dumps(CONFIG))
    config["generators"] |= {
        "hostile": {"type": "file", "path": "hostile.json"},
        "sentence": {"type": "extractive"},
    }
    config["answers"] |= {
        "worse": {"generator": "hostile"},
        "copied": {"generator": "sentence", "retriever": "bm25", "top_k": [3]},
        "copied_gold": {"generator": "sentence", "context": "gold", "chunking": "parts"},
        "copied_chance": {
            "generator": "sentence",
            "context": "random",
            "retriever": "bm25",
            "top_k": [3],
        },
    }
    with_answers(tiny, **config)
    tiny.run()
    return EvaluationResult(tiny.artifacts, tiny.snapshot())


@pytest.fixture(scope="module")
def section(result: EvaluationResult) -> Context:
    found = answers(View(result))
    assert found is not None
    return found


def values(result: EvaluationResult, answerer: str, metric: str) -> dict[str, float]:
    table = result.table(ArtifactKey.of("answer_metrics", answerer=answerer))
    pairs = zip(table["query_id"].to_pylist(), table[metric].to_pylist(), strict=True)
    return {query_id: value for query_id, value in pairs if value is not None}


def test_every_class_has_a_name() -> None:
    assert set(CLASS_NAMES) == set(CLASSES)
    assert len(set(CLASS_NAMES.values())) == len(CLASSES)


def test_planted_predictions_are_in_their_classes_and_sum_to_all(result: EvaluationResult) -> None:
    rows = waterfall_rows(result, "all")
    flows = answer_flows(rows)
    answerers: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        answerers.setdefault(row["answerer"], {})[row["outcome"]] = row
    assert {name: row["n"] for name, row in answerers["official@-"].items()} == OFFICIAL
    assert set(answerers) == {
        e.partition["answerer"] for e in result.evaluation.entries_of("answers")
    }
    for classes, flow in zip(answerers.values(), flows["flows"], strict=True):
        assert sum(row["n"] for row in classes.values()) == 7
        assert sum(row["share"] for row in classes.values()) == pytest.approx(1)
        assert flow["n"] == flow["found"] + sum(step["n_lost"] for step in flow["steps"])
        right = ("right_with_evidence", "right_context_unknown")
        assert flow["found"] == sum(classes[n]["n"] for n in right if n in classes)


def test_a_terminal_shows_the_classes(result: EvaluationResult) -> None:
    text = io.StringIO()
    rows = [row for row in waterfall_rows(result, "all") if row["answerer"] == "official@-"]
    Console(file=text, width=80, highlight=False).print(
        sheet_view(waterfall_sheet("tiny: from corpus to answer", rows))
    )
    lines = text.getvalue().splitlines()
    assert lines[0].strip() == "tiny: from corpus to answer"
    assert lines[2].split() == ["failed", "1", "14%"]
    assert "right, context not known" in lines[4]
    assert lines[4].split()[-2:] == ["3", "43%"]
    assert lines[-1].split() == ["questions", "7", "100%"]


def test_the_best_is_no_reference_and_the_test_is_told(
    result: EvaluationResult, section: Context
) -> None:
    means = {
        name: sum(values(result, name, "answer_f1").values()) / 7
        for name in ("copied@3", "official@-", "worse@-")
    }
    assert sorted(means, key=lambda name: -means[name]) == list(means)
    head = section["head"]
    assert head["best"] == "copied@3"
    chosen_from = {"official@-", "read@3", "read@5", "edges@5", "worse@-", "copied@3"}
    assert head["candidates"] == len(chosen_from), "a reference cannot be chosen"
    assert head["value"] == pytest.approx(means["copied@3"])
    assert head["next"]["other"] == "official@-"
    assert head["next"]["difference"] == pytest.approx(means["copied@3"] - means["official@-"])
    assert not head["next"]["mark"], "seven questions tell little"
    said = headline_sentences(View(result))
    assert said[0] == f"copied@3 has the highest F1, {head['value']:.4f}."
    assert "not shown to be real" in said[-1]


def test_what_perfect_retrieval_is_worth(result: EvaluationResult, section: Context) -> None:
    worth = {one["name"]: one for one in section["worth"]}
    assert {"gold@-", "none@-", "random@3", "copied_gold@-", "copied_chance@3"} <= set(worth)
    (pair,) = (p for p in worth["copied_gold@-"]["sheet"].rows if p["heading"] == "F1")
    assert pair["other"] == "copied@3"
    gold, own = (values(result, name, "answer_f1") for name in ("copied_gold@-", "copied@3"))
    gains = {query_id: gold[query_id] - own[query_id] for query_id in gold}
    answerable = [gain for query_id, gain in gains.items() if query_id in GOLDS]
    assert len(answerable) == 6 < len(gains)
    assert pair["difference"] == pytest.approx(sum(answerable) / 6)
    assert pair["low"] <= pair["difference"] <= pair["high"]
    assert pair["answerable"] == pytest.approx(pair["difference"])
    assert worth["copied_gold@-"]["refuses"], "q7 has no evidence, so its context is empty"
    others = {p["other"] for p in worth["random@3"]["sheet"].rows}
    assert "read@5" not in others, "units drawn by chance are compared at the same cut-off"


def test_who_copies_sentences_is_named(section: Context) -> None:
    assert section["sentences"] == ["copied", "copied_gold", "copied_chance"]


def test_the_explorer_has_answers_and_contexts(result: EvaluationResult) -> None:
    found = explorer(View(result))
    assert found is not None
    data = found["data"]
    official, gold = (data["answerers"].index(name) for name in ("official@-", "copied_gold@-"))
    queries = {query["i"]: query for query in data["queries"]}
    assert set(queries) == {*GOLDS, "q7"}
    for query_id, query in queries.items():
        assert query["o"] == GOLDS.get(query_id, [])
        text, error, *_, context, _ = query["a"][official]
        assert text == {**PREDICTIONS, "q7": ""}.get(query_id)
        assert (error is not None) == (query_id == "q5")
        assert context is None, "nothing is known of the context of a file"
    context = queries["q1"]["a"][gold][5]
    documents = {data["documents"][data["units"][unit][0]][0] for unit in context}
    assert documents == {"fares.md"}
    assert any("A dog needs" in data["units"][unit][4] for unit in context)
    assert queries["q7"]["a"][gold][5] == []
    classes = [data["classes"][queries[q]["a"][official][4]] for q in ("q1", "q5")]
    assert classes == ["right, context not known", "failed"]


def test_a_hostile_answer_is_shown_and_not_obeyed(result: EvaluationResult) -> None:
    text = page(result, "x")
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text
    table = EvaluationTable(result.root, result.evaluation)
    notebook = table._repr_html_()
    assert "answers to 7 questions" in notebook
    assert repr(table).count("answers to 7 questions") == 1
    assert ">evidence cited</dt>" in text
    assert ">split</dt>" not in text, "the questions are not split"
    assert "From corpus to answer" in notebook


def test_without_answerers_nothing_is_shown(tiny_result: EvaluationResult) -> None:
    assert answers(View(tiny_result)) is None
    assert waterfall_rows(tiny_result, "all") == []
