"""Without labels: how alike the retrievers rank, and how fast they are."""

from __future__ import annotations

from rag_assets.report.overlap_rows import overlap_rows
from rag_assets.report.page.view import Context, View


def overlaps(view: View) -> Context | None:
    """Return a row a pair and cut-off; None with labels."""
    if view.result.has_metrics:
        return None
    return {"rows": overlap_rows(view.result), "speed": view.speed}
