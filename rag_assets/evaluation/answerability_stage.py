"""``answerability``: whether a retriever's best score tells queries that have no answer.

AUROC is the share of the pairs of an answerable and an unanswerable query in which the answerable
one scores higher, a tie counting one half (Hanley and McNeil, Radiology 143, 1982). A query is
answered when its best score is at least the threshold: the observed score with the largest Youden's
J = coverage + rejected - 1 (Cancer 3, 1950); of several, the lowest. A query without hits scores
below every other and is never answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.query_facts import DEV, TEST, answerable_queries
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import ANSWERABILITY, column_values
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey


class Answerability(Stage):
    """How well a retriever's best score detects queries without an answer.

    It has no partitions: no mapping of Dagster leads from the cells of one family to a retriever.
    It has no rows where no query is said to be unanswerable, and none of a retriever whose scores
    cannot be compared between queries. A query without labels, or that failed, is not counted.
    """

    name = "answerability"
    made_for = "judged_retrievers"
    schema = ANSWERABILITY
    row = "One retriever and split: how well its best score detects the unanswerable queries."
    group = "metrics"

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        types = dict.fromkeys(type(config) for config in experiment.retrievers.values())
        return [root_of(config, "compares_queries") for config in types]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        runs = [
            Input(f"run_of_{name}", _run_key(experiment, name), optional=True)
            for name in experiment.retrievers
        ]
        facts = Input("query_facts", QUERY_FACTS_KEY, "answerable")
        return [*runs, Input("qrels", QRELS_KEY), facts]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"retrievers": list(_compared(context.experiment))}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        facts = context.artifact(QUERY_FACTS_KEY).table()
        labelled = answerable_queries(facts, context.artifact(QRELS_KEY).table())
        split_of = dict(column_values(facts, "query_id", "split"))
        tables = [ANSWERABILITY.empty()]
        for name in _compared(context.experiment):
            artifact = context.current(_run_key(context.experiment, name))
            if artifact is None:
                continue
            run = artifact.table()
            scores = run["score"].to_numpy()
            if len(scores) and np.array_equal(scores, 1 / run["rank"].to_numpy()):
                continue  # it came without scores
            first = run.filter(pc.equal(run["rank"], 1))
            best: dict[str, float] = dict(column_values(first, "query_id", "score"))
            failed = artifact.manifest.failures
            splits: dict[str, list[Query]] = {}
            for query_id, answerable in labelled.items():
                if answerable is not None and query_id not in failed:
                    query = Query(best.get(query_id), answerable)
                    splits.setdefault(split_of[query_id], []).append(query)
            tables.append(answerability(name, splits))
        return TableProduct(pa.concat_tables(tables).combine_chunks())


def _run_key(experiment: Experiment, retriever: str) -> ArtifactKey:
    """Return the cell at the primary cut-off; but for fusions, all have the same first unit."""
    return run_key(experiment, retriever, experiment.primary.cutoff or max(experiment.top_k))


def _compared(experiment: Experiment) -> tuple[str, ...]:
    """Return the retrievers whose best scores differ between queries, by name."""
    configs = experiment.retrievers.items()
    return tuple(sorted(name for name, config in configs if config.compares_queries))


class Query(NamedTuple):
    """The best score of a query (None: nothing was retrieved), and whether it is answerable."""

    score: float | None
    answerable: bool


def answerability(retriever: str, splits: Mapping[str, Sequence[Query]]) -> pa.Table:
    """Return how well the best score of a retriever tells unanswerable queries, a row a split.

    The threshold of ``test`` is the one chosen on ``dev`` where there is one; that of any other
    split is chosen on the split itself, and flatters it. Without rows when the queries are all
    answerable, or none is. What needs both kinds is null in a split that lacks one, and what needs
    a threshold where there is none.
    """
    kinds = {query.answerable for queries in splits.values() for query in queries}
    rows: list[dict[str, object]] = []
    for name in sorted(splits) if len(kinds) > 1 else ():
        source = DEV if name == TEST and DEV in splits else name
        threshold = _threshold(*_scores(splits[source]))
        answerable, unanswerable = _scores(splits[name])
        row: dict[str, object] = {
            "retriever": retriever,
            "split": name,
            "n_answerable": len(answerable),
            "n_unanswerable": len(unanswerable),
            "auroc": _auroc(answerable, unanswerable),
            "threshold": threshold,
            "threshold_from": source,
        }
        if threshold is not None and len(answerable):
            row["coverage"] = float(np.mean(answerable >= threshold))
        if threshold is not None and len(unanswerable):
            row["rejected"] = float(np.mean(unanswerable < threshold))
        rows.append(row)
    return ANSWERABILITY.from_rows(rows)


def _scores(queries: Sequence[Query]) -> tuple[np.ndarray, np.ndarray]:
    scores = np.array([-np.inf if q.score is None else q.score for q in queries], np.float64)
    answerable = np.array([query.answerable for query in queries], bool)
    return scores[answerable], scores[~answerable]


def _auroc(answerable: np.ndarray, unanswerable: np.ndarray) -> float | None:
    """Count, for each answerable query, the unanswerable ones below it and, by half, its equals."""
    if not len(answerable) or not len(unanswerable):
        return None
    ordered = np.sort(unanswerable)
    below = np.searchsorted(ordered, answerable, side="left")
    not_above = np.searchsorted(ordered, answerable, side="right")
    return float((below + not_above).sum() / (2 * len(answerable) * len(unanswerable)))


def _threshold(answerable: np.ndarray, unanswerable: np.ndarray) -> float | None:
    """Return the lowest observed score with the largest J; None without both kinds, or scores."""
    scores = np.unique(np.concatenate([answerable, unanswerable]))
    candidates = scores[np.isfinite(scores)]
    if not len(answerable) or not len(unanswerable) or not len(candidates):
        return None
    dropped = np.searchsorted(np.sort(answerable), candidates, side="left")
    rejected = np.searchsorted(np.sort(unanswerable), candidates, side="left")
    # Whole numbers, so that equal values of J are equal: J times both counts, but for a constant.
    gains = rejected * len(answerable) - dropped * len(unanswerable)
    return float(candidates[np.argmax(gains)])
