"""What tie orders are worth, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.evaluation.query_facts import ALL
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.rows import Row


def tie_view(experiment: str, rows: Sequence[Row], split: str) -> RenderableType:
    """Return a table, a row a retriever and measure, and why some have no bounds."""
    where = "" if split == ALL else f"{split}, "
    title = f"{experiment}: {where}means over all orders of units with equal scores"
    table = FittedTable(kept=["metric", "value"])
    table.add_column("retriever", overflow="fold")
    table.add_column("metric", no_wrap=True)
    for name in ("worst", "value", "best", "differ", "tied at the cut"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        means = [_number(row[name]) for name in ("worst", "value", "best")]
        counts = [_count(row["n_queries_that_differ"]), _count(row["n_tied"])]
        table.add_row(Text(str(row["retriever"])), str(row["metric"]), *means, *counts)
    reasons = [f"{row['retriever']}: {row['why']}" for row in rows if row["why"]]
    return Group(
        Text(title, style="bold"),
        table,
        f"differ: queries of {rows[0]['n_queries']} whose value depends on the order",
        *map(Text, reasons),
    )


def _number(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "-"


def _count(value: object) -> str:
    return "-" if value is None else str(value)
