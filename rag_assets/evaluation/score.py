"""Scores any run file against any qrels file, as trec_eval does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import UsageError
from rag_assets.evaluation.families import all_metrics
from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.measures import Judged
from rag_assets.evaluation.metric_names import (
    CONTEXT_MEASURES,
    Metric,
    needs_cutoff,
    parse_metric,
    shown_name,
)
from rag_assets.evaluation.metrics import WHOLE_RANKING, Source, query_metrics
from rag_assets.evaluation.ties import BOUNDED, tie_bounds
from rag_assets.plain_text import one_line
from rag_assets.store.parquet_files import read_parquet

Means = dict[Metric, float | None]
"""Metric -> its mean over answerable queries; None when there is none."""


@dataclass(frozen=True)
class Scores:
    """Values of one run under the names that were asked for.

    Attributes:
        means: metric name -> mean, over answerable queries or, as trec_eval -c does, over all
            queries of the qrels; None without such a query. The sum, as trec_eval has it, of what
            trec_eval's name of a count was given for.
        per_query: one mapping a query of the qrels, with ``query_id`` and a value a metric; None
            for a query without a relevant document, which has no value, or 0 where it counts 0.
        n_queries: the denominator of the means.
        n_unanswerable: queries of the qrels without a relevant document.
        n_missing: answerable queries that the run lacks; they count 0.
        n_unjudged_queries: queries of the run that the qrels lack; they are not scored.
        n_tied: cut-off -> answerable queries in which tied units stand on both sides of it.
    """

    means: dict[str, float | None]
    per_query: list[dict[str, object]] = field(repr=False)
    n_queries: int
    n_unanswerable: int
    n_missing: int
    n_unjudged_queries: int
    n_tied: dict[int, int] = field(default_factory=dict)


def score(
    run: pa.Table,
    judgments: pa.Table,
    metrics: Sequence[str],
    *,
    trec_mean: bool = False,
) -> Scores:
    """Score a run.

    Args:
        run: table of :data:`rag_assets.schemas.RUNS`.
        judgments: table of :data:`rag_assets.schemas.RELEVANT_UNITS`.
        metrics: names in any vocabulary, echoed in the result as
            :func:`~rag_assets.evaluation.metric_names.shown_name` has them.
        trec_mean: average over every query of the qrels; one without a relevant document counts 0.
            ``judged`` has no value where nothing is retrieved.

    Raises:
        UsageError: a metric is unknown, needs texts, or divides by the cut-off and has none.
    """
    by_name = {shown_name(name): checked_metric(name) for name in metrics}
    cutoffs = {metric.cutoff or WHOLE_RANKING for metric in by_name.values()}
    queries = pa.table({"query_id": pc.unique(judgments.column("query_id"))})
    cells = [("run", cutoff) for cutoff in sorted(cutoffs)]
    labels, metrics_asked = {"qrels": judgments}, list(by_name.values())
    tables = all_metrics({"run": run}, labels, {"run": "qrels"}, queries, cells, metrics_asked)
    any_table = tables[cells[0]]
    columns = {
        name: tables["run", metric.cutoff or WHOLE_RANKING].column(metric.column).to_pylist()
        for name, metric in by_name.items()
    }
    if trec_mean:
        columns = {
            name: values if metric.measure == Judged.name else [value or 0.0 for value in values]
            for (name, metric), values in zip(by_name.items(), columns.values(), strict=True)
        }
    ids = any_table.column("query_id").to_pylist()
    per_query = [
        {"query_id": query_id, **{name: values[i] for name, values in columns.items()}}
        for i, query_id in enumerate(ids)
    ]
    answerable = any_table.filter(pc.greater(any_table["n_relevant"], 0))
    return Scores(
        means={
            name: fsum(v or 0.0 for v in values) if is_sum(name) else mean(values)
            for name, values in columns.items()
        },
        per_query=per_query,
        n_queries=len(ids) if trec_mean else answerable.num_rows,
        n_unanswerable=len(ids) - answerable.num_rows,
        n_missing=count_not_in(answerable.column("query_id"), run.column("query_id")),
        n_unjudged_queries=count_not_in(
            pc.unique(run.column("query_id")), judgments.column("query_id")
        ),
        n_tied={k: _n_tied(tables["run", k]) for k in sorted(cutoffs) if k != WHOLE_RANKING},
    )


def tie_rows(run: pa.Table, judgments: pa.Table, metrics: Sequence[str]) -> list[dict[str, object]]:
    """Return a row for each metric that has bounds over the orders of tied units.

    Args:
        run: table of :data:`rag_assets.schemas.RUNS`.
        judgments: table of :data:`rag_assets.schemas.RELEVANT_UNITS`.
        metrics: names in any vocabulary; those of other measures than
            :data:`rag_assets.evaluation.ties.BOUNDED` have no row.

    Returns:
        The name, the means ``worst``, ``value`` and ``best`` over answerable queries, and how many
        queries have another value in another order.
    """
    by_name = {shown_name(name): checked_metric(name) for name in metrics}
    bounded = {name: metric for name, metric in by_name.items() if metric.measure in BOUNDED}
    bounds = tie_bounds(run, judgments, list(dict.fromkeys(bounded.values())))
    rows: list[dict[str, object]] = []
    for name, metric in bounded.items():
        table = bounds[metric]
        values = {part: table.column(part).to_pylist() for part in ("worst", "value", "best")}
        differ = sum(w != b for w, b in zip(values["worst"], values["best"], strict=True))
        means = {part: mean(column) for part, column in values.items()}
        rows.append({"metric": name, **means, "n_queries_that_differ": differ})
    return rows


def _n_tied(table: pa.Table) -> int:
    across = pc.and_(pc.greater(table["ties_at_cut"], 0), pc.greater(table["n_relevant"], 0))
    return int(pc.sum(across).as_py() or 0)


def checked_metric(name: str) -> Metric:
    """Return a metric that a run file can be scored by.

    Raises:
        UsageError: it is unknown, needs texts, or divides by the cut-off and has none.
    """
    metric = parse_metric(name)
    if metric.measure in CONTEXT_MEASURES:
        raise UsageError(f"metric '{name}' needs texts and answers; a run file has neither")
    if needs_cutoff(metric.measure) and metric.cutoff is None:
        raise UsageError(f"metric '{name}' needs a cut-off, such as {name}@10")
    return metric


def is_sum(name: str) -> bool:
    """Return whether trec_eval prints the sum under this name: it is that of a count."""
    return name.strip().lower().startswith("num_")


def count_not_in(values: pa.ChunkedArray | pa.Array, known: pa.ChunkedArray) -> int:
    """Return how many of the values are not among the known ones."""
    inside = pc.sum(pc.is_in(values, value_set=pc.unique(known))).as_py() or 0
    return len(values) - int(inside)


def nothing_shared(run: pa.Table, judgments: pa.Table) -> str | None:
    """Return why no hit can be right: ids of one file are not in the other; None: some are."""
    for column, noun in (("query_id", "query"), ("unit_id", "document")):
        ours, theirs = (pc.unique(table[column].drop_null()) for table in (run, judgments))
        if len(ours) and len(theirs) and count_not_in(ours, theirs) == len(ours):
            here, there = (one_line(ids[0].as_py()) for ids in (ours, theirs))
            bare = [{name.lstrip("0") for name in ids.to_pylist()} for ids in (ours, theirs)]
            hint = "; they are equal but for leading zeros" if bare[0] & bare[1] else ""
            return (
                f"no {noun} of the run is in the qrels: the run has '{here}', they have "
                f"'{there}'{hint}"
            )
    return None


def mean_metrics(
    runs: Mapping[str, Source], judgments: Source, metrics: Sequence[Metric]
) -> dict[str, Means]:
    """Return the means of several runs of the same queries.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`, or a Parquet file that holds one.
        judgments: table of :data:`rag_assets.schemas.RELEVANT_UNITS`, or such a file. Its queries
            are those that are averaged; one that a run lacks counts 0.
        metrics: one without a cut-off is taken over the whole ranking.

    Raises:
        UsageError, DataError: as :func:`rag_assets.evaluation.metrics.query_metrics` does.
    """
    depths = sorted({metric.cutoff or WHOLE_RANKING for metric in metrics})
    cells = [(name, depth) for name in runs for depth in depths]
    judged_by = dict.fromkeys(runs, "judgments")
    queries = pa.table({"query_id": pc.unique(_query_ids(judgments))})
    tables = query_metrics(runs, {"judgments": judgments}, judged_by, queries, cells, metrics)
    return {
        name: {
            metric: mean(tables[name, metric.cutoff or WHOLE_RANKING][metric.column].to_pylist())
            for metric in metrics
        }
        for name in runs
    }


def _query_ids(judgments: Source) -> pa.ChunkedArray:
    if isinstance(judgments, Path):
        judgments = read_parquet(judgments, ["query_id"])
    return judgments.column("query_id")
