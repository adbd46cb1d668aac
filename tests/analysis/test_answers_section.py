"""Sections of answers, attribution and labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from rag_assets.analysis.answers import answers, sentence_copiers
from rag_assets.analysis.attribution import (
    attribution_rows,
    attribution_sheet,
    lost_rows,
    waterfall_rows,
)
from rag_assets.analysis.label_health import label_status, status_sheets
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.evaluation.metric_names import Metric
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.logs import LoggedJudgment, append_lines
from rag_assets.labels.sampling import sample_stage
from rag_assets.labels.sampling.confidence_sequence import decisions
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.report.page.page import page
from rag_assets.sheets.terminal_table import sheets_view
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import CONFIG, with_answers
from tests.labels.page.served import session_of
from tests.labels.sampling.made_pool import DCG, asked, collection, design_of, drawn_line
from tests.shown_board import evaluated
from tests.tiny_experiment import JUDGMENTS, QUERIES, Tiny

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e[bold]"


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
    assert sentence_copiers(changed) == ["copied", "copied_gold"]


def values(result: EvaluationResult, answerer: str, metric: str) -> dict[str, float]:
    table = result.table(ArtifactKey.of("answer_metrics", answerer=answerer))
    pairs = zip(table["query_id"].to_pylist(), table[metric].to_pylist(), strict=True)
    return {query_id: value for query_id, value in pairs if value is not None}


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


def test_hostile_and_missing_answers_are_shown_as_they_are(
    result: EvaluationResult, tiny_result: EvaluationResult
) -> None:
    text = page(result, "x", has_explorer=True)
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert answers(tiny_result) is None
    assert waterfall_rows(tiny_result) == []


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
    assert attribution_sheet("x", dev).title == "x: where the evidences are, at top_k 1, dev"
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
    now = status_of(experiment, 4 * N)
    rows = of_primary(now)
    value_of = {row["retriever"]: row["value"] for row in rows}
    assert value_of == pytest.approx(want)
    assert [*value_of.values()] == sorted(value_of.values(), reverse=True)
    for row in rows:
        assert row["questions_low"] <= row["items_low"] < row["value"]
        assert row["value"] < row["items_high"] <= row["questions_high"]
    assert len(now["differences"]) == 3
    for row in now["differences"]:
        gap = value_of[row["retriever_a"]] - value_of[row["retriever_b"]]
        assert row["value"] == pytest.approx(gap)
        assert gap >= 0
        assert row["decided"] == (row["low"] > 0 or row["high"] < 0)
        assert row["outside"] == (not row["low"] <= gap <= row["high"])
        if not row["decided"]:
            judgments = [row[f"more_judgments_{end}"] for end in ("low", "high")]
            assert 1 <= judgments[0] <= judgments[1] <= len(LABELS) - 4 * N
            minutes = [np.ceil(one * SECONDS / 60) for one in judgments]
            assert [row["more_minutes_low"], row["more_minutes_high"]] == minutes


def test_with_all_judged_everything_is_decided(experiment: Experiment) -> None:
    status = status_of(experiment, len(LABELS))
    truth = POOL.weights(DCG) @ LABELS / N
    for row in of_primary(status):
        number = POOL.systems.index(row["retriever"])
        assert row["value"] == pytest.approx(truth[number])
        assert row["items_low"] == pytest.approx(row["items_high"])
        assert row["questions_low"] < truth[number]
    assert all(row["decided"] and not row["outside"] for row in status["differences"])
    assert (status["more_judgments_low"], status["more_judgments_high"]) == (0, 0)
    assert "3 of 3 differences are decided\n" in shown(experiment, len(LABELS))


def test_an_estimate_outside_of_its_interval_is_told(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(*args: object, **named: object) -> object:
        found = decisions(*args, **named)  # type: ignore[arg-type]
        return {pair: one._replace(value=one.high + 1) for pair, one in found.items()}

    monkeypatch.setattr(sample_stage, "decisions", shifted)
    text = " ".join(shown(experiment, 4 * N).split())
    assert "the estimate lies outside the interval from earlier checks: s0 - s1" in text


def test_the_page_says_the_same(tmp_path: Path, experiment: Experiment) -> None:
    session = session_of(tmp_path / "labelling.jsonl")
    order = [session.pool.items[number] for number in session.design.order()]
    append_lines(session.log, [drawn_line(item, n % 3) for n, item in enumerate(order[:6])])
    metric = Metric("dcg", 4)
    page = session.standing()
    sample, lines = session.sample()
    status = label_status(replace(experiment, primary=metric), sample, lines, 4, None)
    own = [row for row in status["estimates"] if row["metric"] == "dcg@4"]
    assert list(page["estimates"]) == own
    for name in ("differences", "targets", "more_judgments_low", "more_judgments_high"):
        assert page[name] == status[name]
    assert page["price"] in status["notes"]
