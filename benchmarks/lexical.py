"""Indexing of chunks and search by BM25, beside rank_bm25, bm25s and tantivy.

    python benchmarks/lexical.py                        # 1,000 to 1,000,000 made chunks
    python benchmarks/lexical.py --quick
    python benchmarks/lexical.py --real corpus.jsonl queries.jsonl   # one more corpus, BEIR's files

Made chunks have 60 words on average, of 500,000 by Zipf's law (the r-th most frequent has about
1/r of the occurrences of the first), and queries 3 to 12 words of one chunk: with a seed, so that
all have the same. Each system has a process of its own, which reads the chunks from a file, indexes
them and writes its index; imports and compilation come before. Then the processes search in turns,
all queries of a round at once. What is found is compared: scores to 1e-4, and the chunks besides
those tied with the last one. tantivy keeps lengths of chunks in one byte, so its scores differ: for
it the share of equal chunks is given.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from asked_process import AskedProcess
from peers import REPOSITORY, python_with
from result import Cell, Limit, Result, Table
from zipf_corpus import ZipfWords

WORDS, MEAN_LENGTH, N_QUERIES, SEED = 500_000, 60, 1000, 0
SIZES, QUICK_SIZES = (1_000, 10_000, 100_000, 1_000_000), (500, 5_000)
DEPTHS = (10, 100)
COMPARED = 50
"""Queries whose hits are compared."""

CHUNKS_OF_A_ROUND = 20_000
"""Of fewer chunks there are as many more rounds: one of 1,000 takes some hundredths of a second."""

OURS, NUMBA = "rag_assets", "bm25s numba"
PEERS = (
    "bm25s[core]==0.3.16",
    "numba==0.68.1",
    "numpy==2.4.6",
    "rank-bm25==0.2.2",
    "scipy==1.17.1",
    "tantivy==0.27.0",
)
FOLDER = REPOSITORY / "build" / "benchmarks" / "lexical"
Times = dict[str, float]


def contenders(n_chunks: int) -> dict[str, int]:
    """Return the systems for a corpus, and how many queries each gets in a round."""
    many = N_QUERIES if n_chunks <= 100_000 else 200
    found = {OURS: many, NUMBA: many, "tantivy": many // 4}
    if n_chunks <= 100_000:
        found |= {"bm25s numpy": many // 10, "rank_bm25": 4 if n_chunks > 10_000 else 20}
    return found


@dataclass
class Process:
    """A system in a process, and what it took: depth -> times of one query in each round."""

    name: str
    process: AskedProcess
    n_queries: int
    indexed: dict[str, Any] = field(default_factory=dict)
    searched: dict[int, list[Times]] = field(default_factory=dict)

    @classmethod
    def start(cls, name: str, n_queries: int, corpus: Path, peers: Path) -> Process:
        """Start a system on a corpus; each has one thread."""
        index = corpus / name.replace(" ", "_")
        shutil.rmtree(index, ignore_errors=True)
        python, path = (sys.executable, str(REPOSITORY)) if name == OURS else (str(peers), "")
        script = Path(__file__).with_name("lexical_systems.py")
        files = [corpus / "chunks.txt", corpus / "queries.txt", index]
        command = [python, str(script), name, *map(str, files)]
        process = AskedProcess(command, {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"})
        return cls(name, process, n_queries)

    def search(self, k: int) -> None:
        """Search for all its queries once, and note the times of one."""
        took = self.process.ask(do="search", k=k, n=self.n_queries)
        self.searched.setdefault(k, []).append({n: s / self.n_queries for n, s in took.items()})


def make_corpus(folder: Path, n_chunks: int) -> None:
    """Write the chunks and the queries, unless they are there."""
    if (folder / "queries.txt").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    made = np.random.default_rng([SEED, n_chunks])
    words = ZipfWords(np.array([f"w{n}" for n in range(1, WORDS + 1)], dtype=object), 1)
    of_queries = set(made.integers(0, n_chunks, N_QUERIES).tolist())
    chosen: list[Any] = []
    with (folder / "chunks.txt").open("w", encoding="ascii") as file:
        for start in range(0, n_chunks, 10_000):
            lengths = np.maximum(1, made.poisson(MEAN_LENGTH, min(10_000, n_chunks - start)))
            drawn = words.draw(made, lengths.sum())
            for number, chunk in enumerate(np.split(drawn, np.cumsum(lengths)[:-1]), start):
                file.write(words.text(chunk) + "\n")
                chosen += [chunk] if number in of_queries else []
    queries = [
        words.text(made.choice(chosen[number % len(chosen)], made.integers(3, 13)))
        for number in range(N_QUERIES)
    ]
    (folder / "queries.txt").write_text("\n".join(queries) + "\n", encoding="ascii")


def take_corpus(folder: Path, corpus: Path, queries: Path) -> int:
    """Write the analysed words of a real corpus, and return the number of its documents."""
    from rag_assets.retrieval.lexical.analyzers import analyze_all

    folder.mkdir(parents=True, exist_ok=True)
    for source, name in ((corpus, "chunks.txt"), (queries, "queries.txt")):
        rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
        texts = [f"{row.get('title', '')}\n{row['text']}" for row in rows]
        lines = [" ".join(tokens) for tokens in analyze_all("english", texts)]
        kept = [line for line in lines if line] if name == "queries.txt" else lines
        (folder / name).write_text("\n".join(kept) + "\n", encoding="utf-8")
    return len((folder / "chunks.txt").read_text(encoding="utf-8").splitlines())


def race(corpus: Path, n_chunks: int, peers: Path, rounds: int) -> dict[str, Process]:
    """Let the systems index one after the other, and search in turns."""
    n_queries = len((corpus / "queries.txt").read_text(encoding="utf-8").splitlines())
    running: dict[str, Process] = {}
    try:
        for name, wanted in contenders(n_chunks).items():
            running[name] = Process.start(name, min(n_queries, wanted), corpus, peers)
            running[name].indexed = running[name].process.ask(do="index", k=DEPTHS)
        for k in DEPTHS:
            expected = running[OURS].process.ask(do="hits", k=k, n=COMPARED)
            for name, process in running.items():
                own = expected[: process.n_queries]
                found = process.process.ask(do="hits", k=k, n=min(COMPARED, process.n_queries))
                process.indexed[f"same@{k}"] = share_of_same(own, found, name)
            for number in range(rounds * max(1, CHUNKS_OF_A_ROUND // n_chunks)):
                turn = list(running.values())
                for process in turn if number % 2 == 0 else reversed(turn):
                    process.search(k)
    finally:
        for process in running.values():
            process.process.close()
    return running


def share_of_same(ours: list[Any], theirs: list[Any], name: str) -> float:
    """Return how many chunks are the same; 1 where those that differ are tied with the last.

    Raises:
        ValueError: a score differs, or a chunk that is not tied with the last one.
    """
    same = total = 0
    for (rows, scores), (found, values) in zip(ours, theirs, strict=True):
        found = found[: len(rows)]  # some fill up with chunks of score 0
        total += len(rows)
        if name == "tantivy":
            same += len(set(rows) & set(found))
            continue
        last = scores[-1] + 1e-4 if scores else 0.0
        clear = {row for row, score in zip(rows, scores, strict=True) if score > last}
        if not np.allclose(scores, values[: len(rows)], atol=1e-4) or not clear <= set(found):
            raise ValueError(f"{name} finds {found}, {values}; ours {rows}, {scores}")
        same += len(rows)
    return same / max(1, total)


def per_second(process: Process, k: int, clock: str = "wall") -> float:
    """Return queries a second, the median over rounds."""
    return median(1 / max(times[clock], 1e-9) for times in process.searched[k])


def ratio(one: Process, other: Process, k: int, clock: str = "wall") -> float:
    """Return how many times the queries a second of another one does, by round."""
    pairs = zip(other.searched[k], one.searched[k], strict=True)
    return median(theirs[clock] / own[clock] for theirs, own in pairs)


def tables(found: Mapping[str, tuple[int, dict[str, Process]]]) -> list[Table]:
    """Return what indexing and searching took."""
    indexing: list[list[Cell]] = []
    searching: list[list[Cell]] = []
    for corpus, (n_chunks, systems) in found.items():
        for name, process in systems.items():
            one, each = process.indexed, 1e6 / n_chunks
            held = (one["bytes"] - one["bytes_of_texts"]) / 1e9
            costs = [one["wall"], one["cpu"], one["wall"] * each, one["cpu"] * each]
            indexing.append([corpus, name, *costs, one["bytes"] / 1e9, held])
            for k in DEPTHS:
                speeds = [per_second(process, k, clock) for clock in ("wall", "cpu")]
                against = [ratio(systems[OURS], process, k, clock) for clock in ("wall", "cpu")]
                searching.append([corpus, name, k, *speeds, *against, one[f"same@{k}"]])
    columns = ["corpus", "system", "wall s", "CPU s", "wall us a chunk", "CPU us a chunk"]
    memory = ["peak GB", "GB above texts and imports"]
    speeds_of = ["k", "queries/wall s", "queries/CPU s", "ours/it, wall", "ours/it, CPU", "same"]
    return [
        Table("Indexing, with writing the index.", [*columns, *memory], indexing),
        Table(
            "Search with one thread; medians over rounds.", [*columns[:2], *speeds_of], searching
        ),
    ]


def limits(found: Mapping[str, tuple[int, dict[str, Process]]]) -> list[Limit]:
    """Return what was aimed at, as far as it was measured."""
    aims: list[Limit] = []
    for corpus, (n_chunks, systems) in found.items():
        ours = systems[OURS]
        for k in DEPTHS:
            what = f"queries/s, best {k} of {corpus}, ours compared with"
            if n_chunks == 100_000:
                times = ratio(ours, systems["rank_bm25"], k)
                aims.append(Limit(f"{what} rank_bm25", times, 50, "x", at_least=True))
            times = ratio(ours, systems[NUMBA], k)
            aims.append(Limit(f"{what} bm25s with numba", times, 1, "x", at_least=True))
    made = {n_chunks: systems[OURS].indexed for n_chunks, systems in found.values()}
    if {100_000, 1_000_000} <= made.keys():
        small, large = made[100_000], made[1_000_000]
        aims.append(Limit("peak memory at 1,000,000 chunks", large["bytes"] / 1e9, 4, "GB"))
        for clock, name in (("wall", "wall"), ("cpu", "CPU")):
            times = large[clock] / small[clock] / 10
            what = f"{name} time of a chunk at 1,000,000 chunks compared with 100,000"
            aims.append(Limit(what, times, 1.3, "x"))
    return aims


def main() -> None:
    """Make corpora, race, report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small; for a look at the script")
    parser.add_argument("--sizes", type=int, nargs="*", help="chunks of the made corpora")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--real", type=Path, nargs=2, metavar=("CORPUS", "QUERIES"))
    asked = parser.parse_args()
    sizes = asked.sizes if asked.sizes is not None else QUICK_SIZES if asked.quick else SIZES
    peers = python_with("lexical", PEERS)
    found: dict[str, tuple[int, dict[str, Process]]] = {}
    if asked.real:
        n_chunks = take_corpus(FOLDER / "real", *asked.real)
        name = asked.real[0].resolve().parent.name
        found[name] = n_chunks, race(FOLDER / "real", n_chunks, peers, asked.rounds)
    for n_chunks in sizes:
        folder = FOLDER / f"{n_chunks}"
        make_corpus(folder, n_chunks)
        found[f"{n_chunks:,}"] = n_chunks, race(folder, n_chunks, peers, asked.rounds)
    result = Result("lexical", "Lexical retrieval", "python benchmarks/lexical.py")
    result.tables, result.limits = tables(found), limits(found)
    result.notes = [
        "A chunk has 60 words. k1 is 1.2 and b is 0.75; every system gets the same words.",
        "bm25s adds in float32, ours in float64. Only ours has a fixed order for ties at the cut.",
        "tantivy stores the length of a chunk in one byte, so it may find other chunks; `same` "
        "is the share of chunks that ours finds too.",
    ]
    for _, systems in found.values():
        for process in systems.values():
            result.versions |= process.indexed["versions"]
    result.write(
        REPOSITORY / "build" / "benchmarks" / "lexical.quick.json" if asked.quick else None
    )


if __name__ == "__main__":
    main()
