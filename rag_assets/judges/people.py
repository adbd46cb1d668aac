"""What people are asked about the work of judges, and a judge beside their labels.

Of answers people's labels are those of ``answer_labels``; a blank or failed answer is wrong without
being asked about, and has no part here. Of passages they are labels of passages, else the qrels: a
document is as relevant as its best passage, and what people did not judge has no part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.contexts_stage import passages_key
from rag_assets.answers.stage import answers_key
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.query_facts import TEST
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, resampling_of
from rag_assets.judges.answer_labels import AskedAnswer, drawn_so_far, needs_person
from rag_assets.judges.base import HIGHEST, RELEVANCE
from rag_assets.judges.calibration import LABEL, VERDICT, questions_with_golds
from rag_assets.judges.calibration_stage import cutoff_of, judged_passages, judged_tables
from rag_assets.judges.trials import POSITIVE
from rag_assets.labels.logs import read_judgments
from rag_assets.labels.pool import PooledUnit, label_pool
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from rag_assets.statistics.agreement import agreement, order_agreement
from rag_assets.statistics.units import Resampling
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import permanent_hash

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
