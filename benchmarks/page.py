"""Write docs/benchmarks.md from the results: ``python benchmarks/page.py``.

Nothing in the page is typed by hand but its introduction, which is here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
PAGE = REPOSITORY / "docs" / "benchmarks.md"

INTRODUCTION = """\
# Benchmarks

How fast and how large this is, beside what one would use instead. `make bench` measures all of it
again and writes this page from what it found; `make bench ARGS="--quick"` only tries whether every
script runs. Data sets are not shipped: a script whose data is absent is skipped
([data_sets.py](../benchmarks/data_sets.py) says where it looks).

- Systems that are compared get the same input, take turns within one process tree, and are timed by
  wall and by CPU seconds of all their threads and processes. A figure of several rounds is the
  median, a ratio the median of the ratios within a round. What should be equal is compared.
- Other packages live in environments of their own below `build/benchmarks/peers`, made by the
  scripts, with pinned versions; none is ever installed beside ours.
- Memory is the highest resident size of a process.
- An aim that was missed stands as missed.
"""


def rows_of(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown, numbers to the right."""
    kept = list(rows)
    numeric = [
        bool(kept) and all(isinstance(row[i], int | float | None) for row in kept)
        for i in range(len(columns))
    ]
    lines = [columns, ["---:" if right else "---" for right in numeric]]
    lines += [[shown(cell) for cell in row] for row in kept]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(cell: str | float | None) -> str:
    """Return a cell: four digits of a number that count, more of one near 1 (a cosine)."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell.replace("|", "\\|")
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.6g}" if 0.99 <= abs(cell) < 1 else f"{cell:.4g}"


def limits_table(limits: Iterable[Mapping[str, Any]]) -> str:
    """Return what was aimed at, with a plain word on each."""
    rows = []
    for limit in limits:
        value, aim, least = limit["value"], limit["aim"], limit["at_least"]
        kept = value >= aim if least else value <= aim
        bound = f"{'at least' if least else 'at most'} {shown(aim)} {limit['unit']}".rstrip()
        told = f"{shown(float(value))} {limit['unit']}".rstrip()
        rows.append([limit["what"], told, bound, "kept" if kept else "**missed**"])
    return rows_of(["aimed at", "measured", "limit", ""], rows)


def measured_on(found: Mapping[str, Any]) -> str:
    """Return one line: the date, the machine, and versions."""
    machine = found["machine"]
    bfloat16 = "with" if machine["bfloat16_instructions"] else "without"
    where = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']:g} GB, "
        f"{bfloat16} bfloat16 instructions, {machine['system']}; load {machine['load']:g}"
    )
    versions = {"python": machine["python"], **found["versions"]}
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"Measured {found['when']} on {where}. {told}."


def section(found: Mapping[str, Any]) -> str:
    """Return what one script found."""
    parts = [f"## {found['title']}", f"```\n{found['command']}\n```"]
    for table in found["tables"]:
        parts += [table["caption"], rows_of(table["columns"], table["rows"])]
    if found["limits"]:
        parts.append(limits_table(found["limits"]))
    if found["notes"]:
        parts.append("\n".join(f"- {note}" for note in found["notes"]))
    return "\n\n".join([*parts, measured_on(found)])


def page(results: Path = RESULTS) -> str:
    """Return the page of all results of a folder, by their titles."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in results.glob("*.json")]
    sections = [section(one) for one in sorted(found, key=lambda one: str(one["title"]))]
    return "\n\n".join([INTRODUCTION.rstrip(), *sections]) + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    click.echo(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
