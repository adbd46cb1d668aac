"""Tables as HTML for a notebook: escaped, and readable on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("rag_assets.report.notebook", "templates")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template("table.html").render(
        title=title, headings=headings, rows=rows[:MOST], said=said, notes=notes
    )
