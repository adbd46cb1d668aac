"""Two evaluations side by side as a table for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.reasons import Reason
from rag_assets.plain_text import one_line
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.interval_text import interval_name, interval_text
from rag_assets.report.verdict import p_text

SHOWN = 20
"""So many reasons are shown; ``--format json`` has all."""


def changes_view(a: Evaluation, b: Evaluation, reasons: Sequence[Reason]) -> RenderableType:
    """Return what changed from one evaluation to the other, a line a reason."""
    head = Text(f"{b.experiment}: {b.evaluation_id} against {a.evaluation_id}", style="bold")
    lines = [_plain(f"  {reason.text}") for reason in reasons[:SHOWN]] or [
        Text("  nothing changed")
    ]
    if len(reasons) > SHOWN:
        lines.append(Text(f"  and {len(reasons) - SHOWN} more; --format json has all"))
    return Group(head, *lines)


def means_view(rows: Sequence[dict[str, Any]], metric: str, confidence: float) -> RenderableType:
    """Return a line for each retriever: the mean before and after, and how sure the change is."""
    table = FittedTable(kept=["difference"])
    table.add_column("retriever", overflow="fold")
    for name in ("old", "new", "difference", interval_name(confidence), "p", "won", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            _plain(row["retriever"]),
            f"{row['old']:.4f}",
            f"{row['new']:.4f}",
            f"{row['difference']:+.4f}",
            interval_text(row),
            p_text(row["p_randomisation"]),
            str(row["won"]),
            str(row["lost"]),
        )
    n_queries = max((row["n"] for row in rows), default=0)
    return Group(Text(f"{metric} on {n_queries} queries", style="bold"), table)


def _plain(text: str) -> Text:
    """Escape what a terminal would obey; names and values come from files."""
    return Text(one_line(text))
