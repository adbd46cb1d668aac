"""What an evaluation costs when nothing, or little, changed; ratios of one run on one machine.

    python benchmarks/incremental.py
    python benchmarks/incremental.py --documents 100000 --parts corpus
    python benchmarks/incremental.py --documents 1000000 --parts words
    python benchmarks/incremental.py --quick

Every line is a process of its own, ``rag-assets evaluate``, from the start of the interpreter to
its end: wall time, CPU time of all its threads, and how many partitions it computed.

- ``handbook``: the example of the repository, without a change; nothing may be written.
- ``cells``: a grid of 20 retrievers at 5 cut-offs, 100 cells, without a change.
- ``grid``: 8 retrievers at 6 cut-offs, cold. The overhead is the wall time less the seconds that
  the computations of all partitions took themselves, which the store keeps.
- ``corpus``: a made corpus (words by Zipf's law, a seed fixes them) under BM25, all-MiniLM-L6-v2
  and their fusion: cold, without a change, with another ``k`` of the fusion, and with one edited
  document.
- ``words``, where it is asked for: documents of 60 words in one file, 1,000 questions, two BM25 and
  their fusion: cold, without a change, with one edited document, and with another ``k1``; and the
  most memory of its own, without pages of files that are mapped. Its limits are for a million
  documents.

With ``--parts`` the result is written below ``build``: it is not the whole.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import duckdb
import numpy as np
import pyarrow.parquet as pq
from hybrid_experiment import write_config
from measured_process import measured
from result import Limit, Result, Table
from zipf_corpus import write_corpus

from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.sql_paths import quoted

REPOSITORY = Path(__file__).resolve().parents[1]
HANDBOOK = REPOSITORY / "data" / "handbook"
BUILD = REPOSITORY / "build" / "benchmarks"
PARTS = ("handbook", "cells", "grid", "corpus")
ASKED = ("words",)
"""Parts that are measured only where they are asked for."""
N_QUERIES, SEED = 200, 0
"""Of the part ``corpus``."""

NO_ARTIFACTS = ("history", "evaluations", "measurements")


class Run(NamedTuple):
    """One evaluation in a process of its own; seconds, and GB that are no pages of files."""

    wall: float
    cpu: float
    computed: int
    private: float


class Experiment:
    """A folder with an experiment, and a store of its own."""

    def __init__(self, folder: Path, store: Path, name: str, result: Result) -> None:
        self.folder, self.store, self.name, self.result = folder, store, name, result

    def evaluate(self, what: str) -> Run:
        """Run ``rag-assets evaluate``, print and note what it cost, and return it."""
        command = [sys.executable, "-m", "rag_assets.cli", "evaluate", str(self.folder)]
        cost = measured([*command, "--store", str(self.store)])
        found = re.search(r"(\d+) partitions computed", cost.printed)
        if found is None:
            raise SystemExit(f"{self.folder}: {cost.printed}")
        run = Run(cost.wall, cost.cpu, int(found[1]), cost.private / 1e9)
        click.echo(
            f"{what:<44}{run.wall:8.2f} s wall {run.cpu:8.2f} s CPU {run.computed:6d} computed"
            f" {run.private:6.3f} GB of its own"
        )
        self.result.tables[0].rows.append([what, *run])
        return run

    def limit(self, what: str, value: float, aim: float, unit: str = "s") -> None:
        """Note a value beside what it must not be above."""
        self.result.limits.append(Limit(what, value, aim, unit))

    def artifacts(self) -> set[Path]:
        """Return all files of results."""
        root = self.store / self.name
        files = {file for file in root.rglob("*") if file.is_file()}
        return {f for f in files if f.relative_to(root).parts[0] not in NO_ARTIFACTS}

    def pure_seconds(self) -> float:
        """Return how long the computations of all partitions took, with writing what they gave."""
        stages = ", ".join(map(quoted, STAGES))
        measured = (
            f"FROM measurements WHERE experiment = {quoted(self.name)} AND what IN ({stages})"
        )
        with duckdb.connect(str(self.store / "warehouse.duckdb"), read_only=True) as warehouse:
            rows = warehouse.execute(f"SELECT sum(seconds) {measured}").fetchall()
        return float(rows[0][0])

    def n_vectors(self) -> int:
        """Return how many texts were embedded."""
        files = (self.store / "cache" / "embeddings").rglob("*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files)


def handbook(folder: Path, result: Result) -> None:
    """Evaluate the handbook twice."""
    experiment = Experiment(HANDBOOK, folder / "handbook-store", "handbook", result)
    experiment.evaluate("handbook, cold")
    before = experiment.artifacts()
    again = min(experiment.evaluate("handbook, without a change") for _ in range(3))
    experiment.limit("handbook, without a change", again.wall, 3)
    written = len(experiment.artifacts() - before)
    experiment.limit("handbook, without a change: artifacts written", written, 0, "")


def copied(
    folder: Path, retrievers: Mapping[str, Any], top_k: list[int], result: Result
) -> Experiment:
    """Return the handbook with other retrievers, named as its folder."""
    name = folder.name
    shutil.copytree(HANDBOOK, folder / name, ignore=shutil.ignore_patterns("*.yaml"))
    config = {
        "name": name,
        "dataset": {"format": "markdown"},
        "chunking": {"parts": {"strategy": "recursive", "max_tokens": 200, "overlap": 30}},
        "retrievers": retrievers,
        "top_k": top_k,
        "primary": f"ndcg@{top_k[0]}",
    }
    (folder / name / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")
    return Experiment(folder / name, folder / f"{name}-store", name, result)


def bm25(n: int) -> dict[str, Any]:
    """Return so many lexical retrievers."""
    return {
        f"bm25-{i}": {
            "type": "bm25",
            "chunking": "parts",
            "analyzer": "english",
            "k1": 0.5 + i / 10,
        }
        for i in range(n)
    }


def cells(folder: Path, result: Result, retrievers: int = 20) -> None:
    """Evaluate 100 cells twice."""
    top_k = [1, 3, 5, 10, 100]
    experiment = copied(folder, bm25(retrievers), top_k, result)
    what = f"{retrievers * len(top_k)} cells"
    experiment.evaluate(f"{what}, cold")
    before = experiment.artifacts()
    again = min(experiment.evaluate(f"{what}, without a change") for _ in range(3))
    experiment.limit(f"{what}, without a change", again.wall, 6)
    written = len(experiment.artifacts() - before)
    experiment.limit(f"{what}, without a change: artifacts written", written, 0, "")


def grid(folder: Path, result: Result) -> None:
    """Evaluate 8 retrievers at 6 cut-offs, and compare with the sum of their computations."""
    retrievers = bm25(6)
    for i in (1, 2):
        inputs = [f"bm25-{i}", f"bm25-{i + 2}"]
        retrievers[f"fused-{i}"] = {"type": "rrf", "inputs": inputs, "candidates": 100}
    experiment = copied(folder, retrievers, [1, 3, 5, 10, 20, 100], result)
    run = experiment.evaluate("8 retrievers x 6 top_k, cold")
    pure = experiment.pure_seconds()
    result.notes.append(f"8 retrievers x 6 top_k: the computations themselves took {pure:.2f} s.")
    experiment.limit("8 retrievers x 6 top_k: overhead over them", run.wall - pure, 8)


def corpus(folder: Path, result: Result, n_documents: int, model: str) -> None:
    """Evaluate a corpus, change the fusion, then edit one document."""
    write_corpus(folder / "corpus", n_documents, N_QUERIES, np.random.default_rng(SEED))
    write_config(folder / "corpus", model, 60)
    experiment = Experiment(folder / "corpus", folder / "corpus-store", "corpus", result)
    what = f"{n_documents:,} documents"
    cold = experiment.evaluate(f"{what}, cold")
    embedded = experiment.n_vectors()
    experiment.evaluate(f"{what}, without a change")
    write_config(folder / "corpus", model, 10)
    _of_cold(experiment, cold, f"{what}, another k of the fusion")
    _edit(folder / "corpus" / "documents.jsonl", n_documents // 2)
    _of_cold(experiment, cold, f"{what}, one edited document")
    again = experiment.n_vectors() - embedded
    result.notes.append(f"Texts embedded: {embedded:,} cold, {again:,} after the edit.")


def words(folder: Path, result: Result, n_documents: int) -> None:
    """Evaluate a corpus without a model, edit one document, then change one of two BM25."""
    corpus = folder / "words"
    write_corpus(corpus, n_documents, 1_000, np.random.default_rng(SEED), n_words=60)
    _two_bm25(corpus, 1.2)
    experiment = Experiment(corpus, folder / "words-store", "words", result)
    what = f"{n_documents:,} documents of 60 words"
    cold = experiment.evaluate(f"{what}, cold")
    again = min(experiment.evaluate(f"{what}, without a change") for _ in range(3))
    experiment.limit(f"{what}, without a change", again.wall, 1.6)
    _edit(corpus / "documents.jsonl", n_documents // 2)
    edit = experiment.evaluate(f"{what}, one edited document")
    experiment.limit(f"{what}, edit, of the cold wall time", 100 * edit.wall / cold.wall, 25, "%")
    _two_bm25(corpus, 0.9)
    other = experiment.evaluate(f"{what}, another k1")
    experiment.limit(f"{what}, k1, of the cold wall time", 100 * other.wall / cold.wall, 12, "%")
    private = max(run.private for run in (cold, again, edit, other))
    aim = 0.4 + 24e-9 * n_documents
    experiment.limit(f"{what}, most memory of its own", private, aim, "GB")


def _two_bm25(folder: Path, k1: float) -> None:
    bm25 = {"type": "bm25", "chunking": "whole"}
    config = {
        "name": "words",
        "dataset": {"format": "jsonl", "judge": "document"},
        "chunking": {"whole": {"strategy": "none"}},
        "retrievers": {
            "english": {**bm25, "analyzer": "english", "k1": k1},
            "plain": {**bm25, "analyzer": "whitespace"},
            "both": {"type": "rrf", "inputs": ["english", "plain"]},
        },
        "top_k": [10],
        "metrics": ["ndcg", "recall"],
        "primary": "ndcg@10",
    }
    (folder / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")


def _edit(file: Path, row: int) -> None:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[row] = lines[row].replace(".", " edited.")
    file.write_text("".join(lines), encoding="utf-8")


def _of_cold(experiment: Experiment, cold: Run, what: str) -> None:
    run = experiment.evaluate(what)
    experiment.limit(f"{what}, of the cold wall time", 100 * run.wall / cold.wall, 5, "%")
    experiment.limit(f"{what}, of the cold CPU time", 100 * run.cpu / cold.cpu, 5, "%")


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=BUILD / "incremental", help="emptied first")
    parser.add_argument("--parts", nargs="+", choices=PARTS + ASKED)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--quick", action="store_true", help="two retrievers, no embedding")
    return parser.parse_args()


def main() -> None:
    """Measure the parts that are asked for."""
    asked = parsed()
    command = "python benchmarks/incremental.py"
    result = Result("incremental", "What a repeated evaluation costs", command)
    caption = "Each row is one `rag-assets evaluate`, from the start of the interpreter to its end."
    result.tables.append(
        Table(caption, ["", "wall s", "CPU s", "partitions computed", "private GB"], [])
    )
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for part in ["cells"] if asked.quick else asked.parts or PARTS:
        place = asked.folder.absolute() / part
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        if part == "corpus":
            corpus(place, result, asked.documents, asked.model)
        elif part == "words":
            words(place, result, asked.documents)
        elif part == "cells":
            cells(place, result, 2 if asked.quick else 20)
        else:
            {"handbook": handbook, "grid": grid}[part](place, result)
    result.of_packages(["dagster", "duckdb", "pyarrow", "torch"])
    whole = not (asked.quick or asked.parts)
    name = "incremental.quick.json" if asked.quick else "incremental.part.json"
    result.write(None if whole else BUILD / name)


if __name__ == "__main__":
    main()
