"""Which places of a leaderboard the number of queries does not tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from rag_assets.pipeline.shown import is_shown
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.interval_text import interval_name, interval_text
from rag_assets.report.result import EvaluationResult
from rag_assets.report.rows import Row
from rag_assets.statistics.detectable import ALPHA

SIGN = "~"
"""Marks a retriever that is not shown to be worse than the best."""


def near_best(result: EvaluationResult, rows: Sequence[Row]) -> set[str]:
    """Return the retrievers that no test tells apart from the best by the primary metric.

    Args:
        result: the evaluation.
        rows: cells of its leaderboard, of one split; the best of all is compared with, shown or
            not.
    """
    split = _split(rows)
    board = [row for row in result.leaderboard.to_pylist() if row.get("split", split) == split]
    best = {row["retriever"] for row in board if row["position"] == 1}
    unranked = {row["retriever"] for row in board if row["position"] is None}
    near = set()
    for row in _rows(result, "comparisons"):
        pair = {row["retriever_a"], row["retriever_b"]}
        if row["split"] == split and row["difference"] is not None and not is_shown(row):
            near |= pair - best - unranked if pair & best else set()
    return near


def interval_parts(result: EvaluationResult, rows: Sequence[Row]) -> list[RenderableType]:
    """Return the primary metric of each shown retriever with its interval, and what the sign means.

    A retriever that reads others has its candidate ceiling beside it. Empty for an evaluation
    without intervals, or whose primary cell is not shown.
    """
    names = dict.fromkeys(str(row["retriever"]) for row in rows)
    found = {name: row for name in names if (row := _interval(result, name, _split(rows)))}
    if not found:
        return []
    near = near_best(result, rows)
    table = FittedTable(kept=[str(result.primary)])
    table.add_column("retriever", overflow="fold")
    confidence = next(iter(found.values()))["confidence"]
    highest = {str(row["retriever"]): row["ceiling"] for row in rows if "ceiling" in row}
    headers = [str(result.primary), interval_name(confidence), "ceiling"]
    for name in headers if highest else headers[:-1]:
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in found.items():
        ceiling = f"{highest[name]:.4f}" if name in highest else ""
        values = [f"{row['mean']:.4f}", interval_text(row), ceiling]
        table.add_row(Text(name), *(values if highest else values[:-1]))
    parts: list[RenderableType] = ["", table]
    if highest:
        parts.append("ceiling: recall of the candidates; no order of them finds more")
    if near & names.keys():
        legend = f"{SIGN} not shown to be worse than the best on {result.primary}"
        parts.append(f"{legend} (p >= {ALPHA} after Holm)")
    return parts


def _interval(result: EvaluationResult, retriever: str, split: str) -> dict[str, Any] | None:
    wanted = (split, result.primary.cutoff, result.primary.column)
    for row in _rows(result, "intervals", retriever):
        if (row["split"], row["top_k"], row["metric"]) == wanted and row["mean"] is not None:
            return row
    return None


def _rows(
    result: EvaluationResult, asset: str, retriever: str | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a table; none where an evaluation does not have it."""
    entries = result.evaluation.entries_of(asset)
    chosen = [e for e in entries if e.partition.get("retriever") == retriever]
    rows: list[dict[str, Any]] = result.table(chosen[0].key).to_pylist() if chosen else []
    return rows


def _split(rows: Sequence[Row]) -> str:
    return str(rows[0].get("split", "all"))
