"""How well best scores tell unanswerable queries, before labels do."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import TEXT, Column, Sheet
from rag_assets.report.view import Context, View


def answerability_sheet(result: EvaluationResult, retrievers: Sequence[str]) -> Sheet | None:
    """Return a row a retriever and split; None where no query is said to be unanswerable."""
    rows = [row for row in result.rows_of("answerability") if row["retriever"] in retrievers]
    if not rows:
        return None
    rows.sort(key=lambda row: (retrievers.index(str(row["retriever"])), str(row["split"])))
    has_splits = any(row["split"] != "all" for row in rows)
    columns = (
        Column("retriever", "retriever", TEXT),
        *([Column("split", "split", TEXT, is_whole=True)] if has_splits else []),
        Column("auroc", "auroc", help="how well the best score tells the two apart; 0.5: not"),
        Column("threshold", "threshold", help="queries at or above it are answered"),
        Column("coverage", "coverage", help="of the answerable queries, those answered"),
        Column("rejected", "rejected", help="of the unanswerable queries, those not answered"),
    )
    counts = f"{rows[0]['n_answerable']} answerable, {rows[0]['n_unanswerable']} not"
    title = "unanswerable queries, told by the best score"
    title = title if has_splits else f"{title} ({counts})"
    return Sheet(title, columns, rows, name="answerability")


def answerability(view: View) -> Context | None:
    """Return the section of the page; None where no query is said to be unanswerable."""
    sheet = answerability_sheet(view.result, view.retrievers) if view.result.has_metrics else None
    return None if sheet is None else {"sheet": sheet}
