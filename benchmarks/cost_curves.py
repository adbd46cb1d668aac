"""How time and memory grow with documents, queries, retrievers, cut-offs, and evaluations.

    python benchmarks/cost_curves.py [--quick] [--curves NAME ...]

Each point is a process of its own, from the start of the interpreter to its end. One size grows and
the others stay small. ``exponent`` is the slope between the points of the last decade on a log-log
scale, of the CPU time above that of the smallest point: 1 is linear. Where little more time is
spent than at the smallest point it is the slope of the whole time. The curves are drawn into
docs/images/cost_curves.svg.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
from curve_plot import Line, Panel, write_plot
from made_experiment import Size, write_experiment
from made_history import write_history
from peers import REPOSITORY, peak_bytes
from result import Limit, Result, Table

FOLDER = REPOSITORY / "build" / "benchmarks" / "cost_curves"
PLOT = REPOSITORY / "docs" / "images" / "cost_curves.svg"
CHILD = "--child"

COLD, AGAIN = "cold", "without a change"
EVALUATIONS = "evaluations"
READERS = {
    "leaderboard": ["leaderboard"],
    "history": ["history"],
    "gate": ["gate", "--against", "previous"],
    "plan": ["plan"],
    AGAIN: ["evaluate"],
}
ROUNDS = 3

STEEPEST, SLOWEST = 1.15, 1.0
GROWN = 0.5
"""Seconds: where less is added to the time of the smallest point, its noise is in the exponent."""

Sizes = dict[str, list[int]]

FULL: Sizes = {
    "documents": [100, 1000, 10_000, 31_623, 100_000],
    "queries": [100, 316, 1000, 3162, 10_000],
    "retrievers": [1, 2, 4, 10, 20, 40],
    "top_k": [1, 3, 6, 12, 24],
    EVALUATIONS: [1, 10, 100, 1000, 10_000],
}
QUICK: Sizes = {"documents": [10, 100], EVALUATIONS: [1, 20]}

MADE: dict[str, Callable[[int], Size]] = {
    "documents": lambda n: Size(documents=n),
    "queries": lambda n: Size(queries=n),
    "retrievers": lambda n: Size(retrievers=n, vectors=False),
    "top_k": lambda n: Size(top_k=n),
}


@dataclass(frozen=True)
class Cost:
    """What a process took: seconds, and the most bytes that it held."""

    wall: float
    cpu: float
    peak: int


@dataclass
class Curve:
    """What one size costs.

    Attributes:
        name: what grows.
        sizes: how many of it.
        costs: what was done -> its cost at each size.
    """

    name: str
    sizes: list[int]
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    def add(self, what: str, cost: Cost) -> None:
        """Add the cost at the next size."""
        self.costs.setdefault(what, []).append(cost)
        size = self.sizes[len(self.costs[what]) - 1]
        told = f"{cost.wall:8.2f} s wall {cost.cpu:8.2f} s CPU {cost.peak / 1e6:8.0f} MB"
        click.echo(f"{size:>8,} {self.name:<12}{what:<20}{told}")

    def exponent(self, what: str) -> float:
        """Return how steeply the CPU time grows over the last decade."""
        seconds = [cost.cpu for cost in self.costs[what]]
        last = len(seconds) - 1
        before = next(n for n, size in enumerate(self.sizes) if size * 10 >= self.sizes[-1])
        before = min(before, last - 1)
        first_size, first = 0, 0.0
        if before > 0 and seconds[before] - seconds[0] > GROWN:
            first_size, first = self.sizes[0], seconds[0]
        sizes = [self.sizes[n] - first_size for n in (before, last)]
        above = [seconds[n] - first for n in (before, last)]
        return math.log(above[1] / above[0]) / math.log(sizes[1] / sizes[0])


def run(*words: str) -> Cost:
    """Run a command of ``rag-assets`` in a process of its own.

    Raises:
        SystemExit: it failed.
    """
    before, started = _cpu(), time.perf_counter()
    command = [sys.executable, str(Path(__file__).resolve()), CHILD, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall, cpu = time.perf_counter() - started, _cpu() - before
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return Cost(wall, cpu, int(json.loads(done.stdout.splitlines()[-1])))


def child(words: Sequence[str]) -> None:
    """Run a command in this process, and print last how many bytes it held."""
    from rag_assets.cli.main import main as command

    command(list(words), standalone_mode=False)
    click.echo(f"\n{peak_bytes()}")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def grown(name: str, sizes: list[int]) -> Curve:
    """Measure a cold evaluation and one without a change at each size."""
    curve = Curve(name, sizes)
    for size in sizes:
        folder, store = FOLDER / f"{name}-{size}", FOLDER / "store"
        write_experiment(folder, MADE[name](size))
        words = ("evaluate", str(folder), "--store", str(store))
        curve.add(COLD, run(*words))
        curve.add(AGAIN, run(*words))
        shutil.rmtree(folder)
        shutil.rmtree(store)
    return curve


def histories(sizes: list[int], rounds: int = ROUNDS) -> Curve:
    """Measure what reads or lengthens a history of each size: the median of some rounds.

    With one round it is but a trial, of two commands.
    """
    curve = Curve(EVALUATIONS, sizes)
    folder, source = FOLDER / "past", FOLDER / "source"
    write_experiment(folder, Size(documents=200, queries=50, retrievers=3, top_k=5))
    run("evaluate", str(folder), "--store", str(source))
    for size in sizes:
        store = FOLDER / f"store-{size}"
        write_history(source, store, folder.name, size)
        place = (str(folder), "--store", str(store))
        run("evaluate", *place)  # looks at the copied files once
        readers = READERS.items() if rounds > 1 else list(READERS.items())[:2]
        for what, words in readers:
            curve.add(what, _median([run(words[0], *place, *words[1:]) for _ in range(rounds)]))
        shutil.rmtree(store)
    return curve


def _median(costs: Sequence[Cost]) -> Cost:
    return sorted(costs, key=lambda cost: cost.wall)[len(costs) // 2]


def table(curve: Curve) -> Table:
    """Return a row for each size and what was done."""
    return Table(
        caption=f"What {curve.name} cost: seconds of a process with its start, and its memory.",
        columns=[curve.name, "what", "wall s", "CPU s", "peak MB"],
        rows=[
            [size, what, cost.wall, cost.cpu, cost.peak / 1e6]
            for what, costs in curve.costs.items()
            for size, cost in zip(curve.sizes, costs, strict=True)
        ],
    )


def limits(curve: Curve) -> list[Limit]:
    """Return the exponents, and of a history the seconds at its greatest length."""
    found = [
        Limit(f"exponent of {curve.name}, {what}", curve.exponent(what), STEEPEST, "")
        for what in curve.costs
    ]
    if curve.name == EVALUATIONS:
        for what in ("leaderboard", "history"):
            cost = curve.costs[what][-1]
            text = f"{what} at {curve.sizes[-1]:,} evaluations, with the start of the process"
            found.append(Limit(text, cost.wall, SLOWEST, "s"))
            more = cost.cpu - curve.costs[what][0].cpu
            text = f"{what}: CPU seconds more than with one evaluation"
            found.append(Limit(text, more, SLOWEST / 2, "s"))
    return found


def panel(curve: Curve) -> Panel:
    """Return the curve as it is drawn."""
    lines = [
        Line(what, [cost.wall for cost in costs], [cost.peak / 1e6 for cost in costs])
        for what, costs in curve.costs.items()
    ]
    return Panel(
        curve.name.replace("evaluations", "evaluations in the history"), curve.sizes, lines
    )


def measure(sizes: Sizes, rounds: int) -> list[Curve]:
    """Measure curves."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    curves = [
        histories(chosen, rounds) if name == EVALUATIONS else grown(name, chosen)
        for name, chosen in sizes.items()
    ]
    shutil.rmtree(FOLDER)
    return curves


def main() -> None:
    """Measure, draw and write the result."""
    if sys.argv[1:2] == [CHILD]:
        child(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sizes of two curves")
    parser.add_argument("--curves", nargs="+", choices=FULL, help="only these; no result is kept")
    asked = parser.parse_args()
    sizes = QUICK if asked.quick else FULL
    sizes = {name: sizes[name] for name in sizes if not asked.curves or name in asked.curves}
    curves = measure(sizes, 1 if asked.quick else ROUNDS)
    part = "quick" if asked.quick else "some" if asked.curves else None
    result = Result(
        "cost_curves",
        "How cost grows",
        "python benchmarks/cost_curves.py",
        tables=[table(curve) for curve in curves],
        limits=[limit for curve in curves for limit in limits(curve)],
        notes=NOTES,
    )
    result.of_packages(["bm25s", "duckdb", "faiss-cpu", "numpy", "pyarrow"])
    build = FOLDER.parent
    plot = PLOT if part is None else build / f"cost_curves.{part}.svg"
    write_plot(plot, [panel(curve) for curve in curves])
    result.write(None if part is None else build / f"cost_curves.{part}.json")


NOTES = [
    "Only one size grows at a time. The others stay at 1,000 documents of 40 words, 100 queries, "
    "one BM25 and one exact search over vectors of 32 dimensions, top_k 10, and 4 metrics.",
    "The history consists of copies of the files of one evaluation, with other ids, times and "
    "means, and sometimes another configuration. The store holds the artifacts of one evaluation.",
    "All pairs of retrievers are compared (780 pairs of 40), so this part must be quadratic: "
    "about 2 ms of CPU for each pair on 100 queries. Everything else grows with the number of "
    "cells.",
    "Fifty evaluations of a history are one file, and of the files only the newest are read for "
    "the last rows. The ids of "
    "all rows are read each time, to see whether a row is missing that we can make again from a "
    "snapshot.",
]

if __name__ == "__main__":
    main()
