"""``metrics``, ``metrics_summary`` and ``leaderboard``: from runs and relevant units to numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.code_versions.closure import Root
from rag_assets.engine.failures import failures_of
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.answer_hits import MEASURES as ANSWER_MEASURES
from rag_assets.evaluation.answer_hits import answer_hits
from rag_assets.evaluation.contexts import context_column, context_tokens
from rag_assets.evaluation.contexts_stage import document_texts, retriever_contexts_key
from rag_assets.evaluation.families import all_metrics, family_code
from rag_assets.evaluation.leaderboard import leaderboard, summarise
from rag_assets.evaluation.metric_inputs import Cell
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import not_in_corpus, relevant_units_key
from rag_assets.evaluation.ties import TIES, with_ties
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import LEADERBOARD, METRICS_SUMMARY, QUERY_METRICS
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import fingerprint
from rag_assets.store.parquet_files import read_parquet

LEADERBOARD_KEY = ArtifactKey.of("leaderboard")
_OF_ANSWERS: Mapping[str, Callable[..., dict[Cell, pa.Table]]] = {"answer_hit": answer_hits}


class Metrics(Stage):
    """One partition a retriever and top_k; all that is missing is one SQL statement."""

    name = "metrics"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = QUERY_METRICS
    row = "One query of one retriever at one top_k: every metric of its run."
    group = "metrics"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})
    batched = True
    config_of_inputs: ClassVar[frozenset[str]] = frozenset({"failed", "ties"})
    packages: ClassVar[tuple[str, ...]] = ("duckdb",)

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        retrievers = experiment.retrievers if experiment.has_qrels else ()
        return [
            metrics_key(retriever, top_k) for retriever in retrievers for top_k in experiment.top_k
        ]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        answers = _measures_answers(experiment, int(key["top_k"]))
        return [
            *family_code(_asked_metrics(experiment, [key])),
            *answer_code(has_answers=answers),
        ]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        # The digest of all contexts is also of their texts, so it stands for the documents.
        answers = _measures_answers(experiment, int(key["top_k"]))
        contexts = retriever_contexts_key(key["retriever"])
        # An edge of the graph exists for all cells or for none.
        any_answers = any(_measures_answers(experiment, top_k) for top_k in experiment.top_k)
        return [
            Input("run", run_key(experiment, key["retriever"], key["top_k"])),
            Input("relevant_units", relevant_units_key(key["retriever"])),
            Input("queries", QUERIES_KEY, "ids"),
            Input("contexts", contexts, "all" if answers else "tokens"),
            *([Input("answers", QUERY_FACTS_KEY, "answers")] if any_answers else []),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        run = context.current(run_key(context.experiment, key["retriever"], key["top_k"]))
        failed = sorted(failures_of(run.manifest)) if run else []
        ties = run.manifest.facts.get(TIES) if run else None
        return {
            "top_k": int(key["top_k"]),
            "metrics": list(context.experiment.measures_at(int(key["top_k"]))),
            **({"failed": failed} if failed else {}),
            # A digest: there may be as many as queries.
            **({"ties": fingerprint(ties)} if ties else {}),
        }

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        experiment = context.experiment
        names = {key: f"{key['retriever']}|{key['top_k']}" for key in keys}
        runs, judged_by, judged = {}, {}, {}
        for key, name in names.items():
            run = run_key(experiment, key["retriever"], key["top_k"])
            runs[name] = context.artifact(run)
            judged_by[name] = key["retriever"]
            judged[key["retriever"]] = relevant_units_key(key["retriever"])
        cells = [(name, int(key["top_k"])) for key, name in names.items()]
        tables = all_metrics(
            {name: run.file for name, run in runs.items()},
            {name: context.artifact(item).file for name, item in judged.items()},
            judged_by,
            context.artifact(QUERIES_KEY).table(),
            cells,
            _asked_metrics(experiment, keys),
        )
        texts = {name: run.table() for name, run in runs.items()}
        answer_cells = [cell for cell in cells if _measures_answers(experiment, cell[1])]
        for cell, column, values in _context_columns(
            context, texts, judged_by, cells, answer_cells
        ):
            others = [other for other in tables[cell].column_names if other != column]
            tables[cell] = tables[cell].select(others).append_column(column, values)
        for key, name in names.items():
            top_k = int(key["top_k"])
            counts = list(QUERY_METRICS.arrow().names)
            columns = [*counts, *experiment.measures_at(top_k)]
            failed = _failures(context, key)
            ties = runs[name].manifest.facts.get(TIES, {})
            table = with_ties(tables[name, top_k].select(columns), ties)
            table = without_failed(table, failed)
            facts = {"n_failed": sum(table.column("failed").to_pylist())}
            yield key, TableProduct(table, facts if failed else {})


def _asked_metrics(experiment: Experiment, keys: Sequence[ArtifactKey]) -> list[Metric]:
    """Return the metrics of these cells."""
    cutoffs = {int(key["top_k"]) for key in keys}
    columns = {column for top_k in cutoffs for column in experiment.measures_at(top_k)}
    return [parse_metric(column) for column in sorted(columns)]


def _measures_answers(experiment: Experiment, top_k: int) -> bool:
    return any(name in ANSWER_MEASURES for name in experiment.measures_at(top_k))


def cells_read(experiment: Experiment, retriever: str) -> list[Input]:
    """Return the metrics of all cells of a retriever as inputs; those that are there are read."""
    return [
        Input(f"top_k_{top_k}", metrics_key(retriever, top_k), optional=True)
        for top_k in experiment.top_k
    ]


class MetricsSummary(Stage):
    """One partition a retriever; over those of its cells that are up to date, by split."""

    name = "metrics_summary"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = METRICS_SUMMARY
    row = "One split and top_k of one retriever: the mean of every metric, and what it is over."
    group = "metrics"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.retrievers if experiment.has_qrels else ()
        return [summary_key(name) for name in names]

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
        missing = _not_in_corpus(context, qrels) if experiment.keeps_unknown else {}
        cells = {}
        for top_k in experiment.top_k:
            artifact = context.current(metrics_key(key["retriever"], top_k))
            if artifact is not None:
                cells[top_k] = artifact.table()
        measures = {top_k: experiment.measures_at(top_k) for top_k in cells}
        return TableProduct(summarise(cells, measures, counting, missing, qrels))


class Leaderboard(Stage):
    """All up-to-date cells; holds the retrievers' names, as only overlaps do besides."""

    name = "leaderboard"
    schema = LEADERBOARD
    row = "One retriever at one top_k on one split, placed by the primary metric."
    group = "metrics"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [LEADERBOARD_KEY] if experiment.has_qrels else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input(f"summary_of_{name}", summary_key(name), optional=True)
            for name in experiment.retrievers
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        tuned = sorted(context.experiment.tuned)
        return {"primary": str(context.experiment.primary), **({"tuned": tuned} if tuned else {})}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, summaries = context.experiment, {}
        for name in experiment.retrievers:
            artifact = context.current(summary_key(name))
            if artifact is not None and artifact.manifest.rows:
                summaries[name] = artifact.table()
        board = leaderboard(summaries, experiment.primary, experiment.tuned)
        return TableProduct(board)


def _failures(context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
    """Return the queries on which the retriever of a cell failed, each with the reason."""
    run = context.artifact(run_key(context.experiment, key["retriever"], key["top_k"]))
    return failures_of(run.manifest)


def _not_in_corpus(context: StageContext, qrels: pa.Table) -> dict[str, int]:
    corpus = context.artifact(DOCUMENTS_KEY).file
    documents = read_parquet(corpus, ["document_id"])
    return not_in_corpus(qrels, documents)


def metrics_key(retriever: str, top_k: int | str) -> ArtifactKey:
    """Return the metrics of one cell."""
    return ArtifactKey.of("metrics", retriever=retriever, top_k=top_k)


def summary_key(retriever: str) -> ArtifactKey:
    """Return the summary of one retriever."""
    return ArtifactKey.of("metrics_summary", retriever=retriever)


def answer_code(*, has_answers: bool) -> list[Root]:
    """Return the root of what looks for answers in texts, where queries have answers."""
    names = ["", "answer_hit"] if has_answers else [""]
    return [f"{__name__}:_OF_ANSWERS[{name}]" for name in names]


def _context_columns(
    context: StageContext,
    runs: Mapping[str, pa.Table],
    read_by: Mapping[str, str],
    cells: Sequence[Cell],
    with_answers: Sequence[Cell],
) -> Iterator[tuple[Cell, str, pa.ChunkedArray]]:
    """Yield (cell, column, values in the order of query ids).

    Args:
        context: gives contexts, queries and their answers.
        runs: name -> table of :data:`rag_assets.schemas.RUNS`.
        read_by: run -> its retriever.
        cells: for which ``tokens`` is wanted.
        with_answers: for which ``answer_hit`` is wanted too.
    """
    column = context_column(context.experiment.judge)
    contexts = {
        name: context.artifact(retriever_contexts_key(name)).table()
        for name in dict.fromkeys(read_by.values())
    }
    queries = context.artifact(QUERIES_KEY).table()
    tokens = context_tokens(runs, contexts, read_by, queries, cells, column=column)
    for cell, table in tokens.items():
        yield cell, "tokens", table["tokens"]
    if not with_answers:
        return
    hits = _OF_ANSWERS["answer_hit"](
        {name: runs[name] for name, _ in with_answers},
        contexts,
        read_by,
        queries,
        with_answers,
        column=column,
        documents=document_texts(context),
        answers=context.artifact(QUERY_FACTS_KEY).table(),
    )
    for cell, table in hits.items():
        yield cell, "answer_hit", table["answer_hit"]


def without_failed(table: pa.Table, failed: Collection[str]) -> pa.Table:
    """Return query metrics in which all metrics of failed queries are null.

    A query for which nothing was retrieved, without a failure, keeps its zeros: that is a result.

    Args:
        table: table of :data:`rag_assets.schemas.QUERY_METRICS`.
        failed: ids of queries; those that the table lacks are passed over.
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
