"""A metric over the evaluations of an experiment: rows, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.pipeline.history import History
from rag_assets.reporting.asked_metric import metric_at
from rag_assets.reporting.history_rows import Row, flat_history_rows, history_rows
from rag_assets.reporting.notebook.tabular import Tabular
from rag_assets.store.remote.opened import shown_store

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCHEMA = pa.schema(
    [
        ("evaluation_id", pa.string()),
        ("started", pa.timestamp("s", "UTC")),
        ("complete", pa.bool_()),
        ("trigger", pa.string()),
        ("user", pa.string()),
        ("git_commit", pa.string()),
        ("retriever", pa.string()),
        ("split", pa.string()),
        ("value", pa.float64()),
        ("n_queries", pa.int64()),
        ("change", pa.float64()),
        ("comparable", pa.bool_()),
        ("changes", pa.string()),
    ]
)
"""Columns of the table; ``changes`` is the text that ``rag-assets history`` prints."""


class MetricHistory(Tabular):
    """A metric over evaluations; a row is a retriever in an evaluation, the oldest first.

    Attributes:
        experiment: its name.
        metric: with its cut-off.
        rows: see :func:`rag_assets.reporting.history_rows.history_rows`.
    """

    def __init__(self, experiment: str, metric: Metric, rows: Sequence[Row]) -> None:
        """Hold what was read."""
        self.experiment = experiment
        self.metric = metric
        self.rows = list(rows)

    @classmethod
    def of(
        cls,
        history: History,
        metric: str | None = None,
        retrievers: Sequence[str] = (),
        split: str | None = None,
        last: int = 10,
    ) -> MetricHistory:
        """Read the last evaluations.

        Args:
            history: the experiment's evaluations.
            metric: such as ``recall@10``; the primary one of the last evaluation when absent.
            retrievers: whose values; all when empty.
            split: whose queries; ``test`` where there is one when absent.
            last: so many of the newest evaluations.

        Raises:
            NotEvaluated: there is no evaluation, or none with the metric.
            UsageError: an unknown metric or retriever.
        """
        evaluations = history.evaluations(last + 1)
        if not evaluations:
            root = history.root
            raise NotEvaluated(f"{root.name} has no evaluation in {shown_store(root.parent)} yet")
        primary = parse_metric(str(evaluations[-1]["primary_metric"]))
        asked = primary if metric is None else metric_at(metric, primary)
        since = str(evaluations[0]["evaluation_id"])
        values = history.metric(asked.column, asked.cutoff or 0, since=since)
        _check(asked, retrievers, [str(row["retriever"]) for row in values])
        chosen = [row for row in values if not retrievers or row["retriever"] in retrievers]
        shown = {row["evaluation_id"] for row in evaluations[-last:]}
        rows = history_rows(evaluations, chosen, split)
        return cls(history.root.name, asked, [row for row in rows if row["evaluation_id"] in shown])

    def to_arrow(self) -> pa.Table:
        """Return a table of :data:`SCHEMA`."""
        rows = flat_history_rows(self.rows)
        columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
        times = pa.array(columns.pop("started"), pa.string()).cast(SCHEMA.field("started").type)
        arrays = [
            times if name == "started" else pa.array(columns[name], SCHEMA.field(name).type)
            for name in SCHEMA.names
        ]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    def plot(self, *, dark: bool = False) -> go.Figure:
        """Return a line a retriever; only evaluations that can be compared are joined.

        Args:
            dark: for a dark page.
        """
        from rag_assets.reporting.notebook.histories import history_figure

        return history_figure(self, dark)

    def _repr_html_(self) -> str:
        from rag_assets.reporting.notebook.histories import history_html

        return history_html(self)


def _check(metric: Metric, wanted: Sequence[str], found: list[str]) -> None:
    if not found:
        raise NotEvaluated(f"none of these evaluations has a cell of {metric}")
    for name in wanted:
        if name not in found:
            raise UsageError(f"unknown retriever {allowed_names(name, dict.fromkeys(found))}")
