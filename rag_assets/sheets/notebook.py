"""What Python shows: tables as text and escaped HTML, and data frames.

Results say what they hold as an Arrow table; everything here reads that and computes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.sheets.sheet import Sheet

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

MAX_ROWS = 200
"""Rows that are shown."""

UNBOUNDED = 10_000
"""Columns of what is no terminal: no line is folded, and no column left out."""


def _limited(sheet: Sheet) -> Sheet:
    """Return as much of a table as is shown, and a note on the rows that are left out."""
    more = len(sheet.rows) - MAX_ROWS
    notes = [*sheet.notes, *([f"{more} more rows are left out"] if more > 0 else [])]
    return replace(sheet, rows=sheet.rows[:MAX_ROWS], notes=notes)


def table_text(sheet: Sheet) -> str:
    """Return a table as a terminal shows it, as wide as it is."""
    # Both are loaded here: programs may never look at a table.
    from rich.console import Console

    from rag_assets.sheets.terminal_table import sheet_view

    text = StringIO()
    # Whatever shows it, this is plain text: rich would colour it, or give it to Jupyter itself.
    plain = Console(file=text, width=UNBOUNDED, color_system=None, force_jupyter=False)
    plain.print(sheet_view(_limited(sheet)))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def table_html(sheet: Sheet) -> str:
    """Return a table for a notebook; all text from data is escaped."""
    from rag_assets.sheets.environment import templates

    return templates().get_template("notebook.html").render(sheet=_limited(sheet))


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
