"""A judge beside people: equal grades, and the order of systems.

Of answers people's labels are those of ``answer_labels``; a blank or failed answer is wrong without
being asked about, and has no part here. Of passages they are labels of passages, else the qrels: a
document is as relevant as its best passage, and what people did not judge has no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.contexts_stage import passages_key
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, resampling_of
from rag_assets.judges.answer_labels import needs_person
from rag_assets.judges.base import HIGHEST, RELEVANCE
from rag_assets.judges.calibration import LABEL, VERDICT
from rag_assets.judges.calibration_stage import judged_tables
from rag_assets.judges.trials import POSITIVE
from rag_assets.labels.sampling.judgment_log import read_judgments
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.agreement import agreement, order_agreement
from rag_assets.statistics.units import Resampling
from rag_assets.store.artifacts import ArtifactKey

Row = dict[str, Any]

MIN_QUESTIONS = 10
"""Labelled questions that an order of systems is told from."""

NO_LABELS = "no labels of people"

Place = tuple[str, str]
"""A question, and a document or an answer."""


class BesidePeople(NamedTuple):
    """A judge compared with people.

    Attributes:
        agreement: of their grades; None without a label.
        youden: sensitivity + specificity - 1: 0 for who guesses or says one thing only; None where
            people call all positive, or all negative.
        order: of the systems; None: too few systems or labelled questions.
    """

    agreement: Row | None
    youden: float | None
    order: Row | None


def beside_labels(pipeline: Pipeline, key: ArtifactKey) -> BesidePeople:
    """Compare with the labels of answers."""
    experiment = pipeline.experiment
    if not experiment.has_answer_labels:
        return BesidePeople(None, None, None)
    tables = judged_tables(pipeline, key["judge"])
    facts = pipeline.artifact(QUERY_FACTS_KEY).table().to_pylist()
    clusters = {row["query_id"]: row["cluster"] for row in facts if row["answers"]}
    resampling = resampling_of(experiment)
    pairs = {
        (row["query_id"], row["answer"]): (row[LABEL], row[VERDICT])
        for table in tables.values()
        for row in table.to_pylist()
        if needs_person(row["answer"]) and row[LABEL] is not None
    }
    return BesidePeople(
        *_agreement(list(pairs.values()), 2, 1, resampling.confidence),
        _order([_pairs(table) for table in tables.values()], clusters, resampling),
    )


def beside_passage_labels(pipeline: Pipeline, key: ArtifactKey) -> BesidePeople:
    """Compare with what people say of documents: labels of passages if there are, else qrels."""
    labels = _document_labels(pipeline)
    if not labels:
        return BesidePeople(None, None, None)
    verdicts: dict[Place, int | None] = {}
    for row in pipeline.artifact(key).table().to_pylist():
        place = (row["query_id"], row["document_id"])
        grades = [grade for grade in (verdicts.get(place), row["grade"]) if grade is not None]
        verdicts[place] = max(grades, default=None)
    # Where people only say 0 and 1, the judge's 2 and 3 count as 1.
    positive = POSITIVE[RELEVANCE]
    is_graded = max(labels.values()) > 1
    highest, lowest = (HIGHEST[RELEVANCE], positive) if is_graded else (1, 1)
    pairs = [
        (
            min(max(labels[place], 0), highest),
            grade if is_graded or grade is None else int(grade >= positive),
        )
        for place, grade in verdicts.items()
        if place in labels
    ]
    shares = []
    for places in _runs(pipeline, key):
        of_query: dict[str, list[tuple[bool, bool]]] = {}
        for place in places:
            grade = verdicts.get(place)
            if place in labels and grade is not None:
                pair = (labels[place] >= lowest, grade >= positive)
                of_query.setdefault(place[0], []).append(pair)
        shares.append({name: np.mean(pair, axis=0).tolist() for name, pair in of_query.items()})
    resampling = resampling_of(pipeline.experiment)
    agreed = _agreement(pairs, highest + 1, lowest, resampling.confidence)
    return BesidePeople(*agreed, _order(shares, None, resampling))


def _agreement(
    pairs: Sequence[tuple[float, float | None]], n_grades: int, positive: int, level: float
) -> tuple[Row | None, float | None]:
    """Return the agreement as a row, and Youden's J."""
    if not pairs:
        return None, None
    labels, verdicts = np.array(pairs, np.float64).T  # None is NaN
    found = agreement(labels, verdicts, n_grades=n_grades, positive_from=positive, level=level)
    shares = {name: getattr(found, name) for name in ("agreed", "sensitivity", "specificity")}
    plain = {name: share._asdict() for name, share in shares.items()}
    row = {**found._asdict(), "table": found.table.tolist(), **plain}
    sensitivity, specificity = found.sensitivity.value, found.specificity.value
    if sensitivity is None or specificity is None:
        return row, None
    return row, sensitivity + specificity - 1


def _order(
    systems: Sequence[Mapping[str, Sequence[float]]],
    clusters: Mapping[str, str] | None,
    resampling: Resampling,
) -> Row | None:
    """Compare the order of systems on the questions of which all have a value by both.

    A system has question -> its value by people and by the judge. Questions without a cluster have
    no part; without clusters each is its own.
    """
    names = set.intersection(*map(set, systems)) if systems else set()
    common = sorted(names if clusters is None else names & clusters.keys())
    if len(systems) < 2 or len(common) < MIN_QUESTIONS:
        return None
    people, judge = (
        np.array([[values[name][side] for values in systems] for name in common], np.float64)
        for side in (0, 1)
    )
    of_each = None if clusters is None else [clusters[name] for name in common]
    return order_agreement(people, judge, resampling, clusters=of_each)._asdict()


def _pairs(table: pa.Table) -> dict[str, tuple[float, float]]:
    """Return question -> label and verdict of an answerer, where there are both."""
    return {
        row["query_id"]: (row[LABEL], row[VERDICT])
        for row in table.to_pylist()
        if row[LABEL] is not None and row[VERDICT] is not None
    }


def _document_labels(pipeline: Pipeline) -> dict[Place, int]:
    experiment = pipeline.experiment
    grades: list[tuple[Place, int]] = [
        ((line.query_id, line.document_id), line.grade)
        for file in experiment.passage_label_files.values()
        for line in read_judgments(file)
        if line.grade is not None and not line.is_hint
    ]
    if not grades and experiment.has_qrels:
        rows = pipeline.artifact(QRELS_KEY).table().to_pylist()
        grades = [((row["query_id"], row["document_id"]), row["grade"]) for row in rows]
    labels: dict[Place, int] = {}
    for place, grade in grades:
        labels[place] = max(labels.get(place, 0), grade)
    return labels


def _runs(pipeline: Pipeline, key: ArtifactKey) -> list[set[Place]]:
    """Return the documents of each retriever's runs."""
    experiment = pipeline.experiment
    depth = experiment.judges[key["judge"]].depth
    runs: dict[str, set[Place]] = {name: set() for name in experiment.retrievers}
    for name, k in product(experiment.retrievers, experiment.judged_cutoffs):
        table = pipeline.artifact(passages_key(name, k)).table()
        table = table.filter(pc.less_equal(table["rank"], depth))
        columns = (table[column].to_pylist() for column in ("query_id", "document_id"))
        runs[name].update(zip(*columns, strict=True))
    return list(runs.values())
