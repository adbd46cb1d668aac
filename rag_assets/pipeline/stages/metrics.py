"""``metrics``, ``metrics_summary`` and ``leaderboard``: from runs and judgments to numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from rag_assets.evaluation.answer_hits import MEASURES as ANSWER_MEASURES
from rag_assets.evaluation.answer_hits import answer_hits
from rag_assets.evaluation.context_tokens import context_tokens
from rag_assets.evaluation.contexts import context_column
from rag_assets.evaluation.leaderboard import leaderboard
from rag_assets.evaluation.metrics import Cell, query_metrics
from rag_assets.evaluation.summary import summarise
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stage import Input, Stage, TableProduct
from rag_assets.pipeline.stages.contexts import document_texts, retriever_contexts_key
from rag_assets.pipeline.stages.judgments import judgments_key
from rag_assets.pipeline.stages.query_answers import answers_input, answers_of
from rag_assets.pipeline.stages.runs import run_key
from rag_assets.pipeline.stages.sources import QUERIES_KEY
from rag_assets.schemas import LEADERBOARD, METRICS_SUMMARY, QUERY_METRICS
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

LEADERBOARD_KEY = ArtifactKey.of("leaderboard")


class Metrics(Stage):
    """One partition a retriever and top_k; all that is missing is one SQL statement."""

    name = "metrics"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = QUERY_METRICS
    row = "One query of one retriever at one top_k: every metric of its run."
    group = "metrics"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})
    code_version = "2"
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.evaluation.answer_hits",
        "rag_assets.evaluation.answer_text",
        "rag_assets.evaluation.context_tokens",
        "rag_assets.evaluation.returned_texts",
        "rag_assets.pipeline.stages.query_answers",
        "rag_assets.evaluation.metrics",
        "rag_assets.evaluation.metric_names",
    )
    batched = True

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        retrievers = experiment.retrievers if experiment.has_qrels else ()
        return [
            metrics_key(retriever, top_k) for retriever in retrievers for top_k in experiment.top_k
        ]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        # The digest of all contexts is also of their texts, so it stands for the documents.
        answers = _measures_answers(experiment, int(key["top_k"]))
        contexts = retriever_contexts_key(key["retriever"])
        # An edge of the graph exists for all cells or for none.
        any_answers = any(_measures_answers(experiment, top_k) for top_k in experiment.top_k)
        return [
            Input("run", run_key(experiment, key["retriever"], key["top_k"])),
            Input("judgments", judgments_key(key["retriever"])),
            Input("queries", QUERIES_KEY, "ids"),
            Input("contexts", contexts, "all" if answers else "tokens"),
            *([answers_input()] if any_answers else []),
        ]

    def config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        return {
            "top_k": int(key["top_k"]),
            "metrics": list(pipeline.experiment.measures_at(int(key["top_k"]))),
        }

    def versions(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, str]:
        return {"duckdb": version("duckdb")}

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        experiment = pipeline.experiment
        names = {key: f"{key['retriever']}|{key['top_k']}" for key in keys}
        runs, judged_by, judged = {}, {}, {}
        for key, name in names.items():
            run = run_key(experiment, key["retriever"], key["top_k"])
            runs[name] = pipeline.artifact(run).table()
            judged_by[name] = key["retriever"]
            judged[key["retriever"]] = judgments_key(key["retriever"])
        tables = query_metrics(
            runs,
            {name: pipeline.artifact(item).table() for name, item in judged.items()},
            judged_by,
            pipeline.artifact(QUERIES_KEY).table(),
            [(name, int(key["top_k"])) for key, name in names.items()],
        )
        for cell, column, values in _context_columns(pipeline, names, runs, judged_by):
            others = [other for other in tables[cell].column_names if other != column]
            tables[cell] = tables[cell].select(others).append_column(column, values)
        for key, name in names.items():
            top_k = int(key["top_k"])
            counts = list(QUERY_METRICS.arrow().names)
            columns = [*counts, *experiment.measures_at(top_k)]
            yield key, TableProduct(tables[name, top_k].select(columns))


def _measures_answers(experiment: Experiment, top_k: int) -> bool:
    return any(name in ANSWER_MEASURES for name in experiment.measures_at(top_k))


def _context_columns(
    pipeline: Pipeline,
    names: Mapping[ArtifactKey, str],
    runs: Mapping[str, pa.Table],
    read_by: Mapping[str, str],
) -> Iterator[tuple[Cell, str, pa.ChunkedArray]]:
    """Yield (cell, column, values in the order of query ids) for tokens and answer_hit."""
    column = context_column(pipeline.experiment.judge)
    contexts = {
        name: pipeline.artifact(retriever_contexts_key(name)).table()
        for name in dict.fromkeys(read_by.values())
    }
    queries = pipeline.artifact(QUERIES_KEY).table()
    cells = [(name, int(key["top_k"])) for key, name in names.items()]
    tokens = context_tokens(runs, contexts, read_by, queries, cells, column=column)
    for cell, table in tokens.items():
        yield cell, "tokens", table["tokens"]
    asked = [cell for cell in cells if _measures_answers(pipeline.experiment, cell[1])]
    if not asked:
        return
    hits = answer_hits(
        {name: runs[name] for name, _ in asked},
        contexts,
        read_by,
        queries,
        asked,
        column=column,
        documents=document_texts(pipeline),
        answers=answers_of(pipeline),
    )
    for cell, table in hits.items():
        yield cell, "answer_hit", table["answer_hit"]


class MetricsSummary(Stage):
    """One partition a retriever; over those of its cells that are up to date."""

    name = "metrics_summary"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = METRICS_SUMMARY
    row = "One top_k of one retriever: the mean of every metric, and how many queries it is over."
    group = "metrics"
    code_version = "2"
    implementation: ClassVar[tuple[str, ...]] = ("rag_assets.evaluation.summary",)

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.retrievers if experiment.has_qrels else ()
        return [summary_key(name) for name in names]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input(f"top_k_{top_k}", metrics_key(key["retriever"], top_k), optional=True)
            for top_k in experiment.top_k
        ]

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        experiment = pipeline.experiment
        for key in keys:
            cells = {}
            for top_k in experiment.top_k:
                artifact = pipeline.current(metrics_key(key["retriever"], top_k))
                if artifact is not None:
                    cells[top_k] = artifact.table()
            measures = {top_k: experiment.measures_at(top_k) for top_k in cells}
            yield key, TableProduct(summarise(cells, measures))


class Leaderboard(Stage):
    """All up-to-date cells; holds the retrievers' names, as only overlaps do besides."""

    name = "leaderboard"
    schema = LEADERBOARD
    row = "One retriever at one top_k, placed by the primary metric."
    group = "leaderboard"
    code_version = "1"
    implementation: ClassVar[tuple[str, ...]] = ("rag_assets.evaluation.leaderboard",)

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [LEADERBOARD_KEY] if experiment.has_qrels else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input(f"summary_of_{name}", summary_key(name), optional=True)
            for name in experiment.retrievers
        ]

    def config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        return {"primary": str(pipeline.experiment.primary)}

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        summaries = {}
        for name in pipeline.experiment.retrievers:
            artifact = pipeline.current(summary_key(name))
            if artifact is not None and artifact.manifest.rows:
                summaries[name] = artifact.table()
        for key in keys:
            yield key, TableProduct(leaderboard(summaries, pipeline.experiment.primary))


def metrics_key(retriever: str, top_k: int | str) -> ArtifactKey:
    """Return the metrics of one cell."""
    return ArtifactKey.of("metrics", retriever=retriever, top_k=top_k)


def summary_key(retriever: str) -> ArtifactKey:
    """Return the summary of one retriever."""
    return ArtifactKey.of("metrics_summary", retriever=retriever)
