"""What is shown of an experiment without labels: how alike its retrievers rank, and how fast."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.result import EvaluationResult
from rag_assets.report.rows import Row


def overlaps_view(result: EvaluationResult, rows: Sequence[Row]) -> RenderableType:
    """Return the tables of an evaluation without labels; no metric is among them.

    Args:
        result: the evaluation.
        rows: its selected pairs, as :func:`rag_assets.report.overlap_rows.overlap_rows` gives.
    """
    name, n_queries = result.evaluation.experiment, result.queries.num_rows
    parts: list[RenderableType] = [
        _heading(f"{name}: no labels yet, so no metric; {n_queries} queries"),
        _speed(result),
    ]
    if rows:
        cutoffs = sorted({int(str(row["top_k"])) for row in rows})
        headings = {
            "rbo": "rank-biased overlap (p = 0.9) by top_k",
            "overlap": "share of common units by top_k",
        }
        for measure, heading in headings.items():
            parts += ["", _heading(heading), _table(rows, cutoffs, measure)]
    if any(row["compared"] == "document" for row in rows):
        parts += ["", "* compared by documents: the two search different chunkings"]
    return Group(*parts)


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _speed(result: EvaluationResult) -> Table:
    table = FittedTable()
    table.add_column("retriever", overflow="fold")
    table.add_column("ms/query", justify="right", no_wrap=True)
    speed = result.milliseconds_per_query()
    for name in result.run_retrievers:
        table.add_row(name, f"{speed[name]:.2f}" if name in speed else "-")
    return table


def _table(rows: Sequence[Row], cutoffs: Sequence[int], measure: str) -> Table:
    table = FittedTable()
    table.add_column("retrievers", overflow="fold")
    for cutoff in cutoffs:
        table.add_column(f"@{cutoff}", justify="right", no_wrap=True)
    cells = {(row["retriever_a"], row["retriever_b"], row["top_k"]): row[measure] for row in rows}
    marks = {(row["retriever_a"], row["retriever_b"]): row["compared"] for row in rows}
    for pair, compared in marks.items():
        values = [cells.get((*pair, cutoff)) for cutoff in cutoffs]
        shown = [f"{value:.4f}" if isinstance(value, float) else "-" for value in values]
        table.add_row(f"{pair[0]}, {pair[1]}{' *' if compared == 'document' else ''}", *shown)
    return table
