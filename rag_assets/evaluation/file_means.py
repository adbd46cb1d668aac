"""From the files of runs and judgments to means, without tables in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.metrics import WHOLE_RANKING, Source, query_metrics
from rag_assets.evaluation.summary import mean
from rag_assets.store.parquet_files import read_parquet

Means = dict[Metric, float | None]
"""Metric -> its mean over answerable queries; None when there is none."""


def mean_metrics(
    runs: Mapping[str, Source], judgments: Source, metrics: Sequence[Metric]
) -> dict[str, Means]:
    """Return the means of several runs of the same queries.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`, or a Parquet file that holds one.
        judgments: table of :data:`rag_assets.schemas.JUDGMENTS`, or such a file. Its queries are
            those that are averaged; one that a run lacks counts 0.
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
