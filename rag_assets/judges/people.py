"""What people are asked about the work of judges, and a judge beside their labels.

Of answers people's labels are those of ``answer_labels``; a blank or failed answer is wrong without
being asked about, and has no part here. Of passages they are labels of passages, else the qrels: a
document is as relevant as its best passage, and what people did not judge has no part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rag_assets.answers.stage import answers_key
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.query_facts import TEST
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.judges.answer_labels import AskedAnswer, drawn_so_far, needs_person
from rag_assets.judges.base import HIGHEST, RELEVANCE
from rag_assets.judges.calibration import LABEL, VERDICT, questions_with_golds
from rag_assets.judges.calibration_stage import cutoff_of, judged_passages, judged_tables
from rag_assets.judges.trials import POSITIVE
from rag_assets.labels.logs import read_judgments
from rag_assets.labels.pool import PooledUnit, label_pool
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from rag_assets.statistics.agreement import agreement
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import permanent_hash

Row = dict[str, Any]

NO_LABELS = "no labels of people"

Place = tuple[str, str]
"""A question, and a document or an answer."""


class BesidePeople(NamedTuple):
    """A judge compared with people.

    Attributes:
        agreement: of their grades; None without a label.
        youden: sensitivity + specificity - 1: 0 for who guesses or says one thing only; None where
            people call all positive, or all negative.
    """

    agreement: Row | None
    youden: float | None


def beside_labels(pipeline: Pipeline, key: ArtifactKey) -> BesidePeople:
    """Compare with the labels of answers."""
    experiment = pipeline.experiment
    if not experiment.has_answer_labels:
        return BesidePeople(None, None)
    tables = judged_tables(pipeline, key["judge"])
    pairs = {
        (row["query_id"], row["answer"]): (row[LABEL], row[VERDICT])
        for table in tables.values()
        for row in table.to_pylist()
        if needs_person(row["answer"]) and row[LABEL] is not None
    }
    return _beside(list(pairs.values()), 2, 1, experiment.statistics.confidence)


def beside_passage_labels(pipeline: Pipeline, key: ArtifactKey) -> BesidePeople:
    """Compare with what people say of documents: labels of passages if there are, else qrels."""
    labels = _document_labels(pipeline)
    if not labels:
        return BesidePeople(None, None)
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
    return _beside(pairs, highest + 1, lowest, pipeline.experiment.statistics.confidence)


def _beside(
    pairs: Sequence[tuple[float, float | None]], n_grades: int, positive: int, level: float
) -> BesidePeople:
    """Return the agreement as a row, and Youden's J."""
    if not pairs:
        return BesidePeople(None, None)
    labels, verdicts = np.array(pairs, np.float64).T  # None is NaN
    found = agreement(labels, verdicts, n_grades=n_grades, positive_from=positive, level=level)
    shares = {name: getattr(found, name) for name in ("agreed", "sensitivity", "specificity")}
    plain = {name: share._asdict() for name, share in shares.items()}
    row = {**found._asdict(), "table": found.table.tolist(), **plain}
    sensitivity, specificity = found.sensitivity.value, found.specificity.value
    if sensitivity is None or specificity is None:
        return BesidePeople(row, None)
    return BesidePeople(row, sensitivity + specificity - 1)


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


def clusters_by_split(pipeline: Pipeline, *, passages: bool = False) -> dict[str, dict[str, str]]:
    """Return split -> question -> its cluster, of the questions that can be judged.

    Passages of all questions are judged; answers, where a right one is known.

    Raises:
        NotEvaluated: no question has a right answer.
    """
    facts = pipeline.artifact(QUERY_FACTS_KEY).table()
    judged = set(facts["query_id"].to_pylist()) if passages else questions_with_golds(facts)
    splits: dict[str, dict[str, str]] = {}
    for row in facts.select(["query_id", "weight", "split", "cluster"]).to_pylist():
        if row["weight"] and row["query_id"] in judged:
            splits.setdefault(row["split"], {})[row["query_id"]] = row["cluster"]
    if not splits:
        raise NotEvaluated("no question has a right answer, so no answer can be judged")
    return splits


def chosen_clusters(
    pipeline: Pipeline, split: str | None, *, passages: bool = False
) -> dict[str, str]:
    """Return question -> cluster of one split: test where there is one, when none is named.

    Raises:
        UsageError: there is no such split.
        NotEvaluated: no question has a right answer.
    """
    splits = clusters_by_split(pipeline, passages=passages)
    chosen = split or (TEST if TEST in splits else min(splits))
    if chosen not in splits:
        raise UsageError(f"unknown split {allowed_names(chosen, splits)}")
    return splits[chosen]


def probabilities(
    splits: Mapping[str, Mapping[str, str]], labelled: Collection[str]
) -> dict[str, float]:
    """Return question -> the chance with which it was drawn, of those drawn so far.

    ``splits`` are those of :func:`clusters_by_split`, ``labelled`` the questions with labels.
    """
    chances: dict[str, float] = {}
    for clusters in splits.values():
        drawn = drawn_so_far(clusters, labelled)
        share = len({clusters[name] for name in drawn}) / len(set(clusters.values()))
        chances |= dict.fromkeys(drawn, share)
    return chances


def asked_answers(pipeline: Pipeline, questions: Collection[str]) -> list[AskedAnswer]:
    """Return the answers of all answerers to some questions, question by question."""
    queries = pipeline.artifact(QUERIES_KEY).table().to_pylist()
    texts = {row["query_id"]: row["text"] for row in queries}
    facts = pipeline.artifact(QUERY_FACTS_KEY).table().to_pylist()
    golds = {row["query_id"]: tuple(row["answers"]) for row in facts}
    given: dict[str, dict[str, None]] = {query_id: {} for query_id in questions}
    for name in pipeline.experiment.answer_cells:
        for row in pipeline.artifact(answers_key(name)).table().to_pylist():
            if row["query_id"] in given and needs_person(row["answer"]):
                given[row["query_id"]][row["answer"]] = None
    return [
        AskedAnswer(query_id, texts[query_id], golds[query_id], answer)
        for query_id, answers in given.items()
        for answer in answers
    ]


def asked_passages(pipeline: Pipeline, questions: Sequence[str]) -> list[PooledUnit]:
    """Return the merged passages of some questions, of all retrievers, as deep as is judged.

    Raises:
        UsageError: no judge judges passages.
        MissingArtifact: a retriever is not up to date.
    """
    experiment = pipeline.experiment
    judges = experiment.judges_of(RELEVANCE)
    if not judges:
        raise UsageError(f"{experiment.source}: no judge judges relevance; add one to `judges`")
    k = max(cutoff_of(experiment, name) for name in judges)
    every = pipeline.artifact(QUERY_FACTS_KEY).table()["query_id"].to_pylist()
    items = label_pool(judged_passages(pipeline, k), sorted(every), k).items
    place = {query_id: number for number, query_id in enumerate(questions)}
    return sorted(
        (item for item in items if item.query_id in place),
        # by a hash, so that nothing tells who found a passage
        key=lambda item: (place[item[0]], permanent_hash(*item)),
    )
