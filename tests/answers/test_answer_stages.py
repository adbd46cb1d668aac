"""Stages of answers: what is computed anew, contexts, and the page on answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answers.answer_text import VERSION, cited_units
from rag_assets.answers.contexts_stage import (
    answer_contexts,
    answer_contexts_key,
    gold_units,
    ordered,
    passage_lists_key,
    passages,
    passages_key,
    random_units,
    units_by_query,
    within,
)
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.predictions import read_answers
from rag_assets.answers.stage import answer_metrics_key, answers_key
from rag_assets.answers.summary_stage import ANSWER_COMPARISONS_KEY, ANSWER_SUMMARY_KEY
from rag_assets.answers.waterfall_stage import (
    CLASSES,
    RIGHT_F1,
    STAGES,
    UNKNOWN,
    WITH,
    waterfall_key,
)
from rag_assets.checks.validation import Validation
from rag_assets.errors import ConfigError
from rag_assets.evaluation.dialects.squad_v2_official import official_scores
from rag_assets.evaluation.returned_texts import returned_texts
from rag_assets.schemas import PASSAGES, RELEVANT_UNITS, RETRIEVER_CONTEXTS, RUNS
from tests.answers.answering import GOLDS, write_predictions
from tests.answers.made_answers import Place, one_question
from tests.tiny_experiment import Tiny
from tests.walked_page import DOCS


@pytest.fixture
def answering(computed_answers: Tiny, tmp_path: Path) -> Tiny:
    return computed_answers.copy_to(tmp_path / "copy")


def of_answers(computed: set[str]) -> set[str]:
    names = ("passage", "answer_", "answers")
    return {one for one in computed if one.startswith(names) and not one.startswith("answerab")}


def test_other_predictions_change_answers_and_what_is_below(answering: Tiny) -> None:
    write_predictions(answering, {one: golds[0] for one, golds in GOLDS.items()} | {"q7": ""})
    found = of_answers(answering.run())
    below = {f"answer_{one}" for one in ("metrics", "summary", "comparisons", "waterfall")}
    assert {one.split("/")[0] for one in found} == {"answers", *below}
    rows = answering.rows(answer_metrics_key("official@-"))
    assert [(row["answer_em"], row["failed"]) for row in rows] == [(1.0, False)] * 7


def test_answers_of_a_file_are_one_object_for_all_contexts(computed_answers: Tiny) -> None:
    pipeline = computed_answers.pipeline()
    cells = pipeline.experiment.answer_cells
    assert len({pipeline.artifact(answers_key(key)).path for key in cells}) == 1
    assert len(computed_answers.stored("answer_metrics")) > 1
    for row in computed_answers.rows(passage_lists_key("bm25")):
        cell = pipeline.artifact(passages_key("bm25", row["top_k"])).manifest
        assert (row["n_passages"], row["digest"]) == (cell.rows, cell.digests["all"])
    ranked = [row["query_id"] for row in computed_answers.rows(passages_key("bm25", 3))]
    drawn = [row["query_id"] for row in computed_answers.rows(answer_contexts_key("random@3"))]
    assert sorted(drawn) == sorted(ranked)
    assert computed_answers.rows(answer_contexts_key("none@-")) == []
    outcomes = {
        key: [row["outcome"] for row in computed_answers.rows(waterfall_key(key))]
        for key in ("gold@-", "none@-", "official@-")
    }
    assert outcomes["gold@-"] == [
        "right_with_evidence",
        "wrong_with_evidence",
        "refused_with_evidence",
        "right_with_evidence",
        "failed",
        "right_with_evidence",
        "unanswerable_refused",
    ]
    assert outcomes["none@-"][0] == "right_without_evidence"
    assert outcomes["official@-"][0] == "right_context_unknown"


def test_means_and_differences(computed_answers: Tiny) -> None:
    """Gold has nothing to read for an unanswerable question, so pairs with it are without one."""
    rows = computed_answers.rows(ANSWER_SUMMARY_KEY)
    found = {(r["answerer"], r["top_k"], r["questions"], r["metric"]): r for r in rows}
    every = found["official", None, "all", "answer_em"]
    assert (every["mean"], every["n"], every["n_failed"]) == (pytest.approx(3 / 7), 7, 1)
    f1 = found["read", 3, "answerable", "answer_f1"]
    # right, two of eight words with one of two, refused, right, failed, two of three with all
    assert f1["mean"] == pytest.approx((1 + 2 / 9 + 0 + 1 + 0 + 0.8) / 6)
    assert found["read", 3, "unanswerable", "answer_f1"]["mean"] == 1.0
    # One true positive, one false: 2 / (2 + 1).
    assert found["read", 3, "all", "abstention_f1"]["mean"] == pytest.approx(2 / 3)
    pairs = computed_answers.rows(ANSWER_COMPARISONS_KEY)
    lead = ("answerer_a", "answerer_b", "metric")
    (grounded,) = [p for p in pairs if [p[n] for n in lead] == ["gold@-", "none@-", "grounded"]]
    assert (grounded["mean_a"], grounded["mean_b"]) == (pytest.approx(0.8), 0.0)
    assert grounded["difference"] == pytest.approx(-0.8)
    assert grounded["low"] <= grounded["difference"] <= grounded["high"]
    for pair in (pair for pair in pairs if pair["metric"] == "answer_f1"):
        is_with_gold = "gold@-" in (pair["answerer_a"], pair["answerer_b"])
        assert pair["n"] == (6 if is_with_gold else 7)


def test_no_table_claims_what_an_answerer_does_without_a_context(answering: Tiny) -> None:
    answering.run()
    answering.snapshot()
    for words in (("compare", ".", "--metric", "answer_f1"), ("leaderboard", ".", "--answers")):
        told = answering.command(*words, columns=200).output
        assert "gold reads the relevant texts, and its context of unanswerable questions" in told


def test_a_budget_leaves_out_and_says_so(answering: Tiny) -> None:
    answering.config["answers"]["read"] |= {"budget": 20}
    answering.write_config()
    answering.run()
    artifact = answering.pipeline().artifact(answer_contexts_key("read@5"))
    tokens: dict[str, int] = {}
    for row in artifact.table().to_pylist():
        tokens[row["query_id"]] = tokens.get(row["query_id"], 0) + row["n_tokens"]
    assert max(tokens.values()) <= 20
    assert artifact.manifest.facts["n_dropped"] > 0
    assert artifact.manifest.facts["notes"][0].startswith("the budget leaves ")
    answering.config["answers"]["read"] |= {"budget": 2}
    answering.write_config()
    with pytest.raises(ConfigError, match=r"`answers.read.budget`: no unit fits into 2 tokens"):
        answering.run()


def test_a_metric_that_needs_right_answers_and_has_none(answering: Tiny) -> None:
    answering.write_rows("queries.jsonl", [{"query_id": q, "text": q} for q in (*GOLDS, "q7")])
    answering.config["answer_metrics"] = {"metrics": ["abstained", "answer_f1"]}
    answering.write_config()
    problem = "answer_f1 compares with right answers, and no question"
    with pytest.raises(ConfigError, match=problem):
        answering.run()
    found = Validation(answering.pipeline()).findings.to_pylist()
    assert problem in next(row["message"] for row in found if row["check"] == "answers")


def test_without_labels_answers_are_measured_by_what_is_known(answering: Tiny) -> None:
    (answering.folder / "judgments.jsonl").unlink()
    del answering.config["answers"]["gold"]
    answering.write_config()
    answering.run()
    assert not answering.pipeline().experiment.has_qrels
    first, *_ = answering.rows(answer_metrics_key("read@3"))
    assert first["answer_em"] == 1.0
    assert "evidence_cited" not in first
    assert answering.snapshot().complete
    assert answering.run() == set()


def test_without_a_model_the_best_sentence_is_copied(answering: Tiny) -> None:
    answering.config["generators"]["spans"] = {"type": "extractive"}
    answering.config["answers"] = {
        "copy": {"generator": "spans", "context": "gold", "chunking": "parts"}
    }
    answering.write_config()
    answering.run()
    first, *_ = answering.rows(answers_key("copy@-"))
    assert first["answer"] == "A dog needs a ticket of 10 crowns."
    assert answering.rows(answer_metrics_key("copy@-"))[0]["evidence_cited"] == 1.0


def test_validate_finds_what_is_wrong_with_answerers(answering: Tiny) -> None:
    rows = Validation(answering.pipeline()).findings.to_pylist()
    assert [r["query_id"] for r in rows if r["check"] == "missing_prediction"] == ["q5"]
    (answering.folder / "predictions.json").write_text('{"q1": 3}', encoding="utf-8")
    rows = Validation(answering.pipeline()).findings.to_pylist()
    (message,) = [row["message"] for row in rows if row["check"] == "answers"]
    assert "`q1`: is an integer; must be a string" in message


def unit(name: str, tokens: int = 1, document: str = "d", start: int = 0) -> dict[str, Any]:
    place = {"document_id": document, "start": start, "end": start + 10}
    return {"unit_id": name, **place, "n_tokens": tokens, "text_digest": f"t{name}"}


def handed_over(**queries: list[int]) -> pa.Table:
    return PASSAGES.from_rows(
        [
            {"query_id": query_id, "rank": rank, **unit("abcdefgh"[rank - 1], tokens)}
            for query_id, own in queries.items()
            for rank, tokens in enumerate(own, 1)
        ]
    )


def names(table: pa.Table) -> dict[str, str]:
    return {
        query_id: "".join(row["unit_id"] for row in own)
        for query_id, own in units_by_query(table).items()
    }


@pytest.mark.parametrize(
    ("order", "expected"), [("rank", "abcde"), ("reversed", "edcba"), ("edges", "acedb")]
)
def test_orders(order: str, expected: str) -> None:
    table = answer_contexts(units_by_query(handed_over(q=[1, 1, 1, 1, 1])), order, None)
    assert names(table) == {"q": expected}
    assert table["position"].to_pylist() == [1, 2, 3, 4, 5]
    assert table["rank"].to_pylist() == ["abcde".index(name) + 1 for name in expected]


@given(
    st.lists(st.integers(0, 9), max_size=9),
    st.integers(0, 40),
    st.sampled_from(["rank", "reversed", "edges"]),
)
def test_order_and_budget_together(tokens: list[int], budget: int, order: str) -> None:
    units = [unit(str(number), n) for number, n in enumerate(tokens)]
    few = within(units, budget)
    assert few == units[: len(few)]
    assert sum(tokens[: len(few)]) <= budget
    assert len(few) == len(tokens) or sum(tokens[: len(few) + 1]) > budget
    shown = ordered(few, order)
    assert sorted(one["unit_id"] for one in shown) == sorted(one["unit_id"] for one in few)
    if few:
        assert (shown[-1] if order == "reversed" else shown[0]) == few[0]


def test_passages_are_the_texts_of_the_units_of_a_run() -> None:
    rows = [
        {
            **{"query_id": "q", "rank": rank, "score": 1.0 / rank},
            **{"unit_id": f"item{rank}", "chunk_id": name, "document_id": "d"},
        }
        for rank, name in enumerate("ba", 1)
    ]
    contexts = [{"context_id": name, **unit(name, ord(name), start=ord(name))} for name in "abc"]
    counts = {(row["document_id"], row["start"], row["end"]): row["n_tokens"] for row in contexts}
    for row in contexts:
        del row["unit_id"], row["n_tokens"]
    known = RETRIEVER_CONTEXTS.from_rows(contexts)
    run = RUNS.from_rows(rows)
    table = passages(run, returned_texts(run, known, "chunk_id"), counts)
    assert table["unit_id"].to_pylist() == ["b", "a"]
    assert table["n_tokens"].to_pylist() == [ord("b"), ord("a")]


def test_gold_is_all_evidence_by_document_and_place() -> None:
    units = pa.Table.from_pylist(
        [
            unit("late", document="a", start=50),
            unit("first", document="a", start=0),
            unit("other", document="b", start=0),
            unit("wrong", document="b", start=90),
        ]
    )
    rows: list[dict[str, object]] = [
        {"query_id": "q", "evidence_id": e, "unit_id": item, "grade": grade}
        for e, item, grade in [
            ("1", "other", 1),
            ("1", "late", 2),
            ("2", "first", 1),
            ("3", "late", 1),
            ("4", "wrong", 0),
            ("5", None, 1),
        ]
    ]
    gold = gold_units(RELEVANT_UNITS.from_rows(rows), units)
    assert [row["unit_id"] for row in gold["q"]] == ["first", "late", "other"]
    assert {row["rank"] for row in gold["q"]} == {None}
    assert answer_contexts(gold, "rank", 2).num_rows == 2


def test_random_units_depend_on_the_seed_and_the_question_alone() -> None:
    rows = [{"context_id": f"u{n:02}", **unit("x", 1, "d", n)} for n in range(40)]
    for row in rows:
        del row["unit_id"]
    units = RETRIEVER_CONTEXTS.from_rows(rows)
    both, alone = (random_units(counts, units, 0) for counts in ({"q": 3, "r": 50}, {"q": 3}))
    assert both["q"] == alone["q"]
    assert len({row["unit_id"] for row in both["r"]}) == 40  # each once, though more were wanted
    assert random_units({"q": 3}, units, 1) != alone
    seen = random_units({f"q{n}": 1 for n in range(400)}, units, 0)
    assert len({row["unit_id"] for (row,) in seen.values()}) == 40


PAGE = (DOCS / "answers.md").read_text(encoding="utf-8")


def table(first: str) -> list[list[str]]:
    found = re.search(rf"^\| {re.escape(first)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.M)
    assert found is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found[1].splitlines()]


def number(cell: str) -> float | None:
    return float(cell) if cell else None


def test_the_metrics_are_those_of_the_registry() -> None:
    rows = [[f"`{name}`", one.description, one.formula] for name, one in METRICS.items()]
    assert table("metric") == rows


@pytest.mark.parametrize("row", table("gold answers"), ids=lambda row: "/".join(row[:2]))
def test_edge_cases(row: list[str]) -> None:
    gold, text, em, f1, abstained, script, _ = row
    answerable = gold != "unanswerable"
    golds = json.loads(gold.strip("`")) if gold.startswith("`") else []
    answer = None if text == "failed" else json.loads(text.strip("`"))
    values = one_question(answer, golds, answerable=answerable)
    assert values["answer_em"] == number(em)
    assert values["answer_f1"] == pytest.approx(number(f1), abs=1e-6)
    assert values["abstained"] == number(abstained)
    given = {} if answer is None else {"q": answer}
    scores = official_scores({"q": tuple(golds)}, given).per_question
    assert scores.get("q", (None,))[0] == (None if script == "-" else number(script))


def test_the_script_and_ours_differ_only_where_the_page_says_so() -> None:
    differ = [row[1] for row in table("gold answers") if row[2] != row[5]]
    assert differ == ['`"I don\'t know."`', "failed", "failed", '`"France"`']


@pytest.mark.parametrize("row", table("the answer cites"), ids=lambda row: row[0])
def test_citations(row: list[str]) -> None:
    text = row[0].strip("`")
    units = [("x" * 10, "d", start) for start in range(0, 50, 10)]
    evidence: list[Place] = [("second", "d", 10, 20), ("fourth", "d", 30, 40)]
    cited = cited_units(text)
    values = one_question(f"x {text}", ["x"], evidence=evidence, context=units, cited=cited)
    names = ("evidence_cited_precision", "evidence_cited_recall", "evidence_cited")
    found = [values[name] for name in names]
    assert found == pytest.approx([float(cell) for cell in row[1:4]], abs=1e-6)


def test_every_name_and_line_of_the_page(tmp_path: Path) -> None:
    (block,) = re.findall(r'^```\n(\{"query_id".*?)```', PAGE, re.M | re.S)
    path = tmp_path / "answers.jsonl"
    path.write_text(block, encoding="utf-8")
    assert [row.get("answer") for row in read_answers(path).values()] == ["40 crowns [2]", "", None]
    keys = {key for line in block.splitlines() for key in json.loads(line)}
    assert keys | {"abstained"} == {row[0].strip("`") for row in table("key")}
    named = set(re.findall(r"`(\w+)`", PAGE))
    lost = [name for name in CLASSES if name.startswith(("wrong_", "refused_"))]
    own = [name for name in CLASSES if name not in lost]
    assert set(STAGES) | {name for name in lost if name.endswith((WITH, UNKNOWN))} <= named
    assert set(own) <= named
    assert f"`answer_f1` is above {RIGHT_F1}" in PAGE
    assert f"The list has a version, now {VERSION}." in PAGE
