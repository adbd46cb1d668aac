"""Rows as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from rag_assets.plain_text import one_line
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.formats import four_places
from rag_assets.report.sizes import size_text


def rows_view(rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> Table:
    """Return the given columns; ``bytes`` as a size, numbers to the right, "-" for none."""
    table = FittedTable()
    for name in names:
        is_number = name == "bytes" or any(isinstance(row[name], int | float) for row in rows)
        heading = "size" if name == "bytes" else name
        if is_number:
            table.add_column(heading, justify="right", no_wrap=True)
        else:
            table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(name, row[name]) for name in names))
    return table


def _cell(name: str, value: object) -> Text:
    text = "-" if value is None else str(value)
    text = four_places(value) if isinstance(value, float) else text
    text = size_text(float(text)) if name == "bytes" else text
    return Text(one_line(text))
