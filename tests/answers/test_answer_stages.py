"""Answerers of a whole experiment: what is computed anew, what is counted, what is refused."""

from __future__ import annotations

import pytest

from rag_assets.answers.contexts_stage import answer_contexts_key, passages_key
from rag_assets.answers.metrics_stage import answer_metrics_key
from rag_assets.answers.stage import answers_key
from rag_assets.answers.summary_stage import ANSWER_COMPARISONS_KEY, ANSWER_SUMMARY_KEY
from rag_assets.answers.waterfall_stage import waterfall_key
from rag_assets.checks.validation import validate
from rag_assets.errors import ConfigError
from tests.answers.answering import GOLDS, write_predictions
from tests.tiny_experiment import Tiny


@pytest.fixture(scope="module")
def master(computed_answers: Tiny) -> Tiny:
    return computed_answers


@pytest.fixture
def answering(master: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return master.copy_to(tmp_path_factory.mktemp("answers") / "copy")


def of_answers(computed: set[str]) -> set[str]:
    names = ("passage", "answer_", "answers")
    return {one for one in computed if one.startswith(names) and not one.startswith("answerab")}


def test_nothing_is_computed_twice(answering: Tiny) -> None:
    assert answering.run() == set()


def test_answers_in_a_file_are_one_object_for_all_contexts(answering: Tiny) -> None:
    pipeline = answering.pipeline()
    cells = pipeline.experiment.answer_cells
    assert len({pipeline.artifact(answers_key(key)).path for key in cells}) == 1
    assert len(answering.stored("answer_metrics")) > 1


def test_a_changed_retriever_moves_its_contexts_and_not_answers_in_a_file(answering: Tiny) -> None:
    answering.configure("bm25", k1=0.1, b=0.0)
    found = of_answers(answering.run())
    assert not [one for one in found if one.startswith("answers/")]
    assert "answer_contexts/gold@-" not in found
    assert "answer_contexts/none@-" not in found


def test_other_predictions_change_answers_and_what_is_below(answering: Tiny) -> None:
    write_predictions(answering, {one: golds[0] for one, golds in GOLDS.items()} | {"q7": ""})
    found = of_answers(answering.run())
    assert {one.split("/")[0] for one in found} == {
        "answers",
        "answer_metrics",
        "answer_summary",
        "answer_comparisons",
        "answer_waterfall",
    }
    table = answering.pipeline().artifact(answer_metrics_key("official@-")).table()
    assert table["answer_em"].to_pylist() == [1.0] * 7
    assert not any(table["failed"].to_pylist())


def test_order_moves_units_and_keeps_passages(answering: Tiny) -> None:
    answering.config["answers"]["edges"]["order"] = "reversed"
    answering.write_config()
    found = of_answers(answering.run())
    contexts = {one for one in found if one.startswith("answer_contexts")}
    assert contexts == {"answer_contexts/edges@5"}
    assert not [one for one in found if one.startswith("passage")]


def test_random_has_as_many_units_as_the_retriever_returns(master: Tiny) -> None:
    pipeline = master.pipeline()
    ranked = pipeline.artifact(passages_key("bm25", 3)).table()["query_id"].to_pylist()
    drawn = pipeline.artifact(answer_contexts_key("random@3")).table()["query_id"].to_pylist()
    assert sorted(drawn) == sorted(ranked)


def test_none_is_empty_and_gold_holds_every_evidence(master: Tiny) -> None:
    pipeline = master.pipeline()
    assert pipeline.artifact(answer_contexts_key("none@-")).manifest.rows == 0
    outcomes = {
        key: pipeline.artifact(waterfall_key(key)).table()["outcome"].to_pylist()
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


def test_means_and_differences(master: Tiny) -> None:
    pipeline = master.pipeline()
    rows = pipeline.artifact(ANSWER_SUMMARY_KEY).table().to_pylist()
    found = {(r["answerer"], r["top_k"], r["questions"], r["metric"]): r for r in rows}
    every = found["official", None, "all", "answer_em"]
    assert (every["mean"], every["n"], every["n_failed"]) == (pytest.approx(3 / 7), 7, 1)
    f1 = found["read", 3, "answerable", "answer_f1"]
    # right, two of eight words with one of two, refused, right, failed, two of three with all
    assert f1["mean"] == pytest.approx((1 + 2 / 9 + 0 + 1 + 0 + 0.8) / 6)
    assert found["read", 3, "unanswerable", "answer_f1"]["mean"] == 1.0
    # One true positive, one false: 2 / (2 + 1).
    assert found["read", 3, "all", "abstention_f1"]["mean"] == pytest.approx(2 / 3)
    pairs = pipeline.artifact(ANSWER_COMPARISONS_KEY).table().to_pylist()
    (grounded,) = [
        pair
        for pair in pairs
        if (pair["answerer_a"], pair["answerer_b"], pair["metric"])
        == ("gold@-", "none@-", "grounded")
    ]
    assert (grounded["mean_a"], grounded["mean_b"]) == (pytest.approx(0.8), 0.0)
    assert grounded["difference"] == pytest.approx(-0.8)
    assert grounded["low"] <= grounded["difference"] <= grounded["high"]


def test_a_budget_below_the_smallest_unit_is_refused(answering: Tiny) -> None:
    answering.config["answers"]["read"] |= {"budget": 2}
    answering.write_config()
    with pytest.raises(ConfigError, match=r"`answers.read.budget`: no unit fits into 2 tokens"):
        answering.run()


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


def test_a_metric_that_needs_right_answers_and_has_none(answering: Tiny) -> None:
    answering.write_rows("queries.jsonl", [{"query_id": q, "text": q} for q in (*GOLDS, "q7")])
    answering.config["answer_metrics"] = {"metrics": ["abstained", "answer_f1"]}
    answering.write_config()
    with pytest.raises(ConfigError, match="answer_f1 compares with right answers, and no question"):
        answering.run()


def test_without_labels_answers_are_measured_by_what_is_known(answering: Tiny) -> None:
    (answering.folder / "judgments.jsonl").unlink()
    del answering.config["answers"]["gold"]
    answering.write_config()
    answering.run()
    pipeline = answering.pipeline()
    assert not pipeline.experiment.has_qrels
    table = pipeline.artifact(answer_metrics_key("read@3")).table()
    assert table["answer_em"].to_pylist()[0] == 1.0
    assert "evidence_cited" not in table.column_names
    assert answering.snapshot().complete
    assert answering.run() == set()


def test_without_a_model_the_best_sentence_is_copied(answering: Tiny) -> None:
    answering.config["generators"]["spans"] = {"type": "extractive"}
    answering.config["answers"] = {
        "copy": {"generator": "spans", "context": "gold", "chunking": "parts"}
    }
    answering.write_config()
    answering.run()
    pipeline = answering.pipeline()
    answers = pipeline.artifact(answers_key("copy@-")).table().to_pylist()
    assert answers[0]["answer"] == "A dog needs a ticket of 10 crowns."
    table = pipeline.artifact(answer_metrics_key("copy@-")).table()
    assert table["evidence_cited"].to_pylist()[0] == 1.0


def test_validate_finds_what_is_wrong_with_answerers(answering: Tiny) -> None:
    rows = validate(answering.pipeline()).findings.to_pylist()
    assert [(r["check"], r["query_id"]) for r in rows if r["check"] == "missing_prediction"] == [
        ("missing_prediction", "q5")
    ]
    answering.config["answers"]["read"] |= {"budget": 2}
    answering.config["answers"]["gold"] |= {"budget": 3}
    (answering.folder / "predictions.json").write_text('{"q1": 3}', encoding="utf-8")
    answering.write_config()
    messages = [
        row["message"]
        for row in validate(answering.pipeline()).findings.to_pylist()
        if row["check"] == "answers"
    ]
    assert len(messages) == 3
    assert "`q1`: is an integer; must be a string" in messages[0]
    assert "`answers.read.budget`: no unit fits into 2 tokens" in messages[1]
    assert "`answers.gold.budget`: no unit fits into 3 tokens" in messages[2]


def test_validate_misses_right_answers(answering: Tiny) -> None:
    answering.write_rows("queries.jsonl", [{"query_id": q, "text": q} for q in (*GOLDS, "q7")])
    answering.config["answer_metrics"] = {"metrics": ["answer_f1"]}
    answering.write_config()
    found = validate(answering.pipeline()).findings.to_pylist()
    assert "answer_f1 compares with right answers" in next(
        row["message"] for row in found if row["check"] == "answers"
    )


def test_pairs_with_gold_are_on_answerable_questions(answering: Tiny) -> None:
    """Gold has nothing to read for the others, so that it cannot but refuse them."""
    pipeline = answering.pipeline()
    metrics = pipeline.artifact(answer_metrics_key("gold@-")).table().to_pylist()
    n_answerable = sum(row["answerable"] for row in metrics)
    assert n_answerable < len(metrics)
    rows = pipeline.artifact(ANSWER_COMPARISONS_KEY).table().to_pylist()
    for row in (row for row in rows if row["metric"] == "answer_f1"):
        is_with_gold = "gold@-" in (row["answerer_a"], row["answerer_b"])
        assert row["n"] == (n_answerable if is_with_gold else len(metrics))
