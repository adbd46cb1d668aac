"""``metrics``, ``metrics_summary`` and ``leaderboard``: from runs and relevant units to numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import DuckDBStage, Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.contexts_stage import (
    document_texts,
    retriever_contexts_key,
    returned_contexts,
    spans_of,
    token_counts,
)
from rag_assets.evaluation.leaderboard import TOKENS, UNIT_TOKENS, leaderboard, summarise
from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.evaluation.metric_names import CONTEXT_MEASURES, Metric, needs_size, parse_metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import not_in_corpus, relevant_units_key
from rag_assets.evaluation.returned_texts import GoldAnswers, returned_texts, tokens_by_query
from rag_assets.evaluation.ties import TIES, with_ties
from rag_assets.evaluation.units import context_column
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.model_names import tokenizer_versions
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import LEADERBOARD, METRICS_SUMMARY, QUERY_METRICS
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import fingerprint

LEADERBOARD_KEY = ArtifactKey.of("leaderboard")

PERTURBED = "perturbed"
"""Key of the configuration: the retrievers that search perturbed queries."""


class Metrics(DuckDBStage):
    """Every metric of one run, query by query."""

    name = "metrics"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = QUERY_METRICS
    row = "One query of one retriever at one top_k: every metric of its run."
    group = "metrics"
    batched = True
    config_of_inputs: ClassVar[frozenset[str]] = frozenset({"failed", "ties"})

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.judged_retrievers
        return [metrics_key(name, top_k) for name in names for top_k in experiment.top_k]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        measures = {metric.measure for metric in _asked_metrics(experiment, [key])}
        return sorted(root_of(MEASURE_TYPES[name]) for name in measures if name in MEASURE_TYPES)

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        # The digest of all contexts is also of their texts, so it stands for the documents.
        contexts = retriever_contexts_key(key["retriever"])
        # An edge of the graph exists for all cells or for none.
        any_answers = any(_measures_answers(experiment, top_k) for top_k in experiment.top_k)
        return [
            Input("run", run_key(experiment, key["retriever"], key["top_k"])),
            Input("relevant_units", relevant_units_key(key["retriever"])),
            Input("queries", QUERIES_KEY, "ids"),
            Input("contexts", contexts),
            *([Input("answers", QUERY_FACTS_KEY, "answers")] if any_answers else []),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        run = context.current(run_key(context.experiment, key["retriever"], key["top_k"]))
        failed = sorted(run.manifest.failures) if run else []
        ties = run.manifest.facts.get(TIES) if run else None
        functions = context.experiment.function_versions
        return {
            "top_k": int(key["top_k"]),
            "metrics": list(context.experiment.measures_at(int(key["top_k"]))),
            **({"functions": functions} if functions else {}),
            **({"failed": failed} if failed else {}),
            # A digest: there may be as many as queries.
            **({"ties": fingerprint(ties)} if ties else {}),
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        tokenizer = context.experiment.config.context.tokenizer
        return {**super().versions(context, key), **tokenizer_versions(tokenizer)}

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        experiment = context.experiment
        cells = {key: (f"{key['retriever']}|{key['top_k']}", int(key["top_k"])) for key in keys}
        artifacts = {
            name: context.artifact(run_key(experiment, key["retriever"], top_k))
            for key, (name, top_k) in cells.items()
        }
        read_by = {name: key["retriever"] for key, (name, _) in cells.items()}
        asked, retrievers = _asked_metrics(experiment, keys), dict.fromkeys(read_by.values())
        queries, sizes = context.artifact(QUERIES_KEY).table(), dict[str, int]()
        if any(needs_size(metric.measure) for metric in asked):
            sizes = {n: _n_units(context, n) for n in retrievers if not experiment.located_of(n)}
        labels = {name: context.artifact(relevant_units_key(name)).file for name in retrievers}
        tables = query_metrics(
            {name: run.file for name, run in artifacts.items()},
            {str(file): file for file in labels.values()},  # retrievers may share them
            {name: str(labels[retriever]) for name, retriever in read_by.items()},
            queries,
            cells.values(),
            asked,
            {run: sizes[name] for run, name in read_by.items() if name in sizes},
            experiment.functions,
        )
        column, answers = context_column(experiment.judge), None
        runs = {key: artifacts[name].table() for key, (name, _) in cells.items()}
        returned = {
            name: returned_contexts(
                context, name, [run for key, run in runs.items() if key["retriever"] == name]
            )
            for name in retrievers
        }
        texts = {
            key: returned_texts(run, returned[key["retriever"]], column)
            for key, run in runs.items()
        }
        spans = {span for table in texts.values() for span in spans_of(table)}
        counts = token_counts(context, "returned texts", spans)
        if any(_measures_answers(experiment, top_k) for _, top_k in cells.values()):
            facts = context.artifact(QUERY_FACTS_KEY).table()
            answers = GoldAnswers(document_texts(context, (span[0] for span in spans)), facts)
        for key, cell in cells.items():
            run, table = artifacts[cell[0]], tables[cell]
            query_ids = table["query_id"].to_pylist()
            tokens, of_units = tokens_by_query(texts[key], counts, query_ids)
            table = table.drop_columns([TOKENS, UNIT_TOKENS]).append_column(TOKENS, tokens)
            table = table.append_column(UNIT_TOKENS, of_units)
            if answers is not None and _measures_answers(experiment, cell[1]):
                table = table.append_column("answer_hit", answers.hits(texts[key], query_ids))
            columns = [*QUERY_METRICS.arrow().names, *experiment.measures_at(cell[1])]
            failed = run.manifest.failures
            table = with_ties(table.select(columns), run.manifest.facts.get(TIES, {}))
            table = without_failed(table, failed)
            facts = {"n_failed": sum(table["failed"].to_pylist())} if failed else {}
            yield key, TableProduct(table, facts)


def _n_units(context: StageContext, retriever: str) -> int:
    """Return how many units a retriever could have returned."""
    unit = "document_id" if context.experiment.judge == "document" else "context_id"
    units = context.artifact(retriever_contexts_key(retriever)).table([unit])[unit]
    n_units: int = pc.count_distinct(units).as_py()
    return n_units


def _asked_metrics(experiment: Experiment, keys: Sequence[ArtifactKey]) -> list[Metric]:
    """Return the metrics of these cells."""
    columns = {column for key in keys for column in experiment.measures_at(int(key["top_k"]))}
    return [parse_metric(column) for column in sorted(columns)]


def _measures_answers(experiment: Experiment, top_k: int) -> bool:
    return any(name in CONTEXT_MEASURES for name in experiment.measures_at(top_k))


def cells_read(experiment: Experiment, retriever: str) -> list[Input]:
    """Return the metrics of all cells of a retriever as inputs; those that are there are read."""
    return [
        Input(f"top_k_{top_k}", metrics_key(retriever, top_k), optional=True)
        for top_k in experiment.top_k
    ]


def current_cells(context: StageContext, retriever: str) -> dict[int, pa.Table]:
    """Return top_k -> the metrics of those cells of a retriever that are up to date."""
    keys = {top_k: metrics_key(retriever, top_k) for top_k in context.experiment.top_k}
    cells = {top_k: context.current(key) for top_k, key in keys.items()}
    return {top_k: cell.table() for top_k, cell in cells.items() if cell is not None}


class MetricsSummary(Stage):
    """The mean of every metric of a retriever, by top_k and split."""

    name = "metrics_summary"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    made_for = "judged_retrievers"
    schema = METRICS_SUMMARY
    row = "One split and top_k of one retriever: the mean of every metric, and what it is over."
    group = "metrics"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        cells = cells_read(experiment, key["retriever"])
        facts = Input("query_facts", QUERY_FACTS_KEY, "answerable")
        labels = Input("qrels", QRELS_KEY)
        documents = Input("documents", DOCUMENTS_KEY, "ids")
        return [*cells, facts, labels, *([documents] if experiment.keeps_unknown else [])]

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        counting = context.artifact(QUERY_FACTS_KEY).table()
        qrels = context.artifact(QRELS_KEY).table()
        missing = {}
        if experiment.keeps_unknown:
            documents = context.artifact(DOCUMENTS_KEY).table(["document_id"])
            missing = not_in_corpus(qrels, documents)
        cells = current_cells(context, key["retriever"])
        measures = {top_k: experiment.measures_at(top_k) for top_k in cells}
        return TableProduct(summarise(cells, measures, counting, missing, qrels))


class Leaderboard(Stage):
    """All retrievers at every top_k, ranked by the primary metric."""

    name = "leaderboard"
    made_for = "judged_retrievers"
    schema = LEADERBOARD
    row = "One retriever at one top_k on one split, ranked by the primary metric."
    group = "metrics"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input(f"summary_of_{name}", summary_key(name), optional=True)
            for name in experiment.retrievers
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        unplaced = {"tuned": sorted(experiment.tuned), PERTURBED: experiment.perturbed}
        without = {why: names for why, names in unplaced.items() if names}
        return {"primary": str(experiment.primary), **without}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, summaries = context.experiment, {}
        for name in experiment.retrievers:
            artifact = context.current(summary_key(name))
            if artifact is not None and artifact.manifest.rows:
                summaries[name] = artifact.table()
        unplaced = experiment.tuned, experiment.perturbed
        return TableProduct(leaderboard(summaries, experiment.primary, *unplaced))


def metrics_key(retriever: str, top_k: int | str) -> ArtifactKey:
    """Return the metrics of one cell."""
    return ArtifactKey.of("metrics", retriever=retriever, top_k=top_k)


def summary_key(retriever: str) -> ArtifactKey:
    """Return the summary of one retriever."""
    return ArtifactKey.of("metrics_summary", retriever=retriever)


def without_failed(table: pa.Table, failed: Collection[str]) -> pa.Table:
    """Return query metrics in which all metrics of failed queries are null.

    A query for which nothing was retrieved, without a failure, keeps its zeros.
    """
    ids = pa.array(sorted(failed), pa.string())
    mask = pc.is_in(table.column("query_id"), value_set=ids)
    counts = QUERY_METRICS.arrow().names
    for number, name in enumerate(table.column_names):
        column = table.column(name)
        if name == "failed":
            table = table.set_column(number, name, mask)
        elif name not in counts:
            nulls = pa.nulls(table.num_rows, column.type)
            table = table.set_column(number, name, pc.if_else(mask, nulls, column))
    return table
