"""Answers and passages of drawn questions, which people are asked to judge."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256

from rag_assets.answers.stage import answers_key
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.query_facts import TEST
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.judges.answer_labels import AskedAnswer, drawn_so_far, needs_person
from rag_assets.judges.base import RELEVANCE
from rag_assets.judges.calibration import questions_with_golds
from rag_assets.judges.calibration_stage import cutoff_of, judged_passages
from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.labels.sampling.label_pool import label_pool
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import QUERIES_KEY


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
        key=lambda item: (place[item[0]], sha256("\0".join(map(str, item)).encode()).digest()),
    )
