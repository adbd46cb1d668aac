"""A table as people read it, said once: a topic computes rows and names its columns.

Terminal (:mod:`rag_assets.report.terminal_table`), page (``cells.html``) and notebook
(:mod:`rag_assets.report.notebook`) draw any sheet, so a number has the same name, form and mark
wherever it stands. Programs get the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rag_assets.evaluation.leaderboard import is_tied
from rag_assets.report.formats import interval_name, p_text

Row = Mapping[str, Any]

TEXT, INTERVAL, P_VALUE = "text", "interval", "p"
"""Forms that are no format of a number; a form that ends with % writes a share as ``57 %``."""

MEAN = ".4f"
"""Form of a mean in [0, 1]; the page draws a bar behind it."""


@dataclass(frozen=True)
class Column:
    """One column: where its value is, how it is written, what it means.

    Attributes:
        name: key of the value in a row.
        title: its heading.
        form: how a value is written, as for :func:`format`, or one of the forms above.
        help: what it means.
        bounds: keys of both ends of the interval that belongs to the value.
        interval: heading of the interval on a terminal, where it has a column of its own; empty: it
            has none, as the lines would be too long.
        better: whether more or less of it is better, so that the best value is marked.
        missing: what stands in lines of text where a row has no value.
        is_required: stays where a terminal is narrow.
        is_whole: a text that is not folded.
        is_sparse: left out where no row has a value, or all counts are 0.
        min_width: characters to which a text is folded before another column is left out.
    """

    name: str
    title: str
    form: str = MEAN
    help: str = field(default="", kw_only=True)
    bounds: tuple[str, str] | None = field(default=None, kw_only=True)
    interval: str = field(default="", kw_only=True)
    better: Literal["more", "less"] | None = field(default=None, kw_only=True)
    missing: str = field(default="-", kw_only=True)
    is_required: bool = field(default=False, kw_only=True)
    is_whole: bool = field(default=False, kw_only=True)
    is_sparse: bool = field(default=False, kw_only=True)
    min_width: int | None = field(default=None, kw_only=True)

    @property
    def is_text(self) -> bool:
        """Whether it stands left."""
        return self.form == TEXT

    @property
    def has_bounds(self) -> bool:
        """Whether an interval stands beside the value."""
        return self.bounds is not None and self.form != INTERVAL

    def value(self, row: Row) -> Any:  # noqa: ANN401 (whatever a row holds)
        """Return the value; of an interval its ends, None where they are not known."""
        if self.form == INTERVAL and self.bounds is not None:
            ends = tuple(row[name] for name in self.bounds)
            return None if None in ends else ends
        return row.get(self.name)

    def text(self, row: Row) -> str:
        """Return the value as it is written; empty where there is none."""
        value = self.value(row)
        if value is None:
            return ""
        if self.form == INTERVAL:
            return self.ends(row)
        if self.form == P_VALUE:
            return p_text(value)
        if self.is_text or isinstance(value, str):
            return str(value)
        if self.form.endswith("%"):
            return f"{100 * value:{self.form[:-1]}f} %"
        return format(value, self.form)

    def ends(self, row: Row, form: str = "[{low:.4f}, {high:.4f}]") -> str:
        """Return the interval of the value; empty where there is none."""
        low, high = (row.get(name) for name in self.bounds or ("", ""))
        return "" if low is None or high is None else form.format(low=low, high=high)

    def small(self, row: Row) -> str:
        """Return the interval as it stands below its value; empty where it has none."""
        signed = self.form.startswith("+")
        form = "{low:+.4f} to {high:+.4f}" if signed else "{low:.3f} to {high:.3f}"
        return self.ends(row, form) if self.has_bounds else ""


def interval_of(rows: Sequence[Row]) -> str:
    """Return ``95 % interval``, by the level of the rows."""
    return interval_name(rows[0]["confidence"])


@dataclass(frozen=True)
class Sheet:
    """A table with its title, sentences above it and notes below it.

    Attributes:
        title: above all.
        columns: from the left; the first names the row.
        rows: those of programs.
        lead: sentences above the table.
        notes: sentences below it.
        is_narrow: whether one blank stands between the columns of a terminal, and not two.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    lead: Sequence[str] = ()
    notes: Sequence[str] = ()
    is_narrow: bool = False

    @property
    def shown(self) -> list[Column]:
        """The columns that any row needs."""
        return [
            column
            for column in self.columns
            if not column.is_sparse or any(column.value(row) not in (None, 0) for row in self.rows)
        ]

    def is_best(self, column: Column, row: Row) -> bool:
        """Return whether no row has a better value."""
        value = column.value(row)
        if column.better is None or value is None:
            return False
        values = [one for each in self.rows if (one := column.value(each)) is not None]
        return is_tied(value, max(values) if column.better == "more" else min(values))
