"""The leaderboard as a list of rows for programs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rag_assets.pipeline.selection import Selection
from rag_assets.report.ceilings import ceilings
from rag_assets.report.result import EvaluationResult

Row = dict[str, object]


def result_rows(result: EvaluationResult, selection: Selection, split: str) -> list[Row]:
    """Return :func:`leaderboard_rows` of an evaluation.

    At the primary cut-off a retriever that reads others has a ``ceiling`` too, see
    :func:`rag_assets.report.ceilings.ceilings`.
    """
    rows = leaderboard_rows(result.leaderboard, selection, split)
    found = ceilings(result, split)
    return [_with_ceiling(row, found, result.primary.cutoff) for row in rows]


def _with_ceiling(row: Row, found: Mapping[str, float], cutoff: int | None) -> Row:
    name = str(row["retriever"])
    return {**row, "ceiling": found[name]} if name in found and row["top_k"] == cutoff else row


def leaderboard_rows(board: pa.Table, selection: Selection, split: str) -> list[Row]:
    """Return one mapping a selected cell of one split, best retriever first.

    Metric names carry no cut-off: that is ``top_k``. A metric that is not computed at a cut-off is
    left out of its row. ``position`` is None for a retriever that is not ranked.
    """
    rows: list[Row] = []
    for row in board.to_pylist():
        if row["split"] != split:
            continue
        if row["retriever"] in selection.retrievers and row["top_k"] in selection.top_k:
            lead = {name: row.pop(name) for name in ("retriever", "split", "top_k", "position")}
            rows.append({**lead, **{name: v for name, v in row.items() if v is not None}})
    return rows
