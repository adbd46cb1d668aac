"""How long means of metrics take, from Parquet files, beside pytrec_eval and ranx.

    python benchmarks/metrics.py                              # 10,000 queries, 1,000 deep
    python benchmarks/metrics.py --queries 100000 --depth 100
    python benchmarks/metrics.py --quick                      # 200 queries, 100 deep, without ranx

Made data: each query has 30 judged documents, 20 of them in its run. Every contender reads the same
two files and gives the same means, which are compared. Ours and pytrec_eval take turns in this
process; ranx runs in an environment of its own: with an empty cache of compiled code (cold), with a
filled one (cached), and a second time in one process (warm). Peak memory is that of a process for
each.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from made_run import make_data
from peers import REPOSITORY, ask, peak_bytes, python_with

# Ours (`result`, `rag_assets`) is imported where it is used: ranx's environment has none of it.

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
RANX = ["ranx==0.3.21"]
FOLDER = REPOSITORY / "build" / "benchmarks" / "metrics"
QUICK = REPOSITORY / "build" / "benchmarks" / "metrics.quick.json"


class Took(NamedTuple):
    """Seconds of one turn."""

    wall: float
    cpu: float


def ours(folder: Path) -> Means:
    """The means by this package."""
    import pyarrow as pa

    from rag_assets.evaluation.leaderboard import mean
    from rag_assets.evaluation.metric_names import Metric
    from rag_assets.evaluation.metrics import query_metrics
    from rag_assets.store.parquet_files import read_parquet

    metrics = [Metric(measure, k) for measure in NAMES for k in CUTOFFS]
    metrics.append(Metric("mrr", max(CUTOFFS)))
    run, judgments = folder / "run.parquet", folder / "judgments.parquet"
    queries = pa.table({"query_id": read_parquet(judgments, ["query_id"])["query_id"].unique()})
    cells = [("run", k) for k in CUTOFFS]
    tables = query_metrics({"run": run}, {"j": judgments}, {"run": "j"}, queries, cells, metrics)
    named = {
        str(m): mean(tables["run", m.cutoff or 0][m.column].to_pylist()) or 0.0 for m in metrics
    }
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


def _nested(path: Path, value: str) -> dict[str, dict[str, Any]]:
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["query_id", "unit_id", value])
    nested: dict[str, dict[str, Any]] = {}
    for query_id, item, number in zip(*(c.to_pylist() for c in table.columns), strict=True):
        nested.setdefault(query_id, {})[item] = number
    return nested


def with_ranx(folder: Path) -> Means:
    """The means by ranx; in an environment of its own."""
    import pandas as pd
    from ranx import Qrels, Run, evaluate

    columns = ["query_id", "unit_id"]
    names = {"q_id_col": "query_id", "doc_id_col": "unit_id"}
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


def timed(name: str, folder: Path) -> tuple[Took, Means]:
    """Return what one contender takes, and its means."""
    cpu, started = time.process_time(), time.perf_counter()
    means = CONTENDERS[name](folder)
    return Took(time.perf_counter() - started, time.process_time() - cpu), means


def child(name: str, folder: Path, repeats: int) -> None:
    """Run one contender in this process and print times, means and peak memory as JSON."""
    results = [timed(name, folder) for _ in range(repeats)]
    found = {"took": [one for one, _ in results], "means": results[0][1], "bytes": peak_bytes()}
    sys.stdout.write(f"{json.dumps(found)}\n")


def in_child(
    python: Path | str, name: str, folder: Path, repeats: int, **extra: str
) -> dict[str, Any]:
    """Run one contender in a process of its own, with extra environment variables."""
    arguments = ["--child", name, "--folder", str(folder), "--repeats", str(repeats)]
    return ask(python, Path(__file__), arguments, extra)


def race(folder: Path, repeats: int) -> tuple[dict[str, list[Took]], dict[str, Means]]:
    """Let the contenders of this process take turns."""
    names = ["rag_assets", "pytrec_eval"]
    took: dict[str, list[Took]] = {name: [] for name in names}
    means: dict[str, Means] = {}
    for number in range(repeats):
        for name in names if number % 2 == 0 else reversed(names):
            one, means[name] = timed(name, folder)
            took[name].append(one)
    return took, means


def race_ranx(folder: Path) -> tuple[dict[str, list[Took]], Means, int]:
    """Run ranx cold, cached and warm; return the seconds, the means and the peak memory."""
    python, cache = python_with("ranx", RANX), folder / "numba_cache"
    shutil.rmtree(cache, ignore_errors=True)
    cold = in_child(python, "ranx", folder, 1, NUMBA_CACHE_DIR=str(cache))
    again = in_child(python, "ranx", folder, 2, NUMBA_CACHE_DIR=str(cache))
    turns = {"cold": cold["took"][0], "cached": again["took"][0], "warm": again["took"][1]}
    took = {f"ranx {name}": [Took(*one)] for name, one in turns.items()}
    return took, again["means"], again["bytes"]


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3, help="turns of each contender")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where made data is put")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    return parser.parse_args()


def rows(
    took: dict[str, list[Took]], means: dict[str, Means], peaks: dict[str, int]
) -> list[list[str | float | int | None]]:
    """Return a row of each contender, with what it takes as many times as ours."""
    ours_takes, ours_gives = took["rag_assets"], means["rag_assets"]
    found: list[list[str | float | int | None]] = []
    for name, turns in took.items():
        alternates = len(turns) == len(ours_takes)
        pairs = zip(turns, ours_takes if alternates else [_middle(ours_takes)], strict=True)
        ratio = statistics.median(one.wall / own.wall for one, own in pairs)
        who = name.split()[0]
        apart = max(abs(value - ours_gives[key]) for key, value in means[who].items())
        middle = _middle(turns)
        found.append([name, middle.wall, middle.cpu, ratio, peaks[who] / 1e9, apart])
    return found


def _middle(turns: list[Took]) -> Took:
    return Took(*(statistics.median(values) for values in zip(*turns, strict=True)))


def main() -> None:
    """Make the data, race and write the result."""
    asked = parsed()
    if asked.child:
        child(asked.child, asked.folder, asked.repeats)
        return
    from result import Limit, Result, Table

    queries, depth, repeats = asked.queries, asked.depth, asked.repeats
    if asked.quick:
        queries, depth, repeats = 200, 100, 1
    folder = asked.folder / f"{queries}x{depth}"
    if not (folder / "judgments.parquet").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make_data(folder, queries, depth)
    took, means = race(folder, repeats)
    own = {"PYTHONPATH": str(REPOSITORY)}
    peaks = {name: in_child(sys.executable, name, folder, 1, **own)["bytes"] for name in took}
    if not asked.quick:
        of_ranx, means["ranx"], peaks["ranx"] = race_ranx(folder)
        took |= of_ranx
    result = Result("metrics", "Metrics", "python benchmarks/metrics.py")
    result.tables.append(
        Table(
            f"{len(means['rag_assets'])} means over {queries:,} queries, {depth:,} ranks each, "
            "from Parquet files to the means. `times ours` is of wall seconds; `apart` is how "
            "far any mean is from ours.",
            ["", "wall s", "CPU s", "times ours", "peak GB", "apart"],
            rows(took, means, peaks),
        )
    )
    apart = max(float(row[-1] or 0.0) for row in result.tables[0].rows)
    result.limits.append(Limit("means differ from those of others", apart, 1e-6, ""))
    result.notes.append(
        f"Turns of ours and of pytrec_eval in one process: {repeats}. For ranx: a process with "
        "an empty cache of compiled code (cold), one with a filled cache (cached), and a second "
        "time in the same process (warm)."
    )
    result.of_packages(["duckdb", "numpy", "pyarrow", "pytrec_eval-terrier"])
    if not asked.quick:
        result.versions |= dict(one.split("==") for one in RANX)
    result.write(QUICK if asked.quick else None)


if __name__ == "__main__":
    main()
