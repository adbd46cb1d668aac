"""Rows as JSON, CSV or Markdown: the forms for programs and for pasting."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence

FORMATS = ("table", "json", "csv", "markdown")
"""What ``--format`` takes; ``table`` is drawn for a terminal."""

Rows = Sequence[Mapping[str, object]]


def formatted(rows: Rows, form: str) -> str:
    """Return rows as ``json``, ``csv`` or ``markdown``, ending with a newline.

    Without rows no column is known: then ``csv`` and ``markdown`` are empty.
    """
    if not rows and form != "json":
        return ""
    match form:
        case "json":
            return json.dumps(list(rows), indent=2, ensure_ascii=False) + "\n"
        case "csv":
            return _csv(rows)
        case _:
            return _markdown(rows)


def columns_of(rows: Rows) -> list[str]:
    """Return the names of all columns, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _csv(rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns_of(rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _markdown(rows: Rows) -> str:
    names = columns_of(rows)
    lines = [names, ["---"] * len(names)]
    lines += [[_cell(row.get(name)) for name in names] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def four_places(value: float) -> str:
    """Return a number with four decimals; what they would show as 0 has an exponent."""
    small = 0 < abs(value) < 0.0001
    return f"{value:.1e}" if small else f"{value:.4f}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = four_places(value) if isinstance(value, float) else str(value)
    return " ".join(text.replace("|", "\\|").splitlines())
