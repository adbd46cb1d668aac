"""How long means of metrics take, from Parquet files, beside pytrec_eval and ranx.

    python benchmarks/metrics.py                              # 10,000 queries, 1,000 deep
    python benchmarks/metrics.py --queries 100000 --depth 100

Made data: each query has 30 judged documents, 20 of them in its run. Every contender reads the same
two files and gives the same means, which are compared. Ours and pytrec_eval take turns in this
process; ranx is installed by pip into an environment of its own and runs there: with an empty cache
of compiled code (cold), with a filled one (cached), and a second time in one process (warm). Peak
memory is that of a process for each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

Means = dict[str, float]
"""``measure@k``, or ``mrr`` -> its mean."""

CUTOFFS = (1, 3, 5, 10, 20, 100, 1000)
NAMES = {  # ours -> (that of pytrec_eval, that of ranx); these all three compute
    "ndcg": ("ndcg_cut", "ndcg"),
    "precision": ("P", "precision"),
    "recall": ("recall", "recall"),
    "map": ("map_cut", "map"),
    "hit_rate": ("success", "hit_rate"),
}
DOCUMENTS = 1_000_003  # a prime: steps of any length visit different documents
REPOSITORY = Path(__file__).resolve().parents[1]


def make_data(folder: Path, queries: int, depth: int) -> None:
    """Write ``run.parquet`` and ``judgments.parquet`` into ``folder``."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = np.random.default_rng(0)
    names = pa.array([f"document-{number}" for number in range(DOCUMENTS)])
    starts, steps = made.integers(1, DOCUMENTS, (2, queries))
    ranks = np.arange(depth)
    documents = (starts[:, None] + steps[:, None] * ranks) % DOCUMENTS
    ids = names.take(pa.array(documents.ravel()))
    query_ids = pa.array([f"query-{number}" for number in range(queries)])
    columns = {
        "query_id": query_ids.take(pa.array(np.repeat(np.arange(queries), depth))),
        "rank": pa.array(np.tile(ranks + 1, queries).astype(np.int32)),
        "score": pa.array(np.tile(depth - ranks, queries).astype(np.float64)),
        "item_id": ids,
        "chunk_id": ids,
        "document_id": ids,
    }
    pq.write_table(pa.table(columns), folder / "run.parquet", compression="zstd")
    # Ranks below the run's depth stand for documents that it does not hold.
    judged = np.sort(made.random((queries, depth)).argsort(axis=1)[:, :20], axis=1)
    judged = np.hstack([judged, np.tile(np.arange(depth, depth + 10), (queries, 1))])
    found = (starts[:, None] + steps[:, None] * judged) % DOCUMENTS
    ids = names.take(pa.array(found.ravel()))
    columns = {
        "query_id": query_ids.take(pa.array(np.repeat(np.arange(queries), judged.shape[1]))),
        "evidence_id": ids,
        "item_id": ids,
        "grade": pa.array(made.integers(0, 4, found.size).astype(np.int32)),
    }
    pq.write_table(pa.table(columns), folder / "judgments.parquet", compression="zstd")


def ours(folder: Path) -> Means:
    """The means by this package."""
    from rag_assets.evaluation.file_means import mean_metrics
    from rag_assets.evaluation.metric_names import Metric

    metrics = [Metric(measure, k) for measure in NAMES for k in CUTOFFS]
    metrics.append(Metric("mrr", max(CUTOFFS)))
    run, judgments = folder / "run.parquet", folder / "judgments.parquet"
    found = mean_metrics({"run": run}, judgments, metrics)["run"]
    named = {str(metric): value or 0.0 for metric, value in found.items()}
    return {"mrr": named.pop(f"mrr@{max(CUTOFFS)}"), **named}


def with_pytrec_eval(folder: Path) -> Means:
    """The means by pytrec_eval."""
    import pytrec_eval

    run, qrels = (
        _nested(folder / "run.parquet", "score"),
        _nested(folder / "judgments.parquet", "grade"),
    )
    cutoffs = ",".join(map(str, CUTOFFS))
    measures = {f"{theirs}.{cutoffs}" for theirs, _ in NAMES.values()} | {"recip_rank"}
    values = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    names = {f"{our}@{k}": f"{theirs}_{k}" for our, (theirs, _) in NAMES.items() for k in CUTOFFS}
    names["mrr"] = "recip_rank"
    return {our: statistics.fmean(q[name] for q in values.values()) for our, name in names.items()}


def _nested(path: Path, value: str) -> dict[str, dict[str, float]]:
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["query_id", "item_id", value])
    nested: dict[str, dict[str, float]] = {}
    for query_id, item, number in zip(*(c.to_pylist() for c in table.columns), strict=True):
        nested.setdefault(query_id, {})[item] = number
    return nested


def with_ranx(folder: Path) -> Means:
    """The means by ranx; in an environment of its own."""
    import pandas as pd
    from ranx import Qrels, Run, evaluate

    columns = ["query_id", "item_id"]
    names = {"q_id_col": "query_id", "doc_id_col": "item_id"}
    judgments = pd.read_parquet(folder / "judgments.parquet", columns=[*columns, "grade"])
    judgments["grade"] = judgments["grade"].astype("int64")  # it takes no other integers
    qrels = Qrels.from_df(judgments, score_col="grade", **names)
    scored = pd.read_parquet(folder / "run.parquet", columns=[*columns, "score"])
    run = Run.from_df(scored, score_col="score", **names)
    names = {f"{our}@{k}": f"{theirs}@{k}" for our, (_, theirs) in NAMES.items() for k in CUTOFFS}
    names["mrr"] = "mrr"
    found = evaluate(qrels, run, list(names.values()), make_comparable=True)
    return {our: float(found[theirs]) for our, theirs in names.items()}


CONTENDERS: dict[str, Callable[[Path], Means]] = {
    "rag_assets": ours,
    "pytrec_eval": with_pytrec_eval,
    "ranx": with_ranx,
}


def timed(name: str, folder: Path) -> tuple[float, Means]:
    """Return the seconds that one contender takes, and its means."""
    started = time.perf_counter()
    means = CONTENDERS[name](folder)
    return time.perf_counter() - started, means


def child(name: str, folder: Path, repeats: int) -> None:
    """Run one contender in this process and print times, means and peak memory as JSON."""
    results = [timed(name, folder) for _ in range(repeats)]
    # Not ru_maxrss: that of a child begins with the memory of the process that started it.
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    seconds = [one for one, _ in results]
    print(json.dumps({"seconds": seconds, "means": results[0][1], "bytes": peak}))  # noqa: T201


def in_child(python: str, name: str, folder: Path, repeats: int, **extra: str) -> dict[str, Any]:
    """Run one contender in a process of its own, with extra environment variables."""
    arguments = ["--child", name, "--folder", str(folder), "--repeats", str(repeats)]
    paths = "" if name == "ranx" else str(REPOSITORY)
    done = subprocess.run(
        [python, __file__, *arguments],
        env={**os.environ, "PYTHONPATH": paths, **extra},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ranx_python(folder: Path) -> str:
    """Return the interpreter of an environment with ranx, made when it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "ranx"], check=True)
    return str(python)


def race(folder: Path, repeats: int) -> tuple[dict[str, list[float]], dict[str, Means]]:
    """Let the contenders of this process take turns."""
    names = ["rag_assets", "pytrec_eval"]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    means: dict[str, Means] = {}
    for number in range(repeats):
        for name in names if number % 2 == 0 else reversed(names):
            took, means[name] = timed(name, folder)
            seconds[name].append(took)
    return seconds, means


def race_ranx(folder: Path, environment: Path) -> tuple[dict[str, list[float]], Means, int]:
    """Run ranx cold, cached and warm; return the seconds, the means and the peak memory."""
    python, cache = ranx_python(environment), folder / "numba_cache"
    shutil.rmtree(cache, ignore_errors=True)
    cold = in_child(python, "ranx", folder, 1, NUMBA_CACHE_DIR=str(cache))
    again = in_child(python, "ranx", folder, 2, NUMBA_CACHE_DIR=str(cache))
    cached, warm = again["seconds"]
    seconds = {"ranx cold": cold["seconds"], "ranx cached": [cached], "ranx warm": [warm]}
    return seconds, again["means"], again["bytes"]


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3, help="turns of each contender")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "benchmark")
    parser.add_argument("--without-ranx", action="store_true")
    parser.add_argument("--child", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Make the data, race and report."""
    options = parsed()
    if options.child:
        child(options.child, options.folder, options.repeats)
        return
    folder = options.folder / f"{options.queries}x{options.depth}"
    if not (folder / "judgments.parquet").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make_data(folder, options.queries, options.depth)
    seconds, means = race(folder, options.repeats)
    memory = {name: in_child(sys.executable, name, folder, 1)["bytes"] for name in seconds}
    if not options.without_ranx:
        of_ranx, means["ranx"], memory["ranx"] = race_ranx(folder, options.folder / "ranx")
        seconds |= of_ranx
    reference = means["rag_assets"]
    lines = [f"{options.queries} queries x {options.depth} ranks, {len(reference)} metrics"]
    ours_takes = statistics.median(seconds["rag_assets"])
    for name, times in seconds.items():
        middle = statistics.median(times)
        every = " ".join(f"{one:.2f}" for one in times)
        lines.append(f"{name:12} {middle:7.2f} s  {middle / ours_takes:5.1f} x ours  ({every})")
    lines += [f"{name:12} {peak / 1e9:7.2f} GB at its peak" for name, peak in memory.items()]
    for name, found in means.items():
        apart = max(abs(value - reference[metric]) for metric, value in found.items())
        lines.append(f"{name:12} means differ from ours by at most {apart:.1e}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
