"""What Python shows: tables as text and escaped HTML, data frames, figures in the report's colours.

Results say what they hold as an Arrow table; everything here reads that and computes nothing.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.plain_text import one_line
from rag_assets.report.sheet import Column, Row, Sheet

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
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


N_COLOURS = 8
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", "\\", "x", "-", "|", "+", ".")

_VARIABLE = re.compile(r"--([\w-]+): (#[0-9a-f]{3,6});")


@cache
def colours(dark: bool = False) -> dict[str, str]:
    """Return name -> colour, such as ``c0`` of the first retriever and ``ink`` of texts."""
    sheet = resources.files("rag_assets.report.page").joinpath("style", "page.css")
    parts = sheet.read_text(encoding="utf-8").split("@media (prefers-color-scheme: dark)")
    return dict(_VARIABLE.findall(parts[1 if dark else 0]))


def look(number: int, dark: bool = False) -> dict[str, str]:
    """Return how a retriever is drawn: by colour, and by symbol, dash and hatching."""
    return {
        "colour": colours(dark)[f"c{number % N_COLOURS}"],
        "symbol": SYMBOLS[(number + 3 * (number // N_COLOURS)) % len(SYMBOLS)],
        "dash": DASHES[number % len(DASHES)],
        "pattern": PATTERNS[number // N_COLOURS % len(PATTERNS)],
    }


def plain(text: str) -> str:
    """Return a text in which plotly finds no HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def figure(
    traces: list[dict[str, Any]],
    dark: bool,
    title: str,
    **layout: Any,  # noqa: ANN401 (plotly's)
) -> go.Figure:
    """Return a figure of traces; ``layout`` is as plotly's."""
    import plotly.graph_objects as go

    palette = colours(dark)
    lines = {"gridcolor": palette["line"], "zerolinecolor": palette["line"], "automargin": True}
    for axis in ("xaxis", "yaxis"):
        layout[axis] = {**lines, "linecolor": palette["soft"], **layout.get(axis, {})}
    drawn: go.Figure = go.Figure(
        data=traces,
        layout={
            "template": "none",
            "hovermode": "closest",
            "paper_bgcolor": palette["page"],
            "plot_bgcolor": palette["page"],
            "font": {"color": palette["ink"], "family": "system-ui, sans-serif", "size": 12},
            "hoverlabel": {"bgcolor": palette["panel"], "font": {"color": palette["ink"]}},
            "title": {"text": title, "x": 0.01, "y": 1, "yanchor": "top", "pad": {"t": 14}},
            "margin": {"l": 60, "r": 20, "t": 50, "b": 45},
            **layout,
        },
    )
    return drawn


def whiskers(
    values: list[float | None], lows: list[float | None], highs: list[float | None], dark: bool
) -> dict[str, Any]:
    """Return plotly's bars of intervals; of length 0 where none is known."""
    rows = list(zip(values, lows, highs, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "thickness": 1,
        "color": colours(dark)["soft"],
        "array": [_length(value, high) for value, _, high in rows],
        "arrayminus": [_length(low, value) for value, low, _ in rows],
    }


def _length(low: float | None, high: float | None) -> float:
    return 0.0 if low is None or high is None else high - low


Bar = tuple[str, float | None, float | None, float | None]
"""A name, a mean, and the ends of its interval."""


def bars(name: str, rows: Sequence[Bar], number: int, dark: bool) -> dict[str, Any]:
    """Return bars with intervals, in the colour and hatching of a number."""
    labels, values, lows, highs = (list(column) for column in zip(*rows, strict=True))
    drawn = look(number, dark)
    pattern = {"shape": drawn["pattern"], "bgcolor": drawn["colour"]}
    return {
        "type": "bar",
        "name": plain(name),
        "x": [plain(str(label)) for label in labels],
        "y": values,
        "error_y": whiskers(values, lows, highs, dark),
        "marker": {
            "color": drawn["colour"],
            "pattern": {**pattern, "fgcolor": colours(dark)["page"]},
        },
        "hovertemplate": "%{fullData.name}<br>%{x}: %{y:.4f}<extra></extra>",
    }


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
