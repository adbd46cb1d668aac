"""What the statistics read, and how the experiment wants them.

The one place that knows where a query's weight, split and cluster come from, and what a metric's
column is called.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from rag_assets.evaluation.metric_names import Metric
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stage import Input
from rag_assets.pipeline.stages.sources import QUERIES_KEY
from rag_assets.statistics.resampling import Resampling
from rag_assets.store.artifacts import ArtifactKey

TableOf = Callable[[ArtifactKey], pa.Table]
"""Gives the table of a partition: of the pipeline, or of a snapshot."""

COUNTING_INPUT = Input("counting", QUERIES_KEY, "ids")


def counting_of(table_of: TableOf) -> pa.Table:
    """Return query_id, weight, split and cluster of every query: all alike, each on its own."""
    query_ids = table_of(COUNTING_INPUT.key)["query_id"]
    return pa.table(
        {
            "query_id": query_ids,
            "weight": pa.array([1.0] * len(query_ids), pa.float64()),
            "split": pa.array(["all"] * len(query_ids), pa.string()),
            "cluster": query_ids,
        }
    )


def column_of(metric: Metric) -> str:
    """Return the metric's column in the tables of query metrics."""
    return metric.measure


def resampling_of(experiment: Experiment) -> Resampling:
    """Return the experiment's ``statistics``: confidence, number and seed of resamples."""
    chosen = getattr(experiment, "statistics", None)
    if chosen is None:
        return Resampling()
    return Resampling(chosen.confidence, chosen.resamples, chosen.seed)
