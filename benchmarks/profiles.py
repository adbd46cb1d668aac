"""Where the time goes in the three largest costs of an evaluation.

    python benchmarks/profiles.py
    python benchmarks/profiles.py --quick

Each cost is a process of its own under cProfile, with one thread of torch:

- ``embedding``: paragraphs of a SQuAD file through all-MiniLM-L6-v2;
- ``indexing``: made chunks of 40 words (``zipf_corpus.py``) into an index for BM25;
- ``an edit``: ``rag-assets evaluate`` after one document of a made corpus was edited, under BM25,
  all-MiniLM-L6-v2 and their fusion: from the start of the process to its end.

Time is a function's own, without those that it calls, and that of a compiled function belongs to
the package that calls it. A profile slows calls of Python functions down: shares, not seconds, are
what it says.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import data_sets
import numpy as np
from embedding import paragraphs
from hybrid_experiment import write_config
from result import Cell, Result, Table
from zipf_corpus import EXPONENT, N_WORDS, VOCABULARY, ZipfWords, write_corpus

from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.lexical.tokens import AnalysedTexts

REPOSITORY = Path(__file__).resolve().parents[1]
QUICK = REPOSITORY / "build" / "benchmarks" / "profiles.quick.json"
SEED, N_QUERIES = 0, 200
PACKAGES, FUNCTIONS = 6, 6
"""Rows of each profile."""

Stats = Mapping[tuple[str, int, str], Any]


def embedding(folder: Path, n_texts: int) -> Path:
    """Profile the embedding of texts; the model is loaded before."""
    from rag_assets.models.encoder import Encoder

    texts = paragraphs(data_sets.find("squad"), n_texts)
    encoder = Encoder()
    encoder.encode_now(texts[:1], kind="document")
    return profiled(folder / "embedding", lambda: encoder.encode_now(texts, kind="document"))


def indexing(folder: Path, n_chunks: int) -> Path:
    """Profile the indexing of chunks."""
    chance = np.random.default_rng(SEED)
    words = ZipfWords.of_syllables(chance, VOCABULARY, EXPONENT)
    texts = [words.text(row) for row in words.draw(chance, (n_chunks, N_WORDS))]
    ids = [f"c{number:07d}" for number in range(n_chunks)]
    (folder / "index").mkdir()

    def work() -> None:
        analysed = AnalysedTexts.of(ids, texts, "english")
        BM25(type="bm25").build_of(analysed, folder / "index")

    return profiled(folder / "indexing", work)


def an_edit(folder: Path, n_documents: int) -> Path:
    """Profile the evaluation after an edit."""
    corpus, store = folder / "corpus", folder / "store"
    write_corpus(corpus, n_documents, N_QUERIES, np.random.default_rng(SEED))
    write_config(corpus, DEFAULT_MODEL, 60)
    command = ["-m", "rag_assets.cli", "evaluate", str(corpus), "--store", str(store)]
    run(command)
    file = corpus / "documents.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[0] = lines[0].replace('."', ' edited."')
    file.write_text("".join(lines), encoding="utf-8")
    found = folder / "an edit"
    run(["-m", "cProfile", "-o", str(found), *command])
    return found


def run(arguments: list[str]) -> None:
    """Run Python to its end, quietly."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)


def profiled(file: Path, work: Callable[[], object]) -> Path:
    """Run something and write its profile."""
    profile = cProfile.Profile()
    profile.runcall(work)
    profile.dump_stats(file)
    return file


def package_of(filename: str) -> str:
    """Return the package of a source file; ``Python`` for its own library."""
    if filename.startswith(str(REPOSITORY / "rag_assets")):
        return "rag_assets"
    _, installed, inner = filename.partition("site-packages/")
    return inner.partition("/")[0].removesuffix(".py") if installed else "Python"


def shares(stats: Stats) -> tuple[Counter[str], Counter[str]]:
    """Return the share of the time by package and by function."""
    by_package: Counter[str] = Counter()
    by_function: Counter[str] = Counter()
    total = sum(own for _, _, own, _, _ in stats.values())
    for (filename, _, name), (_, _, own, _, callers) in stats.items():
        compiled = filename == "~"
        by_function[name if compiled else f"{package_of(filename)}: {name}"] += own / total
        if not compiled or not callers:
            by_package[package_of(filename)] += own / total
            continue
        for (caller, _, _), (_, _, part, _) in callers.items():
            by_package[package_of(caller)] += part / total
    return by_package, by_function


def tables(what: str, file: Path) -> list[Table]:
    """Return the largest shares of a profile, in percent."""
    stats: Any = pstats.Stats(str(file))
    found = []
    for of, counted, n in zip(
        ("package", "function"), shares(stats.stats), (PACKAGES, FUNCTIONS), strict=True
    ):
        rows: list[list[Cell]] = [[name, 100 * part] for name, part in counted.most_common(n)]
        caption = f"{what}: share of {stats.total_tt:.3g} s under the profile, by {of}, in %."
        found.append(Table(caption, [of, "%"], rows))
    return found


COSTS: tuple[tuple[Callable[[Path, int], Path], int, int, str], ...] = (
    (embedding, 200, 8, "Embedding {n:,} paragraphs"),
    (indexing, 100_000, 500, "Indexing {n:,} chunks for BM25"),
    (an_edit, 2_000, 30, "An evaluation after an edit of one of {n:,} documents"),
)
"""What makes a cost, how often, how often when quick, and what it is."""


def main() -> None:
    """Profile and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported
    result = Result("profiles", "Where the time goes", "python benchmarks/profiles.py")
    for cost, size, small, what in COSTS:
        n = small if quick else size
        with TemporaryDirectory() as folder:
            result.tables += tables(what.format(n=n), cost(Path(folder), n))
    result.notes.append(
        "Each time is the function's own, without the functions that it calls. The time of a "
        "compiled function belongs to the package that calls it. Profiling slows down calls of "
        "Python functions, so look at the shares, not at the seconds."
    )
    result.of_packages(["dagster", "numpy", "sentence-transformers", "torch", "transformers"])
    result.write(QUICK if quick else None)


if __name__ == "__main__":
    main()
