"""Exact search of vectors beside faiss, what building an index takes, and what a graph loses.

    python benchmarks/vector_search.py [--quick]

Random vectors of length 1 and 384 dimensions, 10^4, 10^5 and 10^6 of them, with a seed. ``ours``
opens an index from disk as the stage ``embedding_runs`` does, and gives the exact order in float64.
``faiss tuned`` is ``faiss.knn`` (the kernel of IndexFlatIP, without its copy) over vectors in
memory, with the threads, blocks and use of matrices that were fastest before; ``faiss`` is the same
as it comes. Each searches in a process of its own, by turns, after a search that is not counted.
What is compared is what is searched for: the same queries, k 10 and 100.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from peers import REPOSITORY, ask
from result import Limit, Result, Table

SYSTEMS = Path(__file__).with_name("vector_search_systems.py")
FOLDER = REPOSITORY / "build" / "benchmarks" / "vector_search"
DEPTHS = (10, 100)
COMPARED = ("ours", "tuned", "plain")
NAMES = {"ours": "ours", "tuned": "faiss tuned", "plain": "faiss"}
VECTOR_BYTES = 384 * 4


def system(what: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    """Return what one system reports from a process of its own."""
    own = {"PYTHONPATH": str(REPOSITORY)}
    return ask(sys.executable, SYSTEMS, [what, json.dumps(given, default=str)], own)


def compare(count: int, n_queries: int, rounds: int) -> dict[str, Any]:
    """Return of one size: the build, the settings of faiss, and each system's rounds."""
    folder = FOLDER / str(count)
    system("make", folder=folder, count=count, queries=n_queries)
    shutil.rmtree(folder / "index", ignore_errors=True)
    built = system("build", folder=folder, count=count)
    # A million vectors are searched as a hundred thousand are.
    tuned_on = FOLDER / str(min(count, 100_000)) if count > 100_000 else folder
    settings = {"tuned": system("tune", folder=tuned_on), "plain": {}}
    times: dict[str, list[dict[str, Any]]] = {name: [] for name in COMPARED}
    for number in range(rounds):
        for name in COMPARED if number % 2 == 0 else COMPARED[::-1]:
            times[name].append(system(name, folder=folder, settings=settings.get(name, {})))
    found = {name: dict(np.load(folder / f"{name}.npz")) for name in COMPARED}
    return {
        "count": count,
        "queries": n_queries,
        "build": built,
        "settings": settings["tuned"],
        "times": times,
        "same": {k: same_chunks(found["ours"][str(k)], found["tuned"][str(k)]) for k in DEPTHS},
    }


def same_chunks(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the share of queries for which both found the same chunks."""
    return float(np.mean([set(a) == set(b) for a, b in zip(ours, theirs, strict=True)]))


def ratio(times: dict[str, list[dict[str, Any]]], k: int, kind: str) -> float:
    """Return ours divided by tuned faiss, the median over the rounds."""
    pairs = zip(times["ours"], times["tuned"], strict=True)
    return float(median(ours[str(k)][kind] / theirs[str(k)][kind] for ours, theirs in pairs))


def search_table(sizes: list[dict[str, Any]]) -> Table:
    """Return the rows of the exact searches."""
    rows = []
    for one in sizes:
        for k in DEPTHS:
            for name, rounds in one["times"].items():
                wall = median(found[str(k)]["wall"] for found in rounds)
                cpu = median(found[str(k)]["cpu"] for found in rounds)
                peak = max(found["peak"] for found in rounds)
                share = peak / (one["count"] * VECTOR_BYTES)
                opened = median(found["open"] for found in rounds)
                rate = one["queries"] / wall
                rows.append([one["count"], k, NAMES[name], rate, wall, cpu, opened, peak, share])
    for row in rows:
        row[7] = row[7] / 1e6
    caption = (
        "Exact search: queries per second, wall and CPU seconds for all queries, seconds to open "
        "the index, peak memory in MB with all mapped pages, and peak memory divided by the size "
        "of the vectors"
    )
    columns = ["vectors", "k", "system", "queries/s", "wall", "cpu", "open", "peak", "of vectors"]
    return Table(caption, columns, rows)


def ratio_table(sizes: list[dict[str, Any]]) -> Table:
    """Return ours beside tuned faiss."""
    rows = [
        [
            one["count"],
            k,
            ratio(one["times"], k, "wall"),
            ratio(one["times"], k, "cpu"),
            one["same"][k],
            one["settings"][str(k)]["threads"],
            one["settings"][str(k)]["block"],
        ]
        for one in sizes
        for k in DEPTHS
    ]
    caption = (
        "Ours divided by tuned faiss, median over rounds; the share of queries with the same "
        "chunks; and the threads and block that were fastest for faiss"
    )
    columns = ["vectors", "k", "wall", "cpu", "same chunks", "threads", "block"]
    return Table(caption, columns, rows)


def build_table(sizes: list[dict[str, Any]]) -> Table:
    """Return what building an index from a full vector cache took."""
    rows = []
    for one in sizes:
        built, size = one["build"], one["count"] * VECTOR_BYTES
        peak = built["peak"]
        rows.append([one["count"], built["wall"], built["cpu"], peak / 1e6, peak / size])
    caption = (
        "The stage embedding_index when all texts are in the vector cache: wall and CPU seconds, "
        "peak memory in MB with all mapped pages, and peak memory divided by the size of the "
        "vectors"
    )
    return Table(caption, ["vectors", "wall", "cpu", "peak", "of vectors"], rows)


def graph_table(sizes: list[tuple[int, int]]) -> Table:
    """Return what graphs cost and lose, by numbers of vectors and of independent directions."""
    rows: list[list[Any]] = []
    for count, directions in sizes:
        folder = FOLDER / f"graph-{count}"
        shutil.rmtree(folder / f"hnsw-{directions}", ignore_errors=True)
        found = system("graph", folder=folder, count=count, directions=directions)
        rates = [found["queries"] / found[name] for name in ("seconds", "exact_seconds")]
        rows.append([count, directions, found["build"], *rates, found["recall"]])
    caption = (
        "index: hnsw with its defaults (m 32, ef_construction 200, ef_search 256): seconds to "
        "build with one thread, queries per second with the graph and with exact search, and "
        "recall@10 against exact search"
    )
    columns = ["vectors", "directions", "build", "queries/s", "exact queries/s", "recall"]
    return Table(caption, columns, rows)


def limits(largest: dict[str, Any]) -> list[Limit]:
    """Return what was aimed at for the largest size."""
    count, times = largest["count"], largest["times"]
    found = [
        Limit(f"search of {count:,}, k {k}, wall, ours / tuned faiss", ratio(times, k, "wall"), *at)
        for k in DEPTHS
        for at in [(1.2, "x")]
    ]
    size = count * VECTOR_BYTES
    searching = max(one["peak"] for one in times["ours"]) / size
    found.append(Limit(f"peak of searching {count:,} / size of the vectors", searching, 1.3, "x"))
    # It also has their texts and ids in memory.
    building = largest["build"]["peak"] / size
    found.append(Limit(f"peak of building {count:,} / size of the vectors", building, 1.4, "x"))
    return found


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 vectors, no result")
    quick = parser.parse_args().quick
    full = [(10_000, 1_000, 5), (100_000, 500, 5), (1_000_000, 500, 3)]
    sizes = [(2_000, 50, 1)] if quick else full
    measured = [compare(*size) for size in sizes]
    result = Result(
        "vector_search",
        "Exact search of vectors, compared with faiss",
        "python benchmarks/vector_search.py",
    )
    result.tables = [search_table(measured), ratio_table(measured), build_table(measured)]
    graphs = [(10_000, 32), (10_000, 384), (100_000, 32)]
    result.tables.append(graph_table([(2_000, 32)] if quick else graphs))
    result.limits = [] if quick else limits(measured[-1])
    result.notes = [
        "Peak memory is VmHWM. It also counts the pages of mapped files that are in memory: the "
        "vectors that ours searches, and the file that building writes. The system takes these "
        "pages back whenever it needs memory, so both work with less.",
        "Below 128,000 numbers (333 queries of 384 dimensions) faiss 1.15 takes queries one at a "
        "time; ours and the tuned faiss multiply matrices earlier.",
        "Random vectors with 384 independent directions are the hardest case for a graph; "
        "vectors with 32 directions in 384 dimensions are more like those that a model makes "
        "from texts.",
    ]
    result.of_packages(["faiss-cpu", "numpy", "pyarrow"])
    result.write(FOLDER.parent / "vector_search.quick.json" if quick else None)


if __name__ == "__main__":
    main()
