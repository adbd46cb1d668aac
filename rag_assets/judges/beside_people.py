"""A judge's verdicts compared with people's labels, on answers and passages."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow.compute as pc

from rag_assets.answers.contexts_stage import passages_key
from rag_assets.answers.generators import LlmGenerator
from rag_assets.answers.stage import answers_key, generator_of
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, resampling_of
from rag_assets.judges.calibration import judged_answers
from rag_assets.judges.calibration_stage import ANSWER_LABELS_KEY
from rag_assets.judges.circularity import family
from rag_assets.judges.judge_agreement import (
    Place,
    answer_agreement,
    answer_order,
    document_agreement,
    document_order,
    kindness,
)
from rag_assets.judges.llm import LlmJudge
from rag_assets.labels.sampling.judgment_log import read_judgments
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.agreement import Agreement, OrderAgreement
from rag_assets.store.artifacts import ArtifactKey

Row = dict[str, Any]

Beside = tuple[Agreement | None, OrderAgreement | None, Row]
"""Agreement and order of systems, None without labels; kindness to its family, or a reason."""

NO_LABELS = "no labels of people"


def beside_labels(pipeline: Pipeline, key: ArtifactKey) -> Beside:
    """Compare with the labels of answers."""
    experiment = pipeline.experiment
    if not experiment.has_answer_labels:
        return None, None, {"reason": NO_LABELS}
    labels = pipeline.artifact(ANSWER_LABELS_KEY).table()
    verdicts = pipeline.artifact(key).table()
    tables = {
        name: judged_answers(pipeline.artifact(answers_key(name)).table(), verdicts, labels)
        for name in experiment.answer_cells
    }
    facts = pipeline.artifact(QUERY_FACTS_KEY).table().to_pylist()
    clusters = {row["query_id"]: row["cluster"] for row in facts if row["answers"]}
    resampling = resampling_of(experiment)
    kind = kindness(tables, _relatives(pipeline, key), clusters, resampling.confidence)
    preference = (
        {"reason": kind}
        if isinstance(kind, str)
        else dict(zip(("value", "low", "high", "n"), kind, strict=True))
    )
    found = answer_agreement(tables.values(), resampling.confidence)
    return found, answer_order(tables, clusters, resampling), preference


def beside_passage_labels(pipeline: Pipeline, key: ArtifactKey) -> Beside:
    """Compare with what people say of documents: labels of passages if there are, else qrels."""
    nothing: Row = {"reason": "passages have no author among the models"}
    labels = _document_labels(pipeline)
    if not labels:
        return None, None, nothing
    verdicts: dict[Place, int | None] = {}
    for row in pipeline.artifact(key).table().to_pylist():
        place = (row["query_id"], row["document_id"])
        grades = [one for one in (verdicts.get(place), row["grade"]) if one is not None]
        verdicts[place] = max(grades, default=None)
    resampling = resampling_of(pipeline.experiment)
    order = document_order(_runs(pipeline, key), labels, verdicts, resampling)
    return document_agreement(labels, verdicts, resampling.confidence), order, nothing


def _document_labels(pipeline: Pipeline) -> dict[Place, int]:
    experiment = pipeline.experiment
    grades: list[tuple[Place, int]] = [
        ((one.item.query_id, one.item.document_id), one.grade)
        for file in experiment.passage_label_files.values()
        for one in read_judgments(file)
        if one.grade is not None and not one.is_hint
    ]
    if not grades and experiment.has_qrels:
        rows = pipeline.artifact(QRELS_KEY).table().to_pylist()
        grades = [((row["query_id"], row["document_id"]), row["grade"]) for row in rows]
    labels: dict[Place, int] = {}
    for place, grade in grades:
        labels[place] = max(labels.get(place, 0), grade)
    return labels


def _relatives(pipeline: Pipeline, key: ArtifactKey) -> list[str]:
    """Return the answerers whose generator's model is of the judge's family."""
    experiment = pipeline.experiment
    judge = experiment.judges[key["judge"]]
    own = experiment.language_model(judge.llm) if isinstance(judge, LlmJudge) else None
    if own is None:
        return []
    found = []
    for name in experiment.answer_cells:
        generator = generator_of(experiment, answers_key(name))
        llm = (
            experiment.language_model(generator.llm)
            if isinstance(generator, LlmGenerator)
            else None
        )
        if llm is not None and family(llm.identity()["model"]) == family(own.identity()["model"]):
            found.append(name)
    return found


def _runs(pipeline: Pipeline, key: ArtifactKey) -> dict[str, set[Place]]:
    experiment = pipeline.experiment
    depth = experiment.judges[key["judge"]].depth
    runs: dict[str, set[Place]] = {name: set() for name in experiment.retrievers}
    for name, k in product(experiment.retrievers, experiment.judged_cutoffs):
        table = pipeline.artifact(passages_key(name, k)).table()
        table = table.filter(pc.less_equal(table["rank"], depth))
        columns = (table[column].to_pylist() for column in ("query_id", "document_id"))
        runs[name].update(zip(*columns, strict=True))
    return runs
