"""Means of one retriever at one cut-off, with the accounting that gives them their meaning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.schemas import METRICS_SUMMARY


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; exact summation, so order is no matter."""
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None


def summarise(cells: Mapping[int, pa.Table], measures: Mapping[int, Sequence[str]]) -> pa.Table:
    """Return one row for each cut-off of a retriever.

    Args:
        cells: top_k -> table of :data:`rag_assets.schemas.QUERY_METRICS`.
        measures: top_k -> the measures to average; others are null in that row.

    Returns:
        Table of :data:`rag_assets.schemas.METRICS_SUMMARY`, sorted by top_k. Means are over
        answerable queries; one for which nothing was retrieved counts 0.
    """
    names = list(dict.fromkeys(name for chosen in measures.values() for name in chosen))
    fields = [pa.field(name, pa.float64()) for name in names]
    schema = pa.schema([*METRICS_SUMMARY.arrow(), *fields])
    rows = [
        {"top_k": top_k, **_accounting(table), **_means(table, measures[top_k])}
        for top_k, table in sorted(cells.items())
    ]
    return METRICS_SUMMARY.check(pa.Table.from_pylist(rows, schema=schema))


def _accounting(table: pa.Table) -> dict[str, object]:
    answerable = table.filter(pc.greater(table["n_relevant"], 0))
    retrieved = pc.sum(table["n_retrieved"]).as_py() or 0
    return {
        "n_queries": answerable.num_rows,
        "n_unanswerable": table.num_rows - answerable.num_rows,
        "n_empty": pc.sum(pc.equal(answerable["n_retrieved"], 0)).as_py() or 0,
        "n_unreachable": pc.sum(table["n_unreachable"]).as_py() or 0,
        "tokens": mean(table["tokens"].to_pylist()),
        "judged": (pc.sum(table["n_judged"]).as_py() or 0) / retrieved if retrieved else None,
    }


def _means(table: pa.Table, measures: Sequence[str]) -> dict[str, float | None]:
    return {name: mean(table.column(name).to_pylist()) for name in measures}
