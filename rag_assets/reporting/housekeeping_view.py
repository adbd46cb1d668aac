"""What lies in a store, or goes from it, as a table for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from rag_assets.plain_text import one_line
from rag_assets.reporting.rows import Row
from rag_assets.reporting.sizes import size_text


def rows_view(rows: Sequence[Row], names: Sequence[str]) -> Table:
    """Return the given columns; ``bytes`` as a size, numbers to the right."""
    table = Table(box=None, pad_edge=False)
    for name in names:
        is_number = name == "bytes" or any(isinstance(row[name], int) for row in rows)
        heading = "size" if name == "bytes" else name
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(name, row[name]) for name in names))
    return table


def _cell(name: str, value: object) -> Text:
    text = size_text(float(str(value))) if name == "bytes" else str(value)
    return Text(one_line(text))
