"""``answerability``: whether a retriever's best score tells queries that have no answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.failures import failures_of
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.answerability import Query, answerability, has_scores_of_ranks
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import ANSWERABILITY
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey

ANSWERABILITY_KEY = ArtifactKey.of("answerability")


class Answerability(Stage):
    """Over the cells of the primary metric's cut-off that are up to date.

    It has no partitions: no mapping of Dagster leads from the cells of one family to a retriever.
    It has no rows where all queries are answerable, which only the labels tell, and none of a
    retriever whose scores cannot be compared between queries. A query on which a retriever failed
    is not counted.
    """

    name = "answerability"
    schema = ANSWERABILITY
    row = "One retriever and split: how well its best score tells the unanswerable queries."
    group = "metrics"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [ANSWERABILITY_KEY] if experiment.has_qrels else []

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        types = dict.fromkeys(type(one) for one in experiment.retrievers.values())
        return [root_of(one, "compares_queries") for one in types]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        runs = [
            Input(f"run_of_{name}", _run_key(experiment, name), optional=True)
            for name in experiment.retrievers
        ]
        return [*runs, Input("qrels", QRELS_KEY), Input("query_facts", QUERY_FACTS_KEY, "means")]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"retrievers": list(_compared(context.experiment))}

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        qrels = context.artifact(QRELS_KEY).table()
        positive = qrels.filter(pc.greater(qrels["grade"], 0))
        answerable = set(positive["query_id"].to_pylist())
        facts = context.artifact(QUERY_FACTS_KEY).table().select(["query_id", "split"]).to_pylist()
        tables = [ANSWERABILITY.empty()]
        for name in _compared(context.experiment):
            run = context.current(_run_key(context.experiment, name))
            table = run.table() if run is not None else None
            if run is None or table is None or has_scores_of_ranks(table):
                continue
            best, failed = _best_scores(table), failures_of(run.manifest)
            splits: dict[str, list[Query]] = {}
            for fact in facts:
                query_id = fact["query_id"]
                if query_id not in failed:
                    query = Query(best.get(query_id), query_id in answerable)
                    splits.setdefault(fact["split"], []).append(query)
            tables.append(answerability(name, splits))
        for key in keys:
            yield key, TableProduct(pa.concat_tables(tables).combine_chunks())


def _run_key(experiment: Experiment, retriever: str) -> ArtifactKey:
    """Return the cell at the cut-off of the primary metric: every cell has the same first unit.

    Only that of a fusion of lists that are cut at top_k can differ.
    """
    return run_key(experiment, retriever, experiment.primary.cutoff or max(experiment.top_k))


def _compared(experiment: Experiment) -> tuple[str, ...]:
    """Return the retrievers whose best scores differ between queries, by name.

    By name, so that the order of the experiment's file computes nothing again.
    """
    retrievers = experiment.retrievers
    return tuple(sorted(name for name, own in retrievers.items() if own.compares_queries))


def _best_scores(run: pa.Table) -> dict[str, float]:
    first = run.filter(pc.equal(run["rank"], 1))
    return dict(zip(first["query_id"].to_pylist(), first["score"].to_pylist(), strict=True))
