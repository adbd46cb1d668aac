"""Rows as JSON, CSV or Markdown, the forms for programs and for pasting, and numbers as text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rag_assets.plain_text import json_safe, markdown, shielded

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)

Row = dict[str, object]
"""Name of a column -> value, for programs."""

Rows = Sequence[Mapping[str, object]]


def formatted(rows: Rows, form: str) -> str:
    """Return rows as ``json``, ``csv`` or ``markdown``, ending with a newline.

    Without rows no column is known: then all but ``json`` are empty.
    """
    if not rows and form != "json":
        return ""
    match form:
        case "json":
            return as_json(list(rows))
        case "csv":
            return _csv(rows)
        case _:
            return _markdown(rows)


def dated(rows: Rows, form: str, evaluation_id: str, started: str) -> list[Row]:
    """Return rows for a program with the evaluation that they are of, and when it began.

    Markdown is for people, who see which one it is; its rows stay as they are.
    """
    named = form in ("json", "csv")
    of = {"evaluation_id": evaluation_id, "started": started} if named else {}
    return [{**row, **of} for row in rows]


def as_json(value: object) -> str:
    """Return a value as indented JSON, ending with a newline; no terminal obeys what is in it."""
    return json_safe(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


def columns_of(rows: Rows) -> list[str]:
    """Return the names of all columns, in the order that they have in every row.

    A column that the first rows lack stands before the one that follows it in its own row, so the
    order does not depend on which row is the first.
    """
    names: list[str] = []
    for row in rows:
        if row.keys() <= set(names):
            continue
        place = len(names)
        for name in reversed(list(row)):
            if name in names:
                place = names.index(name)
            else:
                names.insert(place, name)
    return names


def _csv(rows: Rows) -> str:
    names = columns_of(rows)
    cells = ([row.get(name, "") for name in names] for row in rows)
    return _csv_line(names) + "".join(map(_csv_line, cells))


def _csv_line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    # The writer quotes a carriage return only where one ends its lines.
    csv.writer(text, lineterminator="\r\n").writerow(map(_shielded, cells))
    return text.getvalue().removesuffix("\r\n") + "\n"


def _shielded(value: object) -> object:
    """Return a cell that no spreadsheet program takes for a formula; a number stays one."""
    return shielded(value) if isinstance(value, str) and not _NUMBER.fullmatch(value) else value


def _markdown(rows: Rows) -> str:
    names = columns_of(rows)
    lines = [[markdown(name) for name in names], ["---"] * len(names)]
    lines += [[markdown(_cell(name, row.get(name))) for name in names] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def four_places(value: float) -> str:
    """Return a number with four decimals; what they would show as 0 has an exponent."""
    small = 0 < abs(value) < 0.0001
    return f"{value:.1e}" if small else f"{value:.4f}"


def rough(value: float) -> str:
    """Return a time or a size with two decimals; from 1000 on without."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return p_text(value) if name.startswith("p_") else four_places(value)
    return str(value)


def size_text(size: float) -> str:
    """Return ``1.2 MB``; units are powers of 1000, as disks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def interval_name(confidence: float) -> str:
    """Return ``95 % interval``."""
    return f"{100 * confidence:g} % interval"


def interval_text(row: dict[str, Any]) -> str:
    """Return the bounds of a row, in brackets; a dash where there are none."""
    if row["low"] is None:
        return "-"
    return f"[{row['low']:.4f}, {row['high']:.4f}]"


def p_text(p: float | None) -> str:
    """Return p with four decimals, or with an exponent; it is never shown as 0, which it is not.

    Only a p-value below the smallest float is stored as 0.
    """
    if p is None:
        return "-"
    return four_places(p) if p > 0 else "<1e-300"
