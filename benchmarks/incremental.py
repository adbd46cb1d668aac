"""What an evaluation costs when nothing, or little, changed; ratios of one run on one machine.

    python benchmarks/incremental.py build/incremental
    python benchmarks/incremental.py build/incremental --documents 100000 --parts corpus

Every line is a process of its own, ``rag-assets evaluate``, from the start of the interpreter to
its end: wall time, CPU time of all its threads, and how many partitions it computed.

- ``handbook``: the example of the repository, without a change; nothing may be written.
- ``cells``: a grid of 20 retrievers at 5 cut-offs, 100 cells, without a change.
- ``grid``: 8 retrievers at 6 cut-offs, cold. The overhead is the wall time less the seconds that
  the computations of all partitions took themselves, which the store keeps.
- ``corpus``: a made corpus (words by Zipf's law, a seed fixes them) under BM25, all-MiniLM-L6-v2
  and their fusion: cold, without a change, with another ``k`` of the fusion, and with one edited
  document.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pyarrow.parquet as pq

from rag_assets.embedding.models import DEFAULT_MODEL
from rag_assets.pipeline.measurements import Measurements
from rag_assets.pipeline.stages import STAGES

HANDBOOK = Path(__file__).resolve().parents[1] / "data" / "handbook"
PARTS = ("handbook", "cells", "grid", "corpus")
N_WORDS, N_QUERIES, SEED = 40, 200, 0
VOCABULARY, EXPONENT = 20_000, 1.1
NO_ARTIFACTS = ("history", "evaluations", "measurements")


class Run(NamedTuple):
    """One evaluation in a process of its own; seconds."""

    wall: float
    cpu: float
    computed: int


class Experiment:
    """A folder with an experiment, and a store of its own."""

    def __init__(self, folder: Path, store: Path, name: str) -> None:
        self.folder, self.store, self.name = folder, store, name

    def evaluate(self, what: str) -> Run:
        """Run ``rag-assets evaluate``, print what it cost, and return it."""
        command = [sys.executable, "-m", "rag_assets.cli", "evaluate", str(self.folder)]
        before, started = _cpu(), time.perf_counter()
        done = subprocess.run(
            [*command, "--store", str(self.store)], capture_output=True, text=True, check=False
        )
        wall, cpu = time.perf_counter() - started, _cpu() - before
        found = re.search(r"(\d+) partitions computed", done.stdout)
        if done.returncode or found is None:
            raise SystemExit(f"{self.folder}: {done.stderr}")
        run = Run(wall, cpu, int(found[1]))
        click.echo(f"{what:<44}{wall:8.2f} s wall {cpu:8.2f} s CPU {run.computed:6d} computed")
        return run

    def artifacts(self) -> set[Path]:
        """Return all files of results."""
        root = self.store / self.name
        files = {file for file in root.rglob("*") if file.is_file()}
        return {f for f in files if f.relative_to(root).parts[0] not in NO_ARTIFACTS}

    def pure_seconds(self) -> float:
        """Return how long the computations of all partitions took, with writing what they gave."""
        measured = Measurements(self.store / self.name / "measurements").all()
        return sum(row["seconds"] or 0.0 for row in measured if row["what"] in STAGES)

    def n_vectors(self) -> int:
        """Return how many texts were embedded."""
        files = (self.store / "cache" / "embeddings").rglob("*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def limit(what: str, value: float, most: float, unit: str = "s") -> None:
    """Print a value beside what it must stay below."""
    verdict = "ok" if value < most else "MISSED"
    click.echo(f"  {what:<42}{value:8.2f} {unit}, must be below {most:g} {unit}: {verdict}")


def handbook(folder: Path) -> None:
    """Evaluate the handbook twice."""
    experiment = Experiment(HANDBOOK, folder / "handbook-store", "handbook")
    experiment.evaluate("handbook, cold")
    before = experiment.artifacts()
    again = min(experiment.evaluate("handbook, without a change") for _ in range(3))
    limit("without a change", again.wall, 3)
    click.echo(f"  artifacts written: {len(experiment.artifacts() - before)}")


def copied(folder: Path, name: str, retrievers: Mapping[str, Any], top_k: list[int]) -> Experiment:
    """Return the handbook with other retrievers."""
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
    return Experiment(folder / name, folder / f"{name}-store", name)


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


def cells(folder: Path) -> None:
    """Evaluate 100 cells twice."""
    experiment = copied(folder, "cells", bm25(20), [1, 3, 5, 10, 100])
    experiment.evaluate("100 cells, cold")
    before = experiment.artifacts()
    again = min(experiment.evaluate("100 cells, without a change") for _ in range(3))
    limit("without a change", again.wall, 6)
    click.echo(f"  artifacts written: {len(experiment.artifacts() - before)}")


def grid(folder: Path) -> None:
    """Evaluate 8 retrievers at 6 cut-offs, and compare with the sum of their computations."""
    retrievers = bm25(6)
    for i in (1, 2):
        inputs = [f"bm25-{i}", f"bm25-{i + 2}"]
        retrievers[f"fused-{i}"] = {"type": "rrf", "inputs": inputs, "candidates": 100}
    experiment = copied(folder, "grid", retrievers, [1, 3, 5, 10, 20, 100])
    run = experiment.evaluate("8 retrievers x 6 top_k, cold")
    pure = experiment.pure_seconds()
    click.echo(f"  computations of all partitions            {pure:8.2f} s")
    limit("overhead over them", run.wall - pure, 8)


def write_corpus(folder: Path, n_documents: int) -> None:
    """Write documents of words by Zipf's law, and queries of words of one of them each."""
    chance = np.random.default_rng(SEED)
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = ["".join(chance.choice(syllables, size=3)) for _ in range(VOCABULARY)]
    weights = 1 / np.arange(1, VOCABULARY + 1) ** EXPONENT
    drawn = chance.choice(VOCABULARY, size=(n_documents, N_WORDS), p=weights / weights.sum())
    folder.mkdir(parents=True)
    with (folder / "documents.jsonl").open("w", encoding="utf-8") as file:
        for number, row in enumerate(drawn):
            text = " ".join(words[word] for word in row)
            file.write(json.dumps({"id": f"d{number:07d}", "text": f"{text}."}) + "\n")
    queries, labels = [], []
    for number, target in enumerate(chance.choice(n_documents, size=N_QUERIES, replace=False)):
        asked = " ".join(words[word] for word in sorted(set(drawn[target]))[-5:])
        queries.append({"query_id": f"q{number}", "text": asked})
        labels.append({"query_id": f"q{number}", "doc_id": f"d{target:07d}"})
    for name, rows in (("queries", queries), ("judgments", labels)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def write_config(folder: Path, model: str, k: int) -> None:
    """Write the experiment on the corpus."""
    config = {
        "name": "corpus",
        "dataset": {"format": "jsonl", "judge": "document"},
        "chunking": {"whole": {"strategy": "none"}},
        "retrievers": {
            "bm25": {"type": "bm25", "chunking": "whole", "analyzer": "whitespace"},
            "dense": {"type": "embedding", "chunking": "whole", "model": model},
            "hybrid": {"type": "rrf", "inputs": ["bm25", "dense"], "k": k},
        },
        "top_k": [10],
        "metrics": ["ndcg", "recall"],
        "primary": "ndcg@10",
    }
    (folder / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")


def corpus(folder: Path, n_documents: int, model: str) -> None:
    """Evaluate a corpus, change the fusion, then edit one document."""
    write_corpus(folder / "corpus", n_documents)
    write_config(folder / "corpus", model, 60)
    experiment = Experiment(folder / "corpus", folder / "corpus-store", "corpus")
    cold = experiment.evaluate(f"{n_documents:,} documents, cold")
    embedded = experiment.n_vectors()
    click.echo(f"  texts embedded: {embedded}")
    experiment.evaluate("without a change")
    write_config(folder / "corpus", model, 10)
    again = experiment.evaluate("another k of the fusion")
    limit("of the cold time", 100 * again.wall / cold.wall, 5, "%")
    limit("of the cold CPU time", 100 * again.cpu / cold.cpu, 5, "%")
    file = folder / "corpus" / "documents.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[n_documents // 2] = lines[n_documents // 2].replace(".", " edited.")
    file.write_text("".join(lines), encoding="utf-8")
    edited = experiment.evaluate("one edited document")
    click.echo(f"  texts embedded: {experiment.n_vectors() - embedded}")
    limit("of the cold time", 100 * edited.wall / cold.wall, 5, "%")
    limit("of the cold CPU time", 100 * edited.cpu / cold.cpu, 5, "%")


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where corpora and stores are put; emptied first")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for part in asked.parts:
        place = folder / part
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        if part == "corpus":
            corpus(place, asked.documents, asked.model)
        else:
            {"handbook": handbook, "cells": cells, "grid": grid}[part](place)


if __name__ == "__main__":
    main()
