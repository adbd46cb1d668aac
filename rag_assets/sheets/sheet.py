"""A table as people read it, said once: a topic computes rows and names its columns.

Terminal (:mod:`rag_assets.sheets.terminal_table`), page (``cells.html``), notebook
(:mod:`rag_assets.sheets.notebook`), Markdown and LaTeX draw any sheet, so a number has the same
name, form and mark wherever it stands. Programs get the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rag_assets.evaluation.leaderboard import is_tied
from rag_assets.evaluation.metric_names import highest_value, lower_is_better
from rag_assets.evaluation.query_facts import ALL
from rag_assets.plain_text import one_line
from rag_assets.sheets.formats import (
    formatted,
    four_places,
    interval_name,
    p_text,
    rough,
    size_text,
)

Row = Mapping[str, Any]
Better = Literal["more", "less"]

TEXT, INTERVAL, P_VALUE, SIZE, ROUGH, VALUE = "text", "interval", "p", "size", "rough", "value"
"""Forms that are no format of a number; a form that ends with % writes a share as ``57 %``."""

MEAN = ".4f"
"""Form of a mean in [0, 1]; the page draws a bar behind it, and none behind other values."""

SIGNED = "+.4f"

_TEXTS = {P_VALUE: p_text, SIZE: size_text, ROUGH: rough, MEAN: four_places, VALUE: four_places}


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
        share: key of the share in [0, 1] that stands beside a count.
        mark: key of a sign that stands behind the value, such as ``*``.
        better: whether more or less of it is better, so that the best value is marked.
        missing: what stands in lines of text where a row has no value.
        is_required: stays where a terminal is narrow.
        is_whole: a text that is not folded.
        is_sparse: left out where no row has a value, or all counts are 0.
        is_page_only: lines of text have no room for it.
        min_width: characters to which a text is folded before another column is left out.
    """

    name: str
    title: str
    form: str = MEAN
    help: str = field(default="", kw_only=True)
    bounds: tuple[str, str] | None = field(default=None, kw_only=True)
    interval: str = field(default="", kw_only=True)
    share: str = field(default="", kw_only=True)
    mark: str = field(default="", kw_only=True)
    better: Better | None = field(default=None, kw_only=True)
    missing: str = field(default="-", kw_only=True)
    is_required: bool = field(default=False, kw_only=True)
    is_whole: bool = field(default=False, kw_only=True)
    is_sparse: bool = field(default=False, kw_only=True)
    is_page_only: bool = field(default=False, kw_only=True)
    min_width: int | None = field(default=None, kw_only=True)

    @property
    def heading(self) -> str:
        """The title in one line; a hyphen at the end of a line parts a word."""
        return " ".join(self.title.replace("-\n", "").split())

    @property
    def is_text(self) -> bool:
        """Whether it stands left."""
        return self.form == TEXT

    @property
    def has_bounds(self) -> bool:
        """Whether an interval stands beside the value."""
        return self.bounds is not None and self.form != INTERVAL

    @property
    def parts(self) -> tuple[Column, ...]:
        """The column, and one of its interval where that has a heading."""
        if not (self.has_bounds and self.interval):
            return (self,)
        return self, Column(f"{self.name}_interval", self.interval, INTERVAL, bounds=self.bounds)

    def value(self, row: Row) -> Any:  # noqa: ANN401 (whatever a row holds)
        """Return the value; of an interval its ends, None where they are not known."""
        if self.form == INTERVAL and self.bounds is not None:
            ends = tuple(row.get(name) for name in self.bounds)
            return None if None in ends else ends
        return row.get(self.name)

    def text(self, row: Row) -> str:
        """Return the value as it is written, with its mark; empty where there is none."""
        value = self.value(row)
        return "" if value is None else f"{self._written(value, row)}{row.get(self.mark) or ''}"

    def _written(self, value: Any, row: Row) -> str:  # noqa: ANN401 (whatever a row holds)
        if self.form == INTERVAL:
            return self.ends(row)
        if self.is_text or isinstance(value, str):
            return str(value)
        if self.form.endswith("%"):
            return f"{100 * value:{self.form[:-1]}f} %"
        return _TEXTS[self.form](value) if self.form in _TEXTS else format(value, self.form)

    def ends(self, row: Row, form: str = "[{low:.4f}, {high:.4f}]") -> str:
        """Return the interval of the value; empty where there is none."""
        low, high = (row.get(name) for name in self.bounds or ("", ""))
        return "" if low is None or high is None else form.format(low=low, high=high)

    def small(self, row: Row) -> str:
        """Return what stands small below a value: its interval or share; empty without one."""
        if self.share and row.get(self.share) is not None:
            return f"{100 * row[self.share]:.0f} %"
        signed = self.form.startswith("+")
        form = "{low:+.4f} to {high:+.4f}" if signed else "{low:.3f} to {high:.3f}"
        return self.ends(row, form) if self.has_bounds else ""

    def bar(self, row: Row) -> float | None:
        """Return the length of the bar behind a value on the page, in [0, 1]; None: no bar."""
        value = row.get(self.share) if self.share else self.value(row)
        if value is None or isinstance(value, str) or not (self.share or self.form == MEAN):
            return None
        return min(float(value), 1.0)


def interval_of(rows: Sequence[Row]) -> str:
    """Return ``95 % interval``, by the level of the rows."""
    return interval_name(rows[0]["confidence"])


def better_of(metric: str) -> Better:
    """Return whether more or less of a metric is better."""
    return "less" if lower_is_better(metric) else "more"


def form_of(metric: str) -> str:
    """Return the form of a metric's values; only means in [0, 1] that should be high have a bar."""
    return MEAN if highest_value(metric) == 1 and not lower_is_better(metric) else VALUE


def metric_column(
    metric: str,
    title: str = "",
    help: str = "",
    *,
    is_primary: bool = False,
    has_bounds: bool = False,
) -> Column:
    """Return the column of a metric: its best value is marked; a star names the primary one."""
    return Column(
        metric,
        title or f"{metric}{'*' if is_primary else ''}",
        form_of(metric),
        help=help,
        bounds=(f"{metric}_low", f"{metric}_high") if has_bounds else None,
        better=better_of(metric),
        is_required=is_primary,
    )


def of_split(split: str) -> str:
    """Return ``, test``, for the end of a title; empty where queries are not split."""
    return "" if split == ALL else f", {split}"


@dataclass(frozen=True)
class Sheet:
    """A table with its title, sentences above it and notes below it.

    Attributes:
        title: above all; empty: none.
        columns: from the left; the first names the row.
        rows: those of programs. One with a ``position`` of None is not among the best.
        lead: sentences above the table.
        notes: sentences below it.
        is_narrow: whether one blank stands between the columns of a terminal, and not two.
        best_of_row: whether the best value is that of a row, and not of a column.
        name: class of the table on the page.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    lead: Sequence[str] = ()
    notes: Sequence[str] = ()
    is_narrow: bool = False
    best_of_row: bool = False
    name: str = ""

    @property
    def visible(self) -> list[Column]:
        """The columns that any row needs."""
        return [column for column in self.columns if not column.is_sparse or self._needs(column)]

    @property
    def header(self) -> Column | None:
        """The column that names a row: the first of texts."""
        return next((column for column in self.columns if column.is_text), None)

    @property
    def in_text(self) -> list[Column]:
        """Those of them for which lines of text have room."""
        return [column for column in self.visible if not column.is_page_only]

    @property
    def in_lines(self) -> list[Column]:
        """The same; an interval is a column of its own."""
        return [part for column in self.in_text for part in column.parts]

    def _needs(self, column: Column) -> bool:
        values = (column.value(row) for row in self.rows)
        return any(value or isinstance(value, float) for value in values)

    def is_best(self, column: Column, row: Row) -> bool:
        """Return whether no other value of the column, or of the row, is better."""
        value = column.value(row)
        if column.better is None or value is None:
            return False
        if self.best_of_row:
            values = [other.value(row) for other in self.columns if other.better is not None]
        else:
            ranked = (other for other in self.rows if other.get("position", 1) is not None)
            values = [column.value(other) for other in ranked]
        best = max if column.better == "more" else min
        return is_tied(value, best((v for v in values if v is not None), default=value))

    def markdown(self) -> str:
        """Return the table as Markdown."""
        columns = self.in_lines
        lines = [{c.heading: c.text(row) or "-" for c in columns} for row in self.rows]
        return formatted(lines, "markdown")


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def sheets_latex(sheets: Iterable[Sheet]) -> str:
    """Return a table for each sheet that has columns, with ``booktabs``; the best value is bold."""
    return "\n".join("".join(_latex_lines(sheet)) for sheet in sheets if sheet.columns)


def _latex_lines(sheet: Sheet) -> Iterator[str]:
    columns = sheet.in_lines
    layout = "".join("l" if column.is_text else "r" for column in columns)
    yield "% \\usepackage{booktabs}\n\\begin{table}\n\\centering\n"
    caption = " ".join(
        filter(None, (_latex_sentence(sheet.title), *map(_latex_sentence, sheet.notes)))
    )
    if caption:
        yield f"\\caption{{{caption}}}\n"
    head = _latex_line(latex_text(column.heading) for column in columns)
    yield f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{head}\\midrule\n"
    for row in sheet.rows:
        yield _latex_line(_latex_cell(sheet, column, row) for column in columns)
    yield "\\bottomrule\n\\end{tabular}\n\\end{table}\n"


def _latex_line(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\\n"


def _latex_cell(sheet: Sheet, column: Column, row: Row) -> str:
    text = column.text(row)
    if not text or column.is_text:
        return latex_text(text) or "--"
    number = re.sub(r"(?<![\w.])-(?=\d)", "$-$", latex_text(text))  # an exponent keeps its hyphen
    # A line that begins with a bracket would be an option of the end of the line before.
    number = f"{{}}{number}" if number.startswith("[") else number
    return f"\\textbf{{{number}}}" if sheet.is_best(column, row) else number


def _latex_sentence(text: str) -> str:
    """Return a title or a note, with a point at its end."""
    text = text.strip()
    return latex_text(text if text.endswith((".", "!", "?")) else f"{text}.") if text else ""


def latex_text(text: str) -> str:
    """Return a text in which LaTeX finds no command; line ends are blanks."""
    return one_line(text).translate(_LATEX)
