"""One lexical system in a process of its own, driven by ``lexical.py``; needs no package of ours.

    python lexical_systems.py NAME CHUNKS QUERIES FOLDER

It answers each line of its input, a JSON object, by one line of JSON:

- ``{"do": "index", "k": [10, 100]}`` reads the chunks (one a line, tokens between blanks) and
  indexes them into FOLDER, and gives seconds of wall and CPU time and the most memory;
- ``{"do": "search", "k": 10, "n": 100}`` searches for the first queries, and gives seconds;
- ``{"do": "hits", "k": 10, "n": 100}`` gives positions of chunks and scores.

All split at white space, and have k1 = 1.2, b = 0.75; scores are Lucene's, in whose formula the
factor k1 + 1 is left out.
"""

# ruff: noqa: ANN401, D102
from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

K1, B = 1.2, 0.75
Found = list[tuple[list[int], list[float]]]
"""Positions and scores for each query, best first."""


class System(Protocol):
    """What is compared."""

    packages: tuple[str, ...]
    """Those whose versions are kept."""

    def index(self, texts: list[str], folder: Path) -> None:
        """Index the texts; what is needed of them is kept, or written into the folder."""

    def search(self, queries: list[str], k: int) -> Any:
        """Return what is found, in the system's own form."""

    def found(self, queries: list[str], k: int) -> Found:
        """Return what is found, in one form for all."""


class Ours:
    """This package: the functions behind ``type: bm25``."""

    packages: tuple[str, ...] = ("numpy",)

    def index(self, texts: list[str], folder: Path) -> None:
        from rag_assets.retrieval.lexical.bm25 import BM25
        from rag_assets.retrieval.lexical.tokens import AnalysedTexts

        ids = [f"chunk-{number:08d}" for number in range(len(texts))]
        analysed = AnalysedTexts.of(ids, texts, "whitespace")
        BM25(type="bm25", k1=K1, b=B).build_of(analysed, folder)
        self._index = BM25(type="bm25", k1=K1, b=B).opened(folder)

    def search(self, queries: list[str], k: int) -> Any:
        return self._index.search(queries, k)

    def found(self, queries: list[str], k: int) -> Found:
        hits = self.search(queries, k)
        return [(each.positions.tolist(), each.scores.tolist()) for each in hits]


class Bm25s:
    """The package bm25s, with its own tokeniser and its files written."""

    def __init__(self, backend: str, threads: int) -> None:
        self._backend, self._threads = backend, threads
        self.packages: tuple[str, ...] = ("bm25s", backend)

    def index(self, texts: list[str], folder: Path) -> None:
        import bm25s

        plain = {"lower": False, "token_pattern": r"\S+", "stopwords": None}
        tokens = bm25s.tokenize(texts, **plain, show_progress=False)
        self._bm25 = bm25s.BM25(k1=K1, b=B, method="lucene", backend=self._backend)
        self._bm25.index(tokens, show_progress=False)
        self._bm25.save(str(folder))

    def search(self, queries: list[str], k: int) -> Any:
        tokens = [query.split() for query in queries]
        own = {} if self._backend == "numba" else {"chunksize": 50}
        return self._bm25.retrieve(
            tokens, k=k, n_threads=self._threads, show_progress=False, **{"chunksize": None, **own}
        )

    def found(self, queries: list[str], k: int) -> Found:
        documents, scores = self.search(queries, k)
        return list(zip(documents.tolist(), scores.tolist(), strict=True))


class RankBm25:
    """The package rank_bm25, and numpy's partial selection; idf and factor as in Lucene."""

    packages: tuple[str, ...] = ("rank-bm25",)

    def index(self, texts: list[str], folder: Path) -> None:
        import rank_bm25

        tokens = [text.split() for text in texts]
        self._bm25 = rank_bm25.BM25Okapi(tokens, k1=K1, b=B)
        holding = Counter(token for each in self._bm25.doc_freqs for token in each)
        n = len(texts)
        self._bm25.idf = {t: log(1 + (n - d + 0.5) / (d + 0.5)) for t, d in holding.items()}

    def search(self, queries: list[str], k: int) -> Any:
        import numpy as np

        found = []
        for query in queries:
            scores = self._bm25.get_scores(query.split()) / (K1 + 1)
            best = np.argpartition(scores, -k)[-k:]
            best = best[np.argsort(-scores[best])]
            found.append((best, scores[best]))
        return found

    def found(self, queries: list[str], k: int) -> Found:
        return [(rows.tolist(), scores.tolist()) for rows, scores in self.search(queries, k)]


class Tantivy:
    """The package tantivy: an index on disk, one segment, as a user of its Python would do it."""

    packages: tuple[str, ...] = ("tantivy",)

    def index(self, texts: list[str], folder: Path) -> None:
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
        schema.add_integer_field("number", fast=True)
        self._schema = schema.build()
        self._index = tantivy.Index(self._schema, path=str(folder))
        writer = self._index.writer(heap_size=512_000_000, num_threads=1)
        for number, text in enumerate(texts):
            writer.add_document(tantivy.Document(text=[text], number=number))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def search(self, queries: list[str], k: int) -> Any:
        import tantivy

        searcher, either = self._index.searcher(), tantivy.Occur.Should
        found = []
        for query in queries:
            terms = [
                (either, tantivy.Query.term_query(self._schema, "text", token, "freq"))
                for token in query.split()
            ]
            hits = searcher.search(tantivy.Query.boolean_query(terms), k, count=False).hits
            numbers = searcher.fast_field_values("number", [address for _, address in hits])
            found.append((numbers, [score for score, _ in hits]))
        return found

    def found(self, queries: list[str], k: int) -> Found:
        return [
            (list(numbers), [score / (K1 + 1) for score in scores])
            for numbers, scores in self.search(queries, k)
        ]


SYSTEMS: dict[str, Callable[[], System]] = {
    "rag_assets": Ours,
    "rank_bm25": RankBm25,
    "bm25s numpy": lambda: Bm25s("numpy", 0),
    "bm25s numba": lambda: Bm25s("numba", 0),
    "tantivy": Tantivy,
}


def peak_bytes() -> int:
    """Return the most memory that this process held."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def timed(work: Callable[[], Any]) -> dict[str, float]:
    """Return the seconds that it takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def warm(system: System, depths: list[int]) -> None:
    """Import and compile: what is measured is neither."""
    with TemporaryDirectory() as folder:
        system.index([f"a b{number % 9}" for number in range(300)], Path(folder))
        for k in depths:
            system.search(["a b1", "b2"], k)


def answer(system: System, asked: dict[str, Any], chunks: Path, queries: list[str]) -> Any:
    """Do what one line asks."""
    if asked["do"] == "index":
        warm(system, asked["k"])
        texts = chunks.read_text(encoding="utf-8").splitlines()
        before = peak_bytes()
        Path(sys.argv[4]).mkdir(parents=True)
        took = timed(lambda: system.index(texts, Path(sys.argv[4])))
        versions = {name: version(name) for name in system.packages}
        return {**took, "bytes": peak_bytes(), "bytes_of_texts": before, "versions": versions}
    wanted, k = queries[: asked["n"]], asked["k"]
    if asked["do"] == "search":
        if "threads" in asked:
            system._threads = asked["threads"]  # type: ignore[attr-defined]
        return timed(lambda: system.search(wanted, k))
    return system.found(wanted, k)


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what packages print goes elsewhere
    system = SYSTEMS[sys.argv[1]]()
    queries = Path(sys.argv[3]).read_text(encoding="utf-8").splitlines()
    for line in sys.stdin:
        found = answer(system, json.loads(line), Path(sys.argv[2]), queries)
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
