"""What a change costs: which partitions are computed again, and how many texts are embedded.

The tables are written by hand. What the plan says is compared with what is then done: all that it
calls `compute` is computed, nothing that it calls `reuse`, and its reasons are those for people.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from rag_assets.pipeline.plan import REUSE, Plan
from tests.pipeline import matrix_experiment as to
from tests.pipeline.matrix_experiment import DOCUMENTS, JUDGMENTS, QUERIES, Matrix
from tests.tiny_experiment import is_done, matching, planned, short

N_PARTITIONS = 41
N_TEXTS = 9
"""Five chunks and four queries."""

BM25 = ("lexical_index/bm25", "lexical_runs/bm25/*")
DENSE = ("embedding_index/dense", "embedding_runs/dense/*")
RUNS = ("lexical_runs/*", "embedding_runs/*", "fused_runs/*")
SUMMARIES = ("metrics_summary/*", "intervals/*", "leaderboard")
NUMBERS = (*SUMMARIES, "comparisons")
INDEXES = ("term_counts/*", "lexical_index/*", "embedding_index/*")
CUT = ("chunks/*", "retriever_contexts/*", *INDEXES)
READ_CHUNKS = (*CUT, "relevant_units/*", *RUNS, "metrics/*", "attributions/*")
ANSWERS = ("query_sets/*", "lexical_queries/*", "embedding_queries/*", *RUNS)
LABELS = ("qrels", "relevant_units/*", "metrics/*", "attributions/*", "answerability")
FUSED = ("fused_runs/*", "metrics/hybrid/*", "attributions/hybrid/*", "answerability")


class Cost(NamedTuple):
    """What a change costs.

    Attributes:
        change: the change.
        computed: patterns of the partitions that are computed, such as ``metrics/bm25/*``.
        reasons: of some partitions, what the plan says.
        texts: how many texts are embedded.
    """

    change: to.Change | to.Upgrade
    computed: tuple[str, ...] = ()
    reasons: Mapping[str, str] = {}
    texts: int = 0


def of_both(retriever: str) -> tuple[str, ...]:
    """What changes with the order of one input of the fusion: its numbers, and the fusion's."""
    own = ("metrics", "attributions", "metrics_summary", "intervals")
    names = [f"{asset}/{one}*" for asset in own for one in (retriever, "hybrid")]
    return (*names, "fused_runs/*", "leaderboard", "comparisons", "answerability")


NEW_MODEL = Cost(
    to.retriever("dense", model="../models/second"),
    (*DENSE, "embedding_queries/dense", *of_both("dense")),
    {"embedding_index/dense": "the model's files changed"},
    texts=N_TEXTS,
)

OF_DOCUMENTS: dict[str, Cost] = {
    "nothing": Cost(lambda matrix: None),
    "edit a document; what is found stays": Cost(
        lambda matrix: matrix.replace("documents.jsonl", "30 days", "60 days"),
        ("documents", "qrels", *CUT, "lexical_runs/*", "embedding_runs/*", "metrics/*"),
        {"documents": "1 document changed", "qrels": "documents changed"},
        texts=1,
    ),
    "add a document": Cost(
        to.documents({"id": "crew", "text": "Five people sail each ferry."}),
        ("documents", "qrels", *READ_CHUNKS, "answerability"),
        {"documents": "1 document added"},
        texts=1,
    ),
    "remove a document": Cost(
        lambda matrix: matrix.write_rows("documents.jsonl", DOCUMENTS[:-1]),
        ("documents", "qrels", *READ_CHUNKS, "answerability"),
        {"documents": "1 document removed"},
    ),
    "rename a document that is no answer": Cost(
        to.renamed_document,
        (
            "documents",
            "qrels",
            *CUT,
            "relevant_units/*",
            "lexical_runs/*",
            "embedding_runs/*",
            "metrics/*",  # they read where the texts of all chunks are, which are named otherwise
            "attributions/*",
        ),
        {"documents": "1 document added, 1 removed"},
    ),
    "change 3 documents, remove one": Cost(
        to.several_documents,
        ("documents", "qrels", *READ_CHUNKS, *NUMBERS, "answerability"),
        {"documents": "3 documents changed, 1 removed"},
        texts=3,
    ),
    "the metadata of a document": Cost(
        to.documents({**DOCUMENTS[1], "owner": "port"}),
        ("documents",),
        {"documents": "1 document changed"},
    ),
    "the order of the corpus file": Cost(
        lambda matrix: matrix.write_rows("documents.jsonl", DOCUMENTS[::-1]),
        ("documents",),
        {"documents": "files changed, no document did"},
    ),
    "the chunk size": Cost(
        to.cut(8),
        (*READ_CHUNKS, *NUMBERS, "answerability"),
        {"chunks/parts": "max_tokens 40 -> 8"},
        texts=9,
    ),
}

OF_LABELS: dict[str, Cost] = {
    "edit a query": Cost(
        lambda matrix: matrix.replace("queries.jsonl", "southern harbour close", "harbour close"),
        (
            "queries",
            *ANSWERS,
            "metrics/bm25/*",
            "metrics/dense/*",
            "attributions/*",
            "answerability",
        ),
        {"queries": "1 query changed"},
        texts=1,
    ),
    "add a query": Cost(
        lambda matrix: matrix.write_rows(
            "queries.jsonl", [*QUERIES, {"query_id": "q5", "text": "lost property"}]
        ),
        (
            "queries",
            "qrels",
            "query_facts",
            *ANSWERS,
            "metrics/*",
            "attributions/*",
            *NUMBERS,
            "answerability",
        ),
        {"queries": "1 query added", "qrels": "queries changed"},
        texts=1,
    ),
    "remove a query and its judgment": Cost(
        to.removed_query,
        ("queries", "query_facts", *ANSWERS, *LABELS, *NUMBERS),
        {"queries": "1 query removed", "qrels": "1 judgment removed; queries changed"},
    ),
    "the tags of a query": Cost(
        lambda matrix: matrix.replace("queries.jsonl", '"fares"', '"money"'),
        ("queries", "query_facts"),  # a tag may say that a query is unanswerable
    ),
    "the order of the queries": Cost(
        lambda matrix: matrix.write_rows("queries.jsonl", QUERIES[::-1]), ("queries",)
    ),
    "a grade; every answer is ranked as well as can be": Cost(
        lambda matrix: matrix.replace("judgments.jsonl", '"relevance": 2', '"relevance": 1'),
        (*LABELS, "metrics_summary/*", "comparisons"),
        {"qrels": "1 judgment changed", "relevant_units/bm25": "qrels changed"},
    ),
    "one more judgment": Cost(
        lambda matrix: matrix.write_rows(
            "judgments.jsonl", [*JUDGMENTS, {"query_id": "q3", "doc_id": "fares"}]
        ),
        (*LABELS, *NUMBERS),
        {"qrels": "1 judgment added"},
    ),
    "a judgment of another evidence in its document": Cost(
        lambda matrix: matrix.write_rows(
            "judgments.jsonl", [{**JUDGMENTS[0], "evidence_id": "x"}, *JUDGMENTS[1:]]
        ),
        (*LABELS, "metrics_summary/*", "comparisons"),
        {"qrels": "1 judgment changed"},
    ),
    "the order of the judgments": Cost(
        lambda matrix: matrix.write_rows("judgments.jsonl", JUDGMENTS[::-1]), ("qrels",)
    ),
}

OF_RETRIEVERS: dict[str, Cost] = {
    "k1; the fusion comes out the same": Cost(
        to.retriever("bm25", k1=0.9),
        (
            *BM25,
            "fused_runs/*",
            "metrics/bm25/*",
            "attributions/bm25/*",
            "attributions/hybrid/*",
            "answerability",
        ),
        {"lexical_index/bm25": "k1 1.2 -> 0.9"},
    ),
    "the analyzer": Cost(
        to.retriever("bm25", analyzer="whitespace"),
        ("term_counts/*", *BM25, *of_both("bm25")),
        {
            "lexical_index/bm25": "analyzer english -> whitespace; ...",
            "lexical_runs/bm25/1": "PyStemmer ...",  # no code changed
        },
    ),
    "the model": NEW_MODEL,
    "the model's revision": NEW_MODEL._replace(change=to.other_revision),
    "the folder of the model": Cost(to.moved_model),
    "k of the fusion; its order stays": Cost(
        to.retriever("hybrid", k=5), FUSED, {"fused_runs/hybrid/3": "k 60.0 -> 5.0"}
    ),
    "the weights of the fusion; its order stays": Cost(
        to.retriever("hybrid", weights=[3, 1]),
        FUSED,
        {"fused_runs/hybrid/3": "weights null -> [3.0, 1.0]"},
    ),
    "more candidates than were searched for": Cost(
        to.retriever("hybrid", candidates=50),
        (
            "lexical_runs/bm25/1",
            "embedding_runs/dense/1",
            "fused_runs/*",
            # Theirs is a deeper ranking now.
            "attributions/dense/*",
            "attributions/hybrid/*",
        ),
        {
            "fused_runs/hybrid/3": "candidates 3 -> 50; upstream ...",
            "embedding_runs/dense/1": "its ranking is needed to depth 50, but not stored that deep",
        },
    ),
    "fewer candidates": Cost(
        to.retriever("hybrid", candidates=2),
        (
            "fused_runs/*",
            "metrics/hybrid/3",
            "metrics_summary/hybrid",
            "intervals/hybrid",
            "attributions/hybrid/*",
            "leaderboard",
            "comparisons",
            "answerability",
        ),
        {"fused_runs/hybrid/3": "candidates 3 -> 2; ..."},
    ),
    "one more retriever": Cost(
        to.retriever("tfidf", type="tfidf", chunking="parts"),
        (
            "term_counts/parts:auto",
            "lexical_index/tfidf",
            "*_runs/tfidf/*",
            "metrics/tfidf/*",  # their means are those of another retriever
            "attributions/tfidf/*",
            "leaderboard",
            "comparisons",
            "answerability",
        ),
        {
            "lexical_index/tfidf": "nothing stored yet",
            "comparisons": "retrievers: tfidf added; ...",
        },
    ),
    "one retriever less": Cost(
        to.without_retriever,
        ("leaderboard", "comparisons", "answerability"),
        {"leaderboard": "summary of hybrid is no longer read"},
    ),
    "the name of a retriever; nothing is embedded or fused": Cost(
        to.renamed_retriever,
        (
            "attributions/hybrid/*",  # names its inputs
            "leaderboard",
            "comparisons",
            "answerability",
        ),
    ),
    "one more top_k within the depth of the rankings": Cost(
        to.setting("top_k", [1, 2, 3]), ("*_runs/*/2", "metrics/*/2", *SUMMARIES)
    ),
    "one more top_k below it": Cost(
        to.setting("top_k", [1, 3, 5]),
        # BM25 found no more, so only those of one whose ranking is longer now.
        ("*_runs/*/5", "metrics/*/5", "attributions/dense/*", *SUMMARIES),
        {"lexical_runs/bm25/5": "nothing stored yet"},
    ),
    "one top_k less": Cost(
        to.setting("top_k", [3]), SUMMARIES, {"metrics_summary/bm25": "top k 1 is no longer read"}
    ),
}

OF_STORE: dict[str, Cost] = {
    "the folder of the experiment": Cost(to.renamed_folder),
    "the times of all files": Cost(to.touched),
    "new code of a stage": Cost(
        to.upgraded("fused_runs"),
        ("fused_runs/*",),
        {"fused_runs/hybrid/1": "the code of fused_runs changed"},
    ),
    "new code of a retriever type; the vectors are known": Cost(
        to.upgraded("embedding"),
        (*DENSE, "embedding_queries/dense", "answerability"),
        {"embedding_index/dense": "the code of embedding_index changed"},
    ),
    "a table is deleted": Cost(
        to.deleted("metrics", "bm25", 1),
        ("metrics/bm25/1",),
        {"metrics/bm25/1": "artifact was deleted"},
    ),
    "an index is deleted": Cost(
        to.deleted("embedding_index"),
        ("embedding_index/dense",),
        {"embedding_index/dense": "artifact was deleted"},
    ),
    "all rankings are deleted": Cost(
        to.deleted("rankings"), ("lexical_runs/bm25/1", "embedding_runs/dense/1")
    ),
    "a byte of a table's body is another": Cost(
        to.flipped("chunks"), ("chunks/parts",), {"chunks/parts": "artifact is damaged"}
    ),
    "a byte of a ranking is another": Cost(
        to.flipped("rankings", "bm25"), ("lexical_runs/bm25/1",)
    ),
    "a byte of an index is another": Cost(
        to.flipped("embedding_index", name="vectors-0000.npy"),
        ("embedding_index/dense",),
        {"embedding_index/dense": "artifact is damaged"},
    ),
    "a byte of an index's manifest is another": Cost(
        to.flipped("lexical_index", name="manifest.json"),
        ("lexical_index/bm25",),
        {"lexical_index/bm25": "artifact is damaged"},
    ),
    "a file is cut off": Cost(
        to.truncated("relevant_units", "dense"),
        ("relevant_units/*",),  # all three have one artifact
        {"relevant_units/dense": "artifact is damaged"},
    ),
    "the warehouse and the instance of Dagster": Cost(to.without_state),
    "the vector cache; a document is edited": Cost(
        to.without_vectors,
        ("documents", "qrels", *CUT, "lexical_runs/*", "embedding_runs/*", "metrics/*"),
        texts=5,
    ),
}

COSTS = {**OF_DOCUMENTS, **OF_LABELS, **OF_RETRIEVERS, **OF_STORE}


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """The experiment, computed once; each change is made to a copy."""
    matrix = Matrix(tmp_path_factory.mktemp("matrix") / "cold").write()
    assert len(matrix.run()) == N_PARTITIONS
    assert matrix.n_vectors() == N_TEXTS
    matrix.snapshot()
    return matrix


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_a_change_costs_what_the_table_says(
    cold: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: Cost
) -> None:
    matrix = cold.copied(tmp_path / "changed")
    takes_patch = len(inspect.signature(cost.change).parameters) == 2
    cost.change(*((matrix, monkeypatch) if takes_patch else (matrix,)))
    known = matrix.n_vectors()
    plan = planned(matrix)
    computed = matrix.run()
    assert computed == (matching(matrix.pipeline(), *cost.computed) if cost.computed else set())
    assert matrix.n_vectors() - known == cost.texts
    assert is_done(plan, computed)
    for name, expected in cost.reasons.items():
        said = reasons(plan, name)
        start, dots, _ = expected.partition("...")
        assert said.startswith(start) if dots else said == expected, said
    assert {step.action for step in planned(matrix).steps} == {REUSE}


def reasons(plan: Plan, name: str) -> str:
    (step,) = [step for step in plan.steps if short(step.key) == name]
    return "; ".join(reason.text for reason in step.reasons)


def test_what_was_damaged_comes_back_as_it_was(cold: Matrix, tmp_path: Path) -> None:
    matrix = cold.copied(tmp_path / "damaged")
    before = cold.snapshot().content
    for file in sorted(matrix.objects("").rglob("*"))[::2]:
        if file.is_file() and "evaluations" not in file.parts:
            to.flip(file)
    assert matrix.run()
    assert matrix.snapshot().content == before
