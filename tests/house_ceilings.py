"""How large the package is, and what it may be at most: ``tests/house_ceilings.json``.

``python -m tests.house_ceilings`` prints the sizes and lowers every ceiling that is no longer
needed; it raises none. A budget stands in the file by name for as long as work on it goes on, and
is added to the ceilings. Adding one, or raising a ceiling, is done by hand: a reviewer sees it.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1] / "rag_assets"
FILE = Path(__file__).with_suffix(".json")

KINDS = {".py": "Python", ".js": "JavaScript", ".html": "templates"}
"""Suffix -> what its lines count as; all other files are data."""

WITH_CASES = (
    "assets", "code_versions", "engine", "experiment", "pipeline", "sources", "store",
)  # fmt: skip
"""The folders whose exceptions and conditions are counted."""

CASES = {ast.Raise: "raise", ast.ExceptHandler: "except", ast.If: "if", ast.IfExp: "if"}

Sizes = dict[str, dict[str, int]]
"""``lines``, ``modules`` and ``cases`` -> what is counted -> how many."""


def sizes(package: Path = PACKAGE) -> Sizes:
    """Return the sizes of a package.

    ``total`` lines and modules, ``lines`` of each kind of text, ``lines of folder`` and ``modules
    of folder`` of each folder at the top (``.``: files beside them), ``cases`` of ``WITH_CASES``.
    """
    lines: Counter[str] = Counter(dict.fromkeys([*KINDS.values(), "data"], 0))
    of_folder: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    cases: Counter[str] = Counter(dict.fromkeys(CASES.values(), 0))
    for file in _files(package):
        place = file.relative_to(package)
        folder = place.parts[0] if len(place.parts) > 1 else "."
        text = file.read_text(encoding="utf-8")
        n_lines = text.count("\n") + (not text.endswith("\n") and bool(text))
        lines[KINDS.get(file.suffix, "data")] += n_lines
        of_folder[folder] += n_lines
        if file.suffix == ".py":
            modules[folder] += 1
            if folder in WITH_CASES:
                cases.update(
                    CASES[type(node)] for node in ast.walk(ast.parse(text)) if type(node) in CASES
                )
    return {
        "total": {"lines": lines.total(), "modules": modules.total()},
        "lines": dict(sorted(lines.items())),
        "lines of folder": dict(sorted(of_folder.items())),
        "modules of folder": dict(sorted(modules.items())),
        "cases": dict(sorted(cases.items())),
    }


def excesses(found: Sizes, ceilings: Mapping[str, Any]) -> list[str]:
    """Return what is above its ceiling, a line each; an unlisted folder has the ceiling 0."""
    return [
        f"{what} {name}: {size:,}, at most {most:,}"
        for what, numbers in found.items()
        for name, size in numbers.items()
        if size > (most := ceilings[what].get(name, 0) + _budget(ceilings, what, name))
    ]


def lowered(found: Sizes, ceilings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ceilings that are nowhere higher, and no higher than needed."""
    low = {
        what: {
            name: min(most, found[what].get(name, 0))
            for name, most in ceilings[what].items()
            if found[what].get(name, 0)
        }
        for what in found
    }
    return {**ceilings, **low}


def _budget(ceilings: Mapping[str, Any], what: str, name: str) -> int:
    """Return what all budgets together add to a ceiling; one may be spent in any folder."""
    key = {"lines of folder": "lines", "modules of folder": "modules", "lines": "lines"}.get(
        what, name
    )
    return sum(budget.get(key, 0) for budget in ceilings["budgets"].values())


def _files(package: Path) -> Iterator[Path]:
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc":
            yield file


def main() -> None:
    found = sizes()
    ceilings = json.loads(FILE.read_text(encoding="utf-8"))
    FILE.write_text(json.dumps(lowered(found, ceilings), indent=1) + "\n", encoding="utf-8")
    told = [
        f"{what}: " + ", ".join(f"{name} {size:,}" for name, size in numbers.items())
        for what, numbers in found.items()
    ]
    told += excesses(found, ceilings) or ["nothing is above its ceiling"]
    sys.stdout.write("\n".join(told) + "\n")


if __name__ == "__main__":
    main()
