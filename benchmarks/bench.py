"""Run every benchmark, each in a process of its own, one after the other: `make bench`.

    python benchmarks/bench.py                      # all, full size; then docs/benchmarks.md
    python benchmarks/bench.py --quick              # small sizes; says only that all of them run
    python benchmarks/bench.py --only grid metrics
    python benchmarks/bench.py --data DIR           # cranfield/ ... (data_sets.py)

A full run writes ``benchmarks/results/NAME.json`` of each, and then the page (``page.py``). One
that needs data which is not there is skipped; one that fails is named at the end, and the exit
status is 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import data_sets

FOLDER = Path(__file__).resolve().parent

BENCHMARKS: dict[str, tuple[str, ...]] = {
    "metrics": (),
    "embedding": ("squad",),
    "incremental": (),
    "lexical": (),
    "vector_search": (),
    "cost_curves": (),
    "grid": ("cranfield", "squad"),
    "profiles": ("squad",),
}
"""Script -> the data that it needs (``data_sets.PLACES``), in the order in which they run."""


def missing_data(name: str) -> str | None:
    """Return why a benchmark cannot run here, or None."""
    for needed in BENCHMARKS[name]:
        try:
            data_sets.find(needed)
        except SystemExit as missing:
            return str(missing)
    return None


def run(name: str, *, quick: bool) -> bool:
    """Run one and say how long it took; return whether it succeeded."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *(["--quick"] if quick else [])]
    click.echo(f"\n== {name}")
    started = time.perf_counter()
    status = subprocess.run(command, check=False).returncode
    took = time.perf_counter() - started
    click.echo(f"== {name}: {f'FAILED, exit {status}' if status else 'done'}, {took:.0f} s")
    return status == 0


def main() -> None:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; no results, no page")
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS))
    parser.add_argument("--data", type=Path, help=f"of data sets; else {data_sets.VARIABLE}")
    asked = parser.parse_args()
    if asked.data is not None:
        os.environ[data_sets.VARIABLE] = str(asked.data.absolute())
    failed = []
    for name in asked.only:
        if reason := missing_data(name):
            click.echo(f"\n== {name}: skipped: {reason}")
        elif not run(name, quick=asked.quick):
            failed.append(name)
    if not asked.quick:
        subprocess.run([sys.executable, str(FOLDER / "page.py")], check=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
