"""Sections of answers, attribution and labels."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from rag_assets.analysis.answers import answers, sentence_copiers
from rag_assets.analysis.attribution import (
    CLASS_NAMES,
    attribution_rows,
    attribution_sheet,
    lost_rows,
    lost_sheet,
    waterfall_rows,
)
from rag_assets.analysis.label_health import label_status, status_sheets
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.answers.waterfall_stage import CLASSES
from rag_assets.evaluation.attributions_stage import PLACES
from rag_assets.evaluation.metric_names import Metric
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.logs import LoggedJudgment, append_lines
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.page.explorer import explorer
from rag_assets.report.page.page import page
from rag_assets.sheets.sheet import Sheet
from rag_assets.sheets.terminal_table import sheets_view
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import CONFIG, GOLDS, PREDICTIONS, with_answers
from tests.labels.page.served import session_of
from tests.labels.sampling.made_pool import DCG, asked, collection, design_of, drawn_line
from tests.shown_board import evaluated
from tests.tiny_experiment import JUDGMENTS, QUERIES, Tiny

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
def section(result: EvaluationResult) -> Row:
    found = answers(result)
    assert found is not None
    return found


def test_a_generator_with_a_model_copies_no_sentences(result: EvaluationResult) -> None:
    configuration = dict(result.evaluation.origin.configuration)
    of_model = {"type": "extractive", "model": "a/model"}
    generators = {**configuration["generators"], "hostile": of_model}
    origin = replace(
        result.evaluation.origin, configuration={**configuration, "generators": generators}
    )
    changed = EvaluationResult(result.root, replace(result.evaluation, origin=origin))
    assert sentence_copiers(changed) == ["copied", "copied_gold", "copied_chance"]


def values(result: EvaluationResult, answerer: str, metric: str) -> dict[str, float]:
    table = result.table(ArtifactKey.of("answer_metrics", answerer=answerer))
    pairs = zip(table["query_id"].to_pylist(), table[metric].to_pylist(), strict=True)
    return {query_id: value for query_id, value in pairs if value is not None}


def test_every_class_has_a_name() -> None:
    assert set(CLASS_NAMES) == set(CLASSES)
    assert len(set(CLASS_NAMES.values())) == len(CLASSES)


def test_planted_predictions_are_in_their_classes_and_sum_to_all(result: EvaluationResult) -> None:
    rows = waterfall_rows(result)
    answerers: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        answerers.setdefault(row["answerer"], {})[row["outcome"]] = row
    assert {name: row["n"] for name, row in answerers["official@-"].items()} == OFFICIAL
    assert set(answerers) == {
        e.partition["answerer"] for e in result.evaluation.entries_of("answers")
    }
    for classes in answerers.values():
        assert sum(row["n"] for row in classes.values()) == 7
        assert sum(row["share"] for row in classes.values()) == pytest.approx(1)


def test_the_best_is_no_reference_and_the_test_is_told(
    result: EvaluationResult, section: Row
) -> None:
    means = {
        name: sum(values(result, name, "answer_f1").values()) / 7
        for name in ("copied@3", "official@-", "worse@-")
    }
    assert sorted(means, key=lambda name: -means[name]) == list(means)
    first, second = section["lead"]
    assert first == f"copied@3 has the highest F1, {means['copied@3']:.4f}.", (
        "gold@- is a reference"
    )
    difference = means["copied@3"] - means["official@-"]
    lead = f" on answer_f1: copied@3 is ahead by {difference:.4f} ["
    assert second.startswith("No difference shown between "), "seven questions tell little"
    assert lead in second


def test_the_explorer_has_answers_and_contexts(result: EvaluationResult) -> None:
    found = explorer(result)
    assert found is not None
    data = found["data"]()
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


def test_hostile_and_missing_answers_are_shown_as_they_are(
    result: EvaluationResult, tiny_result: EvaluationResult
) -> None:
    text = page(result, "x", has_explorer=True)
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text
    table = EvaluationTable(result.root, result.evaluation)
    notebook = table._repr_html_()
    assert "answers to 7 questions" in notebook
    assert repr(table).count("answers to 7 questions") == 1
    assert "From corpus to answer" in notebook
    assert answers(tiny_result) is None
    assert waterfall_rows(tiny_result) == []


def drawn(*sheets: Sheet, width: int = 80) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, highlight=False).print(sheets_view(sheets))
    return text.getvalue().splitlines()


def row(**values: object) -> Row:
    counts = {place: 0 for place in PLACES} | {f"{place}_share": 0.0 for place in PLACES}
    lead = {"retriever": "bm25", "split": "all", "top_k": 10, "n_evidences": 4000}
    return {**lead, **counts, "recall": 0.5, "ceiling": None, **values}


def test_places_where_nothing_is_are_left_out() -> None:
    lines = drawn(attribution_sheet("x", [row(found=3000, found_share=0.75, no_chunk=1000)]))
    assert lines[1].split() == ["evi-", "no", "ceil-"]
    assert lines[3].split() == ["bm25", "4000", "3000", "75%", "1000", "0%", "0.5000", "-"]


def test_what_a_file_says_is_shown_and_not_obeyed() -> None:
    lost: Row = {
        "retriever": "bm25",
        "query_id": "q[red]1",
        "evidence_id": "e\x1b[2J",
        "lost_at": "no_chunk",
        "rank": None,
        "query": "why [bold]\nnot",
    }
    text = "\n".join(drawn(lost_sheet([lost])))
    assert "q[red]1" in text
    assert "why [bold]\\nnot" in text
    assert "\x1b" not in text


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    """Two queries of each split; a retriever of elsewhere that failed on one of test."""
    tiny = Tiny(tmp_path_factory.mktemp("split") / "tiny").write()
    folds = {"q1": "dev", "q2": "dev", "q3": "test", "q4": "test"}
    queries = [{**q, "fold": folds[q["query_id"]]} for q in QUERIES if q["query_id"] in folds]
    tiny.write_rows("queries.jsonl", queries)
    tiny.write_rows("judgments.jsonl", [row for row in JUDGMENTS if row["query_id"] in folds])
    told = [{"qid": query, "retrieved_ids": ["lost.md"]} for query in ("q1", "q2", "q3")]
    tiny.write_rows("told.jsonl", [*told, {"qid": "q4", "error": "timed out"}])
    bm25 = tiny.config["retrievers"]["bm25-whole"]
    told_by = {"type": "run_file", "path": "told.jsonl", "chunking": "whole"}
    tiny.config |= {"split": {"field": "fold"}, "top_k": [1], "primary": "recall@1"}
    tiny.config |= {"metrics": ["recall"], "retrievers": {"bm25": bm25, "told": told_by}}
    tiny.write_config()
    return evaluated(tiny.pipeline())


def test_the_split_that_the_leaderboard_shows(split: EvaluationResult) -> None:
    names = ["bm25", "told"]
    rows = {row["retriever"]: row for row in attribution_rows(split, names)}
    assert [(row["split"], row["n_queries"]) for row in rows.values()] == [("test", 2), ("test", 1)]
    board = {r["retriever"]: r for r in split.leaderboard.to_pylist() if r["split"] == "test"}
    for name, row in rows.items():
        assert row["recall"] == board[name]["recall"]
        assert row["n_queries"] == board[name]["n_queries"], "a failed query is lost nowhere"
    dev = attribution_rows(EvaluationResult(split.root, split.evaluation, "dev"), names)
    assert [(row["split"], row["n_queries"]) for row in dev] == [("dev", 2), ("dev", 2)]
    assert drawn(attribution_sheet("x", dev))[0] == "x: where the evidences are, at top_k 1, dev"
    assert {row["query_id"] for row in lost_rows(split, ["told"])} == {"q3"}
    by_tag = attribution_rows(split, ["bm25"], "tag")
    assert {row["tag"] for row in by_tag} == {"safety"}, "q3 and q4"


POOL, LABELS = collection(noises=(0.8, 1.0, 2.0))
N = len(POOL.question_ids)
SECONDS = 12.0


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    tiny = Tiny(tmp_path_factory.mktemp("status"))
    tiny.config |= {"metrics": ["dcg"], "primary": "dcg@10"}
    return tiny.write().pipeline().experiment


def sample_of(n: int) -> LabelSample:
    return asked(POOL, LABELS, design_of(POOL), n)


def lines_of(sample: LabelSample) -> list[LoggedJudgment]:
    items = [POOL.items[number] for number in np.flatnonzero(sample.judged)]
    return [LoggedJudgment(*item, 1, probability=0.5, seconds=SECONDS) for item in items]


def status_of(experiment: Experiment, n: int) -> Row:
    sample = sample_of(n)
    return label_status(experiment, sample, lines_of(sample), 10, None)


def of_primary(status: Row) -> list[Row]:
    return [row for row in status["estimates"] if row["metric"] == status["estimates"][0]["metric"]]


def shown(experiment: Experiment, n: int, width: int = 120) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(sheets_view(status_sheets(experiment.name, status_of(experiment, n))))
    return capture.get()


def test_values_and_differences_are_those_of_the_sample(experiment: Experiment) -> None:
    """Computed item by item, with the working values alone taken from the library."""
    from rag_assets.labels.sampling.estimates import Estimator

    sample = sample_of(4 * N)
    working = Estimator(sample, DCG).working.values
    p, weights = sample.probabilities(), POOL.weights(DCG)
    want = {}
    for number, name in enumerate(POOL.systems):
        total = 0.0
        for item in range(len(POOL.items)):
            total += weights[number, item] * working[item]
            if sample.judged[item]:
                total += weights[number, item] * (LABELS[item] - working[item]) / p[item]
        want[name] = total / N
    rows = of_primary(status_of(experiment, 4 * N))
    assert {str(row["retriever"]): row["value"] for row in rows} == pytest.approx(want)
    values = [float(str(row["value"])) for row in rows]
    assert values == sorted(values, reverse=True)
    for row in rows:
        low, high, wide_low, wide_high = (
            float(str(row[name]))
            for name in ("items_low", "items_high", "questions_low", "questions_high")
        )
        assert wide_low <= low < float(str(row["value"])) < high <= wide_high
    now = status_of(experiment, 4 * N)
    value_of = {row["retriever"]: float(str(row["value"])) for row in of_primary(now)}
    assert len(now["differences"]) == 3
    for row in now["differences"]:
        gap = value_of[row["retriever_a"]] - value_of[row["retriever_b"]]
        assert row["value"] == pytest.approx(gap)
        assert gap >= 0
        low, high = float(str(row["low"])), float(str(row["high"]))
        assert row["decided"] == (low > 0 or high < 0)
        assert row["outside"] == (not low <= gap <= high)
        if not row["decided"]:
            judgments = [int(str(row[f"more_judgments_{end}"])) for end in ("low", "high")]
            assert 1 <= judgments[0] <= judgments[1] <= len(LABELS) - 4 * N
            minutes = [int(np.ceil(one * SECONDS / 60)) for one in judgments]
            assert [row["more_minutes_low"], row["more_minutes_high"]] == minutes


def test_with_all_judged_everything_is_decided(experiment: Experiment) -> None:
    status = status_of(experiment, len(LABELS))
    truth = POOL.weights(DCG) @ LABELS / N
    for row in of_primary(status):
        number = POOL.systems.index(str(row["retriever"]))
        assert row["value"] == pytest.approx(truth[number])
        assert row["items_low"] == pytest.approx(row["items_high"])
        assert float(str(row["questions_low"])) < truth[number]
    assert all(row["decided"] and not row["outside"] for row in status["differences"])
    assert (status["more_judgments_low"], status["more_judgments_high"]) == (0, 0)
    assert "3 of 3 differences are decided\n" in shown(experiment, len(LABELS))


def test_a_metric_that_is_no_sum_is_said_not_to_be_estimated(experiment: Experiment) -> None:
    other = replace(experiment, primary=Metric("ndcg", 10))
    sample = sample_of(2 * N)
    status = label_status(other, sample, lines_of(sample), 10, None)
    assert any("ndcg@10 is not a sum over passages" in note for note in status["notes"])
    assert {row["metric"] for row in of_primary(status)} == {"dcg@10"}


def test_an_estimate_outside_of_its_interval_is_told(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_assets.labels.sampling import sample_stage
    from rag_assets.labels.sampling.confidence_sequence import decisions

    def shifted(*args: object, **named: object) -> object:
        found = decisions(*args, **named)  # type: ignore[arg-type]
        return {pair: one._replace(value=one.high + 1) for pair, one in found.items()}

    monkeypatch.setattr(sample_stage, "decisions", shifted)
    text = " ".join(shown(experiment, 4 * N).split())
    assert "the estimate lies outside the interval from earlier checks: s0 - s1" in text


def test_the_page_says_the_same(tmp_path: Path, experiment: Experiment) -> None:
    session = session_of(tmp_path / "labelling.jsonl")
    order = [session.pool.items[number] for number in session.design.order()]
    answers = [drawn_line(item, n % 3) for n, item in enumerate(order[:6])]
    append_lines(session.log, answers)
    metric = Metric("dcg", 4)
    page = session.standing()
    sample, lines = session.sample()
    status = label_status(replace(experiment, primary=metric), sample, lines, 4, None)
    own = [row for row in status["estimates"] if row["metric"] == "dcg@4"]
    assert list(page["estimates"]) == own
    for name in ("differences", "targets", "more_judgments_low", "more_judgments_high"):
        assert page[name] == status[name]
    assert page["price"] in status["notes"]
