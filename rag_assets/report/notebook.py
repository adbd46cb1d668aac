"""What Python shows: tables as text and escaped HTML, and data frames.

Results say what they hold as an Arrow table; everything here reads that and computes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.plain_text import one_line
from rag_assets.report.sheet import Column, Row, Sheet

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

MAX_ROWS = 200
"""Rows that are shown."""


def table_text(sheet: Sheet) -> str:
    """Return a table as lines of text.

    Intervals stand in brackets behind the values of the first column that has them: with all of
    them lines would be too long.
    """
    columns, rows = sheet.in_text, sheet.rows[:MAX_ROWS]
    detailed = next((c for c in columns if any(c.small(row) for row in rows)), None)
    lines = [[one_line(column.heading) for column in columns]]
    lines += [[_text(column, row, column is detailed) for column in columns] for row in rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    right = [n > 0 and not column.is_text for n, column in enumerate(columns)]
    table = [
        "  ".join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]
    head = [one_line(line) for line in (sheet.title, *sheet.lead) if line]
    return "\n".join([*head, *(table if columns else []), *map(one_line, notes_of(sheet))])


def _text(column: Column, row: Row, detailed: bool) -> str:
    small = column.small(row) if detailed else ""
    return one_line(f"{column.text(row)}{f' ({small})' if small else ''}") or "-"


def notes_of(sheet: Sheet) -> list[str]:
    """Return the notes below a table, and how many of its rows are left out."""
    more = len(sheet.rows) - MAX_ROWS
    return [*sheet.notes, *([f"{more} more rows are left out"] if more > 0 else [])]


def table_html(sheet: Sheet) -> str:
    """Return a table for a notebook; all text from data is escaped."""
    # Loaded here: a history is printed without a template.
    from rag_assets.report.page.environment import templates

    rows, notes = sheet.rows[:MAX_ROWS], notes_of(sheet)
    return templates().get_template("notebook.html").render(sheet=sheet, rows=rows, notes=notes)


class Tabular(ABC):
    """A result that is a table of rows, each with the same columns."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return all rows; a column without a value in a row is null."""

    @abstractmethod
    def _sheets(self) -> Sequence[Sheet]:
        """Return the tables that are shown."""

    def __repr__(self) -> str:
        """Return what ``print`` shows."""
        return "\n\n".join(map(table_text, self._sheets()))

    def _repr_html_(self) -> str:
        """Return what a notebook shows; all text from data is escaped."""
        return "".join(map(table_html, self._sheets()))

    def to_pandas(self) -> pd.DataFrame:
        """Return :meth:`to_arrow` as a pandas data frame.

        Raises:
            UsageError: pandas is not installed.
        """
        _require("pandas")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return :meth:`to_arrow` as a polars data frame.

        Raises:
            UsageError: polars is not installed.
        """
        frame: pl.DataFrame = _require("polars").DataFrame(self.to_arrow())
        return frame


def _require(package: str) -> Any:  # noqa: ANN401 (a module)
    try:
        return import_module(package)
    except ImportError as error:
        remedy = "pip install 'rag-assets[notebook]'"
        raise UsageError(f"to_{package}() needs the package {package}: {remedy}") from error
