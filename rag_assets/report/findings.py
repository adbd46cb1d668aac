"""Findings as a table for a terminal of 80 columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.plain_text import one_line
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.rows import Row

_STYLES = {"error": "bold red", "warning": "yellow"}


def findings_view(findings: Sequence[Row], shown: int) -> RenderableType:
    """Return one table; of each kind the first ``shown`` findings, and how many more there are.

    Args:
        findings: rows of :data:`rag_assets.labels.health.findings.FINDINGS`.
        shown: how many of one kind are drawn.
    """
    table = FittedTable()
    table.add_column("severity", no_wrap=True)
    table.add_column("check", overflow="fold")
    table.add_column("finding", overflow="fold")
    kinds: dict[object, list[Row]] = defaultdict(list)
    for row in findings:
        kinds[row["check"]].append(row)
    for rows in kinds.values():
        for row in rows[:shown]:
            severity = str(row["severity"])
            cells = [_plain(text) for text in (row["check"], f"{_where(row)}{row['message']}")]
            table.add_row(Text(severity, style=_STYLES.get(severity, "")), *cells)
        if len(rows) > shown:
            more = f"... and {len(rows) - shown} more; --format csv lists all"
            table.add_row("", _plain(rows[0]["check"]), Text(more))
    return Group(table, "")


def _where(row: Row) -> str:
    """Return file and line where they are known, else the ids, and a colon."""
    if row["file"] is not None:
        line = f":{row['line']}" if row["line"] is not None else ""
        return f"{row['file']}{line}: "
    ids = [f"{n} {row[f'{n}_id']}" for n in ("query", "document") if row[f"{n}_id"] is not None]
    return f"{', '.join(ids)}: " if ids else ""


def _plain(value: object) -> Text:
    """Escape what a terminal would obey; ids and texts come from files."""
    text = str(value)
    return Text(one_line(text))
