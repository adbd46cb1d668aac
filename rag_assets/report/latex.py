"""Any sheet as LaTeX, for a paper, with ``booktabs``; the best value of a column is bold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rag_assets.plain_text import one_line
from rag_assets.report.sheet import Column, Row, Sheet

_ESCAPES = str.maketrans(
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
    """Return a table for each sheet that has columns."""
    return "\n".join("".join(_lines(sheet)) for sheet in sheets if sheet.columns)


def _lines(sheet: Sheet) -> Iterator[str]:
    columns = sheet.in_lines
    layout = "".join("l" if column.is_text else "r" for column in columns)
    yield "% \\usepackage{booktabs}\n\\begin{table}\n\\centering\n"
    caption = " ".join(filter(None, (_sentence(sheet.title), *map(_sentence, sheet.notes))))
    if caption:
        yield f"\\caption{{{caption}}}\n"
    head = _line(latex_text(column.heading) for column in columns)
    yield f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{head}\\midrule\n"
    for row in sheet.rows:
        yield _line(_cell(sheet, column, row) for column in columns)
    yield "\\bottomrule\n\\end{tabular}\n\\end{table}\n"


def _line(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\\n"


def _cell(sheet: Sheet, column: Column, row: Row) -> str:
    text = column.text(row)
    if not text:
        return "--"
    if column.is_text:
        return latex_text(text)
    number = re.sub(r"(?<![\w.])-(?=\d)", "$-$", latex_text(text))  # an exponent keeps its hyphen
    # A line that begins with a bracket would be an option of the end of the line before.
    number = f"{{}}{number}" if number.startswith("[") else number
    return f"\\textbf{{{number}}}" if sheet.is_best(column, row) else number


def _sentence(text: str) -> str:
    """Return a title or a note, with a point at its end."""
    text = text.strip()
    return latex_text(text if text.endswith((".", "!", "?")) else f"{text}.") if text else ""


def latex_text(text: str) -> str:
    """Return a text in which LaTeX finds no command; line ends are blanks."""
    return one_line(text).translate(_ESCAPES)
