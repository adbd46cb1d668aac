"""Tables for a terminal, and the cells that they share.

Where a terminal is narrow a table has fewer columns: a name is folded, a number never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column as RichColumn
from rich.table import Table
from rich.text import Text

from rag_assets.plain_text import one_line
from rag_assets.sheets.sheet import Sheet

NARROWEST = 8
"""Characters to which a column of names is folded before a column is left out."""


class FittedTable(Table):
    """A table without lines; columns from the right are left out until the others fit.

    Columns with ``no_wrap`` keep their width; before another is left out, texts are folded to their
    ``min_width``, or to :data:`NARROWEST` characters and whole words of the header. The first
    column, names and texts stay, and so do columns whose headers are in ``required``. A line below
    the table says what is left out.
    """

    def __init__(self, *, required: Sequence[str] = (), narrow: bool = False) -> None:
        """Begin without columns; ``narrow`` has one blank between them in place of two."""
        super().__init__(box=None, pad_edge=False, collapse_padding=narrow)
        self.required = frozenset(required)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines of the table, and what is left out."""
        widths = [_widths(console, options, column) for column in self.columns]
        least = [narrow for narrow, _ in widths]
        gap = 1 if self.collapse_padding else 2
        present = list(range(len(least)))
        for number in reversed(present[1:]):
            if sum(least[n] + gap for n in present) - gap <= options.max_width:
                break
            column = self.columns[number]
            is_number = column.no_wrap or column.justify == "right"
            if is_number and str(column.header) not in self.required:
                present.remove(number)
        room = options.max_width - gap * (len(present) - 1)
        fitted = {number: widths[number][1] for number in present}
        if sum(least[number] for number in present) > room:
            fitted = {}  # nothing more can be left out: rich folds texts as far as it must
        while sum(fitted.values()) > room:
            foldable = [number for number in fitted if fitted[number] > least[number]]
            fitted[max(foldable, key=fitted.__getitem__)] -= 1
        table = copy(self)
        table.columns = [  # a column knows where it stands
            replace(self.columns[number], width=fitted.get(number), min_width=None, _index=place)
            for place, number in enumerate(present)
        ]
        yield from Table.__rich_console__(table, console, options)
        out = [
            " ".join(str(column.header).replace("-\n", "").split())
            for number, column in enumerate(self.columns)
            if number not in present
        ]
        if out:
            yield Text(f"not shown, the terminal is too narrow: {', '.join(out)}", style="dim")


def _widths(console: Console, options: ConsoleOptions, column: RichColumn) -> tuple[int, int]:
    """Return how far a column is folded before another is left out, and its width with room."""
    free = options.update(max_width=10_000)
    cells = [Measurement.get(console, free, cell) for cell in (column.header, *column.cells)]
    width = max(cell.maximum for cell in cells)
    narrow = column.min_width or max(NARROWEST, cells[0].minimum)
    return (width if column.no_wrap else min(width, narrow)), width


def sheet_view(sheet: Sheet, styles: Mapping[str, str] = MappingProxyType({})) -> RenderableType:
    """Return a sheet for a terminal.

    Args:
        sheet: what to draw.
        styles: text of a cell or of the title -> how rich draws it.
    """
    columns = sheet.in_lines
    required = [column.title for column in columns if column.is_required]
    table = FittedTable(required=required, narrow=sheet.is_narrow)
    widths = {
        column.name: max((len(column.small(row)) - 1 for row in sheet.rows), default=0)
        for column in columns
    }
    has_marks = {column.name: any(row.get(column.mark) for row in sheet.rows) for column in columns}
    for column in columns:
        if column.is_text:
            widest = max(len(text) for text in (column.title, *map(column.text, sheet.rows)))
            table.add_column(
                one_line(column.title),
                no_wrap=column.is_whole,
                overflow="fold",
                min_width=None if column.min_width is None else min(column.min_width, widest),
            )
        else:
            lines = "\n".join(map(one_line, column.title.split("\n")))
            table.add_column(lines, justify="right", no_wrap=True)
    for row in sheet.rows:
        cells = []
        for column in columns:
            text = column.text(row)
            style = styles.get(text, "") if column.is_text else ""
            style = "bold green" if sheet.is_best(column, row) else style
            if not column.is_text and has_marks[column.name] and not row.get(column.mark):
                text = f"{text} " if text else ""  # numbers stand below each other
            if column.share and text:
                text = f"{text} {column.small(row).replace(' ', ''):>{widths[column.name]}}"
            cells.append(Text(one_line(text) or column.missing, style=style))
        table.add_row(*cells)
    lead, notes = map(plain_cell, sheet.lead), map(_note, sheet.notes)
    title = Text(one_line(sheet.title), style=styles.get(sheet.title, "bold"))
    head = [title] if sheet.title else []
    return Group(*head, *lead, *([table] if columns else []), *notes)


def _note(line: str) -> RenderableType:
    """Return a line below a table; one that begins with blanks keeps them where it is folded."""
    depth = len(line) - len(line.lstrip(" "))
    return Padding(plain_cell(line[depth:]), (0, 0, 0, depth)) if depth else plain_cell(line)


def sheets_view(sheets: Iterable[Sheet], styles: Mapping[str, str] = MappingProxyType({})) -> Group:
    """Return sheets below each other."""
    parts = [part for sheet in sheets for part in ("", sheet_view(sheet, styles))]
    return Group(*parts[1:])


def plain_cell(value: object) -> Text:
    """Return a text without what a terminal would obey; ids, names and values come from files."""
    return Text(one_line(str(value)))
