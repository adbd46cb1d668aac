"""What people are asked about the work of judges: which questions, answers and passages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.query_facts import TEST
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, counting_of
from rag_assets.judges.answer_labels import drawn_so_far
from rag_assets.judges.base import RELEVANCE, CorrectnessItem
from rag_assets.judges.calibration import questions_with_golds
from rag_assets.judges.calibration_stage import cutoff_of, judged_passages
from rag_assets.judges.verdicts_stage import answers_in_words
from rag_assets.labels.pool import PooledUnit, label_pool
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.statistics.units import splits_counted
from rag_assets.store.canonical import permanent_hash


def clusters_by_split(pipeline: Pipeline, *, passages: bool = False) -> dict[str, dict[str, str]]:
    """Return split -> question -> its cluster, of the questions that can be judged.

    Passages of all questions are judged; answers, where a right one is known.

    Raises:
        NotEvaluated: no question has a right answer.
    """
    facts = pipeline.artifact(QUERY_FACTS_KEY).table()
    judged = set(facts["query_id"].to_pylist()) if passages else questions_with_golds(facts)
    splits = {
        counted.split: dict(zip(counted.query_ids, counted.clusters, strict=True))
        for counted in splits_counted(counting_of(lambda key: facts), judged)
    }
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


def asked_answers(pipeline: Pipeline, questions: Collection[str]) -> list[CorrectnessItem]:
    """Return the different answers of all answerers to some questions, question by question."""
    place = {query_id: number for number, query_id in enumerate(questions)}
    asked = (item for item in answers_in_words(pipeline) if item.query_id in place)
    return sorted(asked, key=lambda item: place[item.query_id])


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
