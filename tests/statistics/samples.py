"""Made data for the tests of the statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.schemas import QUERY_METRICS
from rag_assets.statistics.units import Counting, Units, units_of

Floats = npt.NDArray[np.float64]


def alone(values: Floats | Sequence[float]) -> Units:
    """Return queries of weight 1 that each stand alone; one column, or those of a matrix."""
    columns = np.asarray(values, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    names = [f"q{number:06}" for number in range(len(columns))]
    return units_of(columns, np.ones(len(columns)), names)


def column(units: Units) -> tuple[Floats, Floats]:
    return units.column(0)


def cell(
    values: Sequence[float | None],
    query_ids: Sequence[str] | None = None,
    /,
    **others: Sequence[float | None],
) -> pa.Table:
    """Return query metrics of q0, q1, ...: ``ndcg`` and others; every query is answerable."""
    n = len(values)
    known = {name: [1] * n for name in ("n_relevant", "n_unreachable", "n_retrieved", "n_judged")}
    metrics = {"ndcg": values, **others}
    rows = {
        "query_id": query_ids or [f"q{number}" for number in range(n)],
        **known,
        **{name: pa.array(found, pa.float64()) for name, found in metrics.items()},
    }
    fields = [*QUERY_METRICS.arrow(), *(pa.field(name, pa.float64()) for name in metrics)]
    return pa.table(
        {f.name: rows.get(f.name, [None] * n) for f in fields}, schema=pa.schema(fields)
    )


def counting(
    n: int,
    weights: Sequence[float] | None = None,
    splits: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    query_ids: Sequence[str] | None = None,
) -> Counting:
    """Return what counts of q0, q1, ...: by default all alike, each on its own."""
    query_ids = query_ids or [f"q{number}" for number in range(n)]
    columns = (query_ids, weights or [1.0] * n, splits or ["all"] * n, clusters or query_ids)
    names = ("query_id", "weight", "split", "cluster")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
