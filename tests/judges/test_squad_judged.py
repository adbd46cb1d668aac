"""Published answers to SQuAD 2.0, the words judge, and official EM as what people say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rag_assets.answers.metrics_stage import answer_metrics_key
from rag_assets.answers.stage import answers_key
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, counting_of
from rag_assets.experiment import load_experiment
from rag_assets.judges.calibration import (
    Sample,
    estimated_row,
    judged_answers,
    questions_with_golds,
)
from rag_assets.judges.verdicts_stage import answer_verdicts_key
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.report.metric_sources import drop_test
from rag_assets.schemas import ANSWER_LABELS
from rag_assets.statistics.calibration import calibrated_difference
from rag_assets.statistics.units import splits_counted
from rag_assets.store.settings import StoreSettings

SharedData = Callable[[str], Path]

SYSTEMS = ("nlnet", "bert")
STAGES = ("documents", "queries", "qrels", "query_facts", "answers", "answer_metrics")
DRAWS = 400
N_LABELS = 200


@pytest.mark.real_data
def test_the_difference_of_two_published_systems(shared_data: SharedData, tmp_path: Path) -> None:
    """BERT against nlnet, 200 labelled questions: covered, and found far more often."""
    dev = shared_data("squad_dev_v2") / "dev-v2.0.rebuilt.json"
    predictions = shared_data("squad_predictions")
    config = {
        "name": "squad_judged",
        "dataset": {"path": str(dev), "format": "squad"},
        "retrievers": {"bm25": {"type": "bm25", "analyzer": "english"}},
        "generators": {
            name: {"type": "file", "path": str(predictions / f"{name}.json")} for name in SYSTEMS
        },
        "answers": {name: {"generator": name} for name in SYSTEMS},
        "judges": {"floor": {"type": "words", "judges": ["correctness"]}},
        "top_k": [1],
    }
    (tmp_path / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")
    pipeline = Pipeline(load_experiment(tmp_path), StoreSettings.resolve(tmp_path / "store"))
    for stage in pipeline.stages():
        if stage.name in (*STAGES, "answer_verdicts"):
            pipeline.materialize(stage.name, stage.keys(pipeline.experiment))
    questions = questions_with_golds(pipeline.artifact(QUERY_FACTS_KEY).table())
    counting = counting_of(lambda key: pipeline.artifact(key).table())
    (counted,) = splits_counted(counting, questions)
    assert len(counted.query_ids) == 5928
    verdicts = pipeline.artifact(answer_verdicts_key("floor")).table()
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
