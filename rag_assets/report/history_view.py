"""The history of a metric as a table for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.plain_text import one_line
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.history_rows import changes_text

ID_END = 4
"""So many last characters of an id are shown; `diff` and `gate` take the end of an id."""


def history_view(rows: Sequence[dict[str, Any]], metric: str) -> RenderableType:
    """Return the table; the time and the reasons of an evaluation stand at its first retriever."""
    table = FittedTable(kept=[metric])
    table.add_column("evaluation", min_width=10, overflow="fold")
    table.add_column("id", no_wrap=True)
    table.add_column("retriever", overflow="fold")
    table.add_column(Text(metric), justify="right", no_wrap=True)
    table.add_column("change", justify="right", no_wrap=True)
    table.add_column("what changed", overflow="fold")
    last = None
    for row in rows:
        lead = ["", "", ""]
        if row["evaluation_id"] != last:
            time = row["started"][:16].replace("T", " ")
            lead = [time, row["evaluation_id"][-ID_END:], _what(row)]
        last = row["evaluation_id"]
        table.add_row(
            lead[0],
            lead[1],
            _plain(row["retriever"] or "-"),
            "-" if row["value"] is None else f"{row['value']:.4f}",
            "" if row["change"] is None else f"{row['change']:+.4f}",
            _plain(lead[2]),
        )
    return Group(table)


def _what(row: dict[str, Any]) -> str:
    parts = [changes_text(row["changes"]), "" if row["complete"] else "incomplete"]
    return "; ".join(part for part in parts if part)


def _plain(text: str) -> Text:
    """Escape what a terminal would obey; names and values come from files."""
    return Text(one_line(text))
