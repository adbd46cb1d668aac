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
IMAGES = REPOSITORY / "docs" / "images"

INTRODUCTION = """\
# Benchmarks

After this page you know how fast `rag-assets` is and how much memory it needs, compared with the
tools that you could use instead. `make bench` measures everything again and writes this page.
`make bench ARGS="--quick"` only checks that every script runs. Data sets are not shipped. A script
without its data is skipped ([data_sets.py](../benchmarks/data_sets.py) says where it looks).

- The systems in a comparison get the same input and take turns within one process tree. Times are
  wall seconds, and CPU seconds of all their threads and processes. A figure from several rounds is
  the median; a ratio is the median of the ratios within a round. If results should be equal, we
  compare them.
- Other packages have their own environments in `build/benchmarks/peers`. The scripts make
  these, with pinned versions. No other package is installed next to ours.
- Memory is the highest resident size of a process.
- If we missed an aim, the page says so.
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
    """Return what one script found, with its plot where it made one (images/NAME.svg)."""
    parts = [f"## {found['title']}", f"```\n{found['command']}\n```"]
    if (IMAGES / f"{found['name']}.svg").is_file():
        parts.append(f"![{found['title']}](images/{found['name']}.svg)")
    for table in found["tables"]:
        parts += [table["caption"], rows_of(table["columns"], table["rows"])]
    if found["limits"]:
        parts.append(limits_table(found["limits"]))
    if found["notes"]:
        parts.append("\n".join(f"- {note}" for note in found["notes"]))
    return "\n\n".join([*parts, measured_on(found)])


def page(results: Path | None = None) -> str:
    """Return the page of all results of a folder, by default ``results``, by their titles."""
    files = (RESULTS if results is None else results).glob("*.json")
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    sections = [section(one) for one in sorted(found, key=lambda one: str(one["title"]))]
    return "\n\n".join([INTRODUCTION.rstrip(), *sections]) + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    click.echo(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
