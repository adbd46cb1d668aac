"""Answers to questions of SQuAD: the official script, and a difference of published systems."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.analysis.metric_sources import drop_test
from rag_assets.answers.stage import answer_metrics_key, answers_key
from rag_assets.answers.summary_stage import ANSWER_COMPARISONS_KEY, ANSWER_SUMMARY_KEY
from rag_assets.evaluation.dialects.squad_v2_official import official_scores, read_golds
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, counting_of
from rag_assets.experiment import load_experiment
from rag_assets.judges.base import CORRECTNESS
from rag_assets.judges.calibration import (
    Sample,
    estimated_row,
    judged_answers,
    questions_with_golds,
)
from rag_assets.judges.verdicts_stage import verdicts_key
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.schemas import ANSWER_LABELS
from rag_assets.statistics.calibration import calibrated_difference
from rag_assets.statistics.units import splits_counted
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.settings import StoreSettings

SharedData = Callable[[str], Path]

SYSTEMS = ("nlnet", "bert")
MEASURED = ("documents", "queries", "qrels", "query_facts", "answers", "answer_metrics")
COMPARED = ("answer_summary", "answer_comparisons")
MORE_RIGHT = {"nlnet": 2, "bert": 0}
"""Questions whose answers refuse in words: right for us, wrong for the script."""


def published(
    folder: Path, shared_data: SharedData, stages: Sequence[str], **more: Any
) -> Pipeline:
    """The answers of two systems to SQuAD's questions, up to some stages; no retriever runs."""
    predictions = shared_data("squad_predictions")
    config = {
        "name": "squad_published_answers",
        "dataset": {
            "path": str(shared_data("squad_dev_v2") / "dev-v2.0.rebuilt.json"),
            "format": "squad",
        },
        "retrievers": {"bm25": {"type": "bm25", "analyzer": "english"}},
        "generators": {
            name: {"type": "file", "path": str(predictions / f"{name}.json")} for name in SYSTEMS
        },
        "answers": {name: {"generator": name} for name in SYSTEMS},
        "top_k": [1],
        **more,
    }
    (folder / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")
    made = Pipeline(load_experiment(folder), StoreSettings.resolve(folder / "store"))
    for stage in made.stages():
        if stage.name in stages:
            made.materialize(stage.name, stage.keys(made.experiment))
    return made


@pytest.fixture(scope="module")
def pipeline(shared_data: SharedData, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The experiment of docs/results.md, up to its answers."""
    folder, by = tmp_path_factory.mktemp("squad_answers"), {"cluster": "query.paragraph"}
    return published(folder, shared_data, (*MEASURED, *COMPARED), statistics=by)


def rows(pipeline: Pipeline, key: ArtifactKey) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pipeline.artifact(key).table().to_pylist()
    return found


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("system", SYSTEMS)
def test_question_by_question_as_the_script_says(
    pipeline: Pipeline, shared_data: SharedData, system: str
) -> None:
    golds = read_golds(shared_data("squad_dev_v2") / "dev-v2.0.rebuilt.json")
    given = {r["query_id"]: r["answer"] for r in rows(pipeline, answers_key(f"{system}@-"))}
    script = official_scores(golds, given)
    ours = rows(pipeline, answer_metrics_key(f"{system}@-"))
    differ = [
        row["query_id"]
        for row in ours
        if (row["answer_em"], row["answer_f1"]) != script.per_question[row["query_id"]]
    ]
    assert len(ours) == 11873
    assert len(differ) == MORE_RIGHT[system]
    means = {
        (row["questions"], row["metric"]): row["mean"]
        for row in rows(pipeline, ANSWER_SUMMARY_KEY)
        if row["answerer"] == system
    }
    more = 100 * MORE_RIGHT[system]
    values = script.values
    for name, metric in (("exact", "answer_em"), ("f1", "answer_f1")):
        for prefix, group, n, own in (
            ("", "all", 11873, more),
            ("HasAns_", "answerable", 5928, 0),
            ("NoAns_", "unanswerable", 5945, more),
        ):
            official = values[f"{prefix}{name}"]
            assert official is not None
            assert 100 * means[group, metric] == pytest.approx(official + own / n, abs=1e-9)


@pytest.mark.slow
@pytest.mark.real_data
def test_bert_is_better_than_nlnet(pipeline: Pipeline) -> None:
    """The differences of docs/results.md, whole paragraphs drawn."""
    found = {row["metric"]: row for row in rows(pipeline, ANSWER_COMPARISONS_KEY)}
    expected = {"answer_em": (0.0290, 0.021, 0.037), "answer_f1": (0.0298, 0.022, 0.037)}
    for metric, (difference, low, high) in expected.items():
        row = found[metric]
        assert (row["answerer_a"], row["answerer_b"]) == ("nlnet@-", "bert@-")
        assert row["difference"] == pytest.approx(difference, abs=5e-5)
        assert (row["low"], row["high"]) == (
            pytest.approx(low, abs=1e-3),
            pytest.approx(high, abs=1e-3),
        )
        assert (row["n"], row["n_clusters"]) == (11873, 1204)
        assert row["p_adjusted"] < 0.001


DRAWS = 400
N_LABELS = 200


@pytest.mark.real_data
def test_the_difference_of_two_published_systems(shared_data: SharedData, tmp_path: Path) -> None:
    """BERT against nlnet, 200 labelled questions: covered, and found far more often."""
    judges = {"floor": {"type": "words", "judges": ["correctness"]}}
    pipeline = published(tmp_path, shared_data, (*MEASURED, "answer_verdicts"), judges=judges)
    questions = questions_with_golds(pipeline.artifact(QUERY_FACTS_KEY).table())
    counting = counting_of(lambda key: pipeline.artifact(key).table())
    (counted,) = splits_counted(counting, questions)
    assert len(counted.query_ids) == 5928
    verdicts = pipeline.artifact(verdicts_key(CORRECTNESS, "floor")).table()
    label, verdict = np.zeros((2, 2, 5928))
    for number, name in enumerate(SYSTEMS):
        metrics = pipeline.artifact(answer_metrics_key(f"{name}@-")).table()
        label[number] = counted.values(metrics, "answer_em")
        own = pipeline.artifact(answers_key(f"{name}@-")).table()
        verdict[number] = counted.values(
            judged_answers(own, verdicts, ANSWER_LABELS.empty()), "verdict"
        )
    truth = float((label[1] - label[0]).mean())
    assert truth == pytest.approx((4393 - 4127) / 5928)
    random = np.random.default_rng(3)
    nowhere = np.zeros(5928, np.bool_)
    covered, found, alone = 0, 0, 0
    for _ in range(DRAWS):
        drawn = nowhere.copy()
        drawn[random.choice(5928, N_LABELS, replace=False)] = True
        row = estimated_row(
            calibrated_difference,
            Sample(counted, drawn),
            verdict[0] - verdict[1],
            label[0] - label[1],
            nowhere,
            0.95,
        )
        # Without an interval nothing is said, so nothing is covered.
        covered += row["low"] is not None and row["low"] <= -truth <= row["high"]
        found += row["low"] is not None and row["high"] < 0
        alone += row["human_low"] is not None and row["human_high"] < 0
        assert (drop_test(row)[0] < 0.025) == (row["low"] is not None and row["high"] < 0)
    assert covered / DRAWS >= 0.93
    assert found >= 1.3 * alone
