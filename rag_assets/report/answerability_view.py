"""How well best scores tell unanswerable queries, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.result import EvaluationResult
from rag_assets.report.rows import Row

_COLUMNS = ("auroc", "threshold", "coverage", "rejected")


def answerability_parts(result: EvaluationResult, shown: Sequence[Row]) -> list[RenderableType]:
    """Return a heading and a table, a row a retriever that is shown and split.

    Nothing where all queries are answerable.
    """
    names = [row["retriever"] for row in shown]
    found = [row for row in result.answerability if row["retriever"] in names]
    if not found:
        return []
    found.sort(key=lambda row: (names.index(row["retriever"]), str(row["split"])))
    has_splits = any(row["split"] != "all" for row in found)
    table = FittedTable()
    table.add_column("retriever", overflow="fold")
    if has_splits:
        table.add_column("split", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in found:
        split = [str(row["split"])] if has_splits else []
        table.add_row(str(row["retriever"]), *split, *[_text(row[name]) for name in _COLUMNS])
    counts = f"{found[0]['n_answerable']} answerable, {found[0]['n_unanswerable']} not"
    title = "unanswerable queries, told by the best score"
    heading = title if has_splits else f"{title} ({counts})"
    return ["", Text(heading, style="bold"), table]


def _text(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "-"
