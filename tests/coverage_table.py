"""Prints which share of the lines and branches of each package tests ran. ``make coverage``."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from coverage import Coverage

COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def table(files: Mapping[str, Mapping[str, int]]) -> str:
    """Return the table of some files (paths below the repository) with coverage.py's summaries."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
    for path, summary in files.items():
        parts = Path(path).parts
        for package in (parts[1] if len(parts) > 2 else "(modules)", "all"):
            sums[package] = [
                a + summary[name] for a, name in zip(sums[package], COUNTS, strict=True)
            ]
    lines = [f"{'package':<16} {'lines':>6} {'run':>7} {'branches':>9} {'taken':>7}"]
    for package in sorted(sums, key=lambda name: (name == "all", name)):
        n_lines, run, branches, taken = sums[package]
        shares = f"{run / max(n_lines, 1):>7.1%} {branches:>9} {taken / max(branches, 1):>7.1%}"
        lines.append(f"{package:<16} {n_lines:>6} {shares}")
    return "\n".join(lines)


def main() -> int:
    coverage = Coverage()
    coverage.load()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        coverage.json_report(outfile=str(report))
        files = json.loads(report.read_text(encoding="utf-8"))["files"]
    sys.stdout.write(table({path: each["summary"] for path, each in files.items()}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
