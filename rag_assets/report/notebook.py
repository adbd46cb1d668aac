"""What Python shows: tables as text and escaped HTML, data frames, figures in the report's colours.

Results say what they hold as an Arrow table; everything here reads that and computes nothing.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.plain_text import one_line
from rag_assets.report.sheet import Sheet

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import polars as pl

MOST = 200
"""Rows that are shown."""


@dataclass(frozen=True)
class Cell:
    """A cell: its text, a small second line, and whether it is the best of its column."""

    text: str
    small: str = ""
    best: bool = False
    number: bool = True


def words(text: str, small: str = "") -> Cell:
    """Return a cell of text, which stands left."""
    return Cell(text, small, number=False)


def number(value: float | None, small: str = "", *, best: bool = False) -> Cell:
    """Return a cell with a mean in four decimals; empty where there is none."""
    return Cell("" if value is None else f"{value:.4f}", small, best)


class Shown(NamedTuple):
    """What is shown of a table; the fields are those of :func:`table_html`."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    said: Sequence[str] = ()
    notes: Sequence[str] = ()


def of_sheet(sheet: Sheet) -> Shown:
    """Return a sheet as it is shown: intervals are the second lines of their values."""
    columns = sheet.shown
    rows = [
        [
            Cell(
                column.text(row),
                column.small(row),
                sheet.is_best(column, row),
                number=not column.is_text,
            )
            for column in columns
        ]
        for row in sheet.rows
    ]
    headings = [" ".join(column.title.split()) for column in columns]
    return Shown(sheet.title, headings, rows, sheet.lead, sheet.notes)


def table_text(shown: Shown) -> str:
    """Return a table as lines of text.

    The second lines of cells stand in brackets, of the first column of numbers that has such: with
    all of them lines would be too long.
    """
    columns = range(len(shown.headings))
    rows = shown.rows[:MOST]
    detailed = next((n for n in columns if any(_has_interval(row[n]) for row in rows)), None)
    texts = [[_text(cell, n == detailed) for n, cell in enumerate(row)] for row in rows]
    lines = [[one_line(heading) for heading in shown.headings], *texts]
    widths = [max(len(line[n]) for line in lines) for n in columns]
    right = [n > 0 and all(row[n].number for row in rows) for n in columns]
    table = [
        "  ".join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]
    more = len(shown.rows) - MOST
    notes = [*shown.notes, *([f"{more} more rows are left out"] if more > 0 else [])]
    return "\n".join([*map(one_line, (shown.title, *shown.said)), *table, *map(one_line, notes)])


def _has_interval(cell: Cell) -> bool:
    return cell.number and bool(cell.small)


def _text(cell: Cell, detailed: bool) -> str:
    small = f" ({one_line(cell.small)})" if detailed and cell.small else ""
    return f"{one_line(cell.text)}{small}" or "-"


def table_html(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    said: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return a table.

    Args:
        title: above all.
        headings: of the columns.
        rows: a cell a column each; the first :data:`MOST` are shown.
        said: sentences above the table.
        notes: sentences below it.
    """
    more = len(rows) - MOST
    notes = [*notes, *([f"{more} more rows are left out"] if more > 0 else [])]
    # Loaded here: a history is printed without a template.
    from rag_assets.report.page.environment import templates

    return (
        templates()
        .get_template("notebook.html")
        .render(title=title, headings=headings, rows=rows[:MOST], said=said, notes=notes)
    )


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
    """Return how a retriever is drawn: by colour, and by symbol, dash and hatching.

    Args:
        number: its place, best first.
        dark: for a dark page.
    """
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


class Tabular(ABC):
    """A result that is a table of rows, each with the same columns."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return all rows; a column without a value in a row is null."""

    @abstractmethod
    def plot(self) -> go.Figure:
        """Return an interactive figure, in the colours of the report."""

    @abstractmethod
    def _shown(self) -> Sequence[Shown]:
        """Return the tables that are shown."""

    def __repr__(self) -> str:
        """Return what ``print`` shows."""
        return "\n\n".join(map(table_text, self._shown()))

    def _repr_html_(self) -> str:
        """Return what a notebook shows; all text from data is escaped."""
        return "".join(table_html(*shown) for shown in self._shown())

    def to_pandas(self) -> pd.DataFrame:
        """Return :meth:`to_arrow` as a pandas data frame.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401 (pyarrow says less clearly that it is missing)
        except ImportError as error:
            raise _missing("pandas") from error
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return :meth:`to_arrow` as a polars data frame.

        Raises:
            UsageError: polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise _missing("polars") from error
        return polars.DataFrame(self.to_arrow())


def _missing(package: str) -> UsageError:
    return UsageError(
        f"to_{package}() needs the package {package}: pip install 'rag-assets[notebook]'"
    )
