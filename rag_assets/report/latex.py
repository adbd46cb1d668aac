"""Tables for a paper: LaTeX that needs no package, with significance letters and bold best values.

Nothing but the environment ``tabular``, horizontal lines and bold letters is used, so any LaTeX
compiles them.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Mapping, Sequence

from rag_assets.evaluation.metric_names import best_value

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # In TeX's first font encoding, which is the default, there is no upright quotation mark.
    '"': "''",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")

Values = Mapping[str, Mapping[str, float | None]]
"""Name of a row -> column -> value."""

Better = Mapping[str, Mapping[str, Collection[str]]]
"""Name of a row -> column -> the rows that it is shown to be better than there."""


def escaped(text: str) -> str:
    """Return a text that LaTeX prints as it is; control characters become a blank."""
    plain = _CONTROL.sub(" ", text)
    # Two hyphens would be drawn as one dash, and some other pairs as one sign too.
    parts = (_ESCAPED.get(character, character) for character in plain)
    return "".join(parts).replace("--", "-{}-").replace("?`", "?{}`").replace("!`", "!{}`")


def score_table(values: Values, columns: Sequence[str], better: Better, caption: str) -> str:
    """Return a table with a letter a row, in the order given.

    The best value of a column is bold; equal ones to four decimals are bold alike. Raised
    letters name the rows that a value is shown to be better than.
    """
    letter_of = dict(zip(values, _letters(len(values)), strict=True))
    best = {column: _best(values, column) for column in columns}
    lines = []
    for name, row in values.items():
        cells = [f"\\textit{{{letter_of[name]}}}", escaped(name)]
        for column in columns:
            worse = better.get(name, {}).get(column, ())
            raised = [letter_of[other] for other in values if other in worse]
            cells.append(_value(row.get(column), best[column], _joined(raised, len(values))))
        lines.append(cells)
    return _table(["", "", *map(escaped, columns)], "ll" + "r" * len(columns), lines, caption)


def rows_table(
    names: Sequence[str], numeric: Collection[str], lines: Sequence[Sequence[str]], caption: str
) -> str:
    """Return a table of texts as they are; the columns of ``numeric`` are set to the right."""
    layout = "".join("r" if name in numeric else "l" for name in names)
    cells = [[escaped(text) for text in line] for line in lines]
    return _table([escaped(name) for name in names], layout, cells, caption)


def _table(head: Sequence[str], layout: str, lines: Sequence[Sequence[str]], caption: str) -> str:
    body = [" & ".join(cells) + r" \\" for cells in lines]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            *([f"\\caption{{{escaped(caption)}}}"] if caption else []),
            f"\\begin{{tabular}}{{{layout}}}",
            r"\hline",
            " & ".join(head) + r" \\",
            r"\hline",
            *body,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _letters(count: int) -> list[str]:
    """Return a, b, c and so on; numbers where these are too few."""
    if count <= len(string.ascii_lowercase):
        return list(string.ascii_lowercase[:count])
    return [str(number) for number in range(1, count + 1)]


def _joined(marks: Sequence[str], count: int) -> str:
    return ("" if count <= len(string.ascii_lowercase) else ",").join(marks)


def _best(values: Values, column: str) -> str | None:
    """Return the best value as it is shown."""
    best = best_value(column, (row.get(column) for row in values.values()))
    return None if best is None else f"{best:.4f}"


def _value(value: float | None, best: str | None, raised: str) -> str:
    if value is None:
        return "--"
    shown = f"{value:.4f}"
    text = f"\\textbf{{{shown}}}" if shown == best else shown
    return f"{text}$^{{{raised}}}$" if raised else text
