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
    found: dict[str, dict[str, str]] = {}
    for row in facts.select(["query_id", "weight", "split", "cluster"]).to_pylist():
        if row["weight"] and row["query_id"] in judged:
            found.setdefault(row["split"], {})[row["query_id"]] = row["cluster"]
    if not found:
        raise NotEvaluated("no question has a right answer, so no answer can be judged")
    return found


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

    Args:
        splits: see :func:`clusters_by_split`.
        labelled: questions that have labels.
    """
    found: dict[str, float] = {}
    for clusters in splits.values():
        drawn = drawn_so_far(clusters, labelled)
        share = len({clusters[one] for one in drawn}) / len(set(clusters.values()))
        found |= dict.fromkeys(drawn, share)
    return found


def asked_answers(pipeline: Pipeline, questions: Collection[str]) -> list[AskedAnswer]:
    """Return the answers of all answerers to some questions, question by question.

    Raises:
        MissingArtifact: an answerer is not up to date.
    """
    queries = pipeline.artifact(QUERIES_KEY).table().select(["query_id", "text"])
    texts = dict(zip(*(column.to_pylist() for column in queries.columns), strict=True))
    facts = pipeline.artifact(QUERY_FACTS_KEY).table().select(["query_id", "answers"])
    golds = dict(zip(*(column.to_pylist() for column in facts.columns), strict=True))
    given: dict[str, dict[str, None]] = {query_id: {} for query_id in questions}
    for name in pipeline.experiment.answer_cells:
        table = pipeline.artifact(answers_key(name)).table().select(["query_id", "answer"])
        for query_id, answer in zip(*(c.to_pylist() for c in table.columns), strict=True):
            if query_id in given and needs_person(answer):
                given[query_id][answer] = None
    return [
        AskedAnswer(query_id, texts[query_id], tuple(golds[query_id]), answer)
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
        key=lambda one: (place[one.query_id], sha256("\0".join(map(str, one)).encode()).digest()),
    )
