"""What is computed again after a change, by hand-written tables: no more and no less."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.context_tokens import word_tokenizer
from tests.planned import is_done, planned
from tests.tiny_experiment import CONFIG, DOCUMENTS, JUDGMENTS, QUERIES, Tiny, matching

TOP_K = (1, 3, 5)

Change = Callable[[Tiny], object]

ALL_RUNS = ("lexical_runs/*", "fused_runs/*")
SUMMARIES = ("metrics_summary/*", "intervals/*", "leaderboard")
NUMBERS = (*SUMMARIES, "comparisons")
CONTEXTS = ("contexts/*", "retriever_contexts/*")
SEED = 0
"""Of the six queries it puts three in dev."""

N_PARTITIONS = 76


def add_top_k(tiny: Tiny) -> None:
    tiny.config["top_k"] = [1, 3, 5, 10]
    tiny.write_config()


def rename_okapi(tiny: Tiny) -> None:
    retrievers = tiny.config["retrievers"]
    retrievers["zebra"] = retrievers.pop("okapi")
    retrievers["shallow"]["inputs"] = ["bm25", "zebra"]
    tiny.write_config()


def drop_shallow(tiny: Tiny) -> None:
    del tiny.config["retrievers"]["shallow"]
    tiny.write_config()


def touch_all(tiny: Tiny) -> None:
    for name in (*DOCUMENTS, "queries.jsonl", "judgments.jsonl"):
        os.utime(tiny.folder / name)


def change_primary(tiny: Tiny) -> None:
    tiny.config["primary"] = "mrr@5"
    tiny.write_config()


def add_metric(tiny: Tiny) -> None:
    tiny.config["metrics"] = [*CONFIG["metrics"], "recall"]
    tiny.write_config()


def split_queries(tiny: Tiny) -> None:
    tiny.config["split"] = {"dev": 0.5, "seed": SEED}
    tiny.write_config()


def weigh_queries(tiny: Tiny) -> None:
    rows = [{**row, "asked": 1 + number} for number, row in enumerate(QUERIES)]
    tiny.write_rows("queries.jsonl", rows)
    tiny.config["weight"] = "asked"
    tiny.write_config()


def cluster_by_document(tiny: Tiny) -> None:
    tiny.config["statistics"] = {"cluster": "document"}
    tiny.write_config()


def other_statistics(tiny: Tiny) -> None:
    tiny.config["statistics"] = {"confidence": 0.9, "resamples": 500, "seed": 3}
    tiny.write_config()


def change_tokenizer(tiny: Tiny) -> None:
    tiny.config["context"] = {"tokenizer": str(word_tokenizer(tiny.root))}
    tiny.write_config()


def measure_answers(tiny: Tiny) -> None:
    tiny.config["metrics"] = [*CONFIG["metrics"], "answer_hit"]
    tiny.write_config()


def with_answer(answer: str) -> list[dict[str, Any]]:
    return [{**QUERIES[0], "answers": [answer]}, *QUERIES[1:]]


CHANGES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "nothing": (lambda tiny: None, ()),
    "a sentence of a document; every rank stays, the tokens do not": (
        lambda tiny: tiny.replace("fares.md", "travel free of charge", "pay nothing"),
        (
            "documents",
            "qrels",
            "chunks/*",
            "term_counts/*",
            "lexical_index/*",
            "relevant_units/*",
            *CONTEXTS,
            *ALL_RUNS,
            "metrics/*",
            "attributions/*",
            *NUMBERS,
            "answerability",
        ),
    ),
    "a word by one as long; neither rank nor tokens change": (
        lambda tiny: tiny.replace("fares.md", "free of charge", "safe of charge"),
        (
            "documents",
            "qrels",
            "chunks/*",
            "term_counts/*",
            "lexical_index/*",
            "lexical_runs/*",
            *CONTEXTS,
        ),
    ),
    "the front matter of a document": (
        lambda tiny: tiny.write_document("crew.md", f"---\nowner: a\n---\n{DOCUMENTS['crew.md']}"),
        ("documents",),
    ),
    "blanks at the end of a document; the small chunks stay, and what is found": (
        lambda tiny: tiny.write_document("crew.md", f"{DOCUMENTS['crew.md']}\n  \n"),
        (
            "documents",
            "qrels",
            "chunks/*",
            "term_counts/whole:english",
            "relevant_units/bm25-whole",
            "relevant_units/hybrid",
            "contexts/whole",
            "retriever_contexts/bm25-whole",
            "retriever_contexts/hybrid",
        ),
    ),
    "a new query": (
        lambda tiny: tiny.write_rows(
            "queries.jsonl", [*QUERIES, {"query_id": "q7", "text": "passports and the police"}]
        ),
        (
            "queries",
            "qrels",
            "query_facts",
            "query_sets/*",
            "lexical_queries/*",
            *ALL_RUNS,
            "metrics/*",
            *NUMBERS,
            "attributions/*",
            "answerability",
        ),
    ),
    "a tag; it may say that a query is unanswerable": (
        lambda tiny: tiny.replace("queries.jsonl", '"wind"', '"storm"'),
        ("queries", "query_facts"),
    ),
    "a grade; whole documents are still ranked ideally": (
        lambda tiny: tiny.replace("judgments.jsonl", '"relevance": 1', '"relevance": 2'),
        (
            "qrels",
            "relevant_units/*",
            "metrics/*",
            "metrics_summary/*",
            "intervals/bm25",
            "intervals/okapi",
            "intervals/hybrid",
            "intervals/shallow",
            "leaderboard",
            "comparisons",
            "attributions/*",
            "answerability",
        ),
    ),
    "k1 of one retriever; the fusions come out the same": (
        lambda tiny: tiny.configure("bm25", k1=0.4),
        (
            "lexical_index/bm25",
            "lexical_runs/bm25/*",
            "fused_runs/*",
            "metrics/bm25/*",
            "attributions/bm25/*",
            "attributions/hybrid/*",
            "attributions/shallow/*",
            "answerability",
        ),
    ),
    "k of a fusion; its order stays": (
        lambda tiny: tiny.configure("hybrid", k=5),
        ("fused_runs/hybrid/*", "metrics/hybrid/*", "attributions/hybrid/*", "answerability"),
    ),
    "one more top_k; the comparisons read the primary one alone": (
        add_top_k,
        (
            "lexical_runs/*/10",
            "fused_runs/*/10",
            "metrics/*/10",
            *SUMMARIES,
            # Those whose ranking is deeper now.
            "attributions/okapi/*",
            "attributions/hybrid/*",
        ),
    ),
    "an answer; no mean depends on it": (
        lambda tiny: tiny.replace("queries.jsonl", '"q1",', '"q1", "answers": ["10 crowns"],'),
        ("queries", "query_facts"),
    ),
    "a text; what is found stays": (
        lambda tiny: tiny.replace("queries.jsonl", "what does a", "What does a"),
        ("queries", "query_sets/*", "lexical_queries/*", "lexical_runs/*"),
    ),
    "a split": (split_queries, ("query_facts", *NUMBERS, "answerability")),
    "weights": (weigh_queries, ("queries", "query_facts", *NUMBERS, "answerability")),
    "clusters; no mean depends on them": (
        cluster_by_document,
        ("query_facts", "intervals/*", "comparisons"),
    ),
    "level, resamples and seed of intervals": (
        other_statistics,
        ("intervals/*", "comparisons"),
    ),
    "the name of a retriever; no object has it": (
        rename_okapi,
        (
            "leaderboard",
            "comparisons",
            "attributions/shallow/*",  # it names its inputs
            "answerability",
        ),
    ),
    "a retriever goes": (drop_shallow, ("leaderboard", "comparisons", "answerability")),
    "the primary metric": (change_primary, ("leaderboard", "comparisons")),
    "the tokenizer; nothing is searched": (
        change_tokenizer,
        ("contexts/*", "retriever_contexts/*", "metrics/*", *NUMBERS),
    ),
    "an answer, which no metric asks for": (
        lambda tiny: tiny.write_rows("queries.jsonl", with_answer("10 crowns")),
        ("queries", "query_facts"),
    ),
    "answers are measured": (measure_answers, ("metrics/*", *NUMBERS)),
    "one more metric": (add_metric, ("metrics/*", *NUMBERS)),
    "the order of the queries": (
        lambda tiny: tiny.write_rows("queries.jsonl", QUERIES[::-1]),
        ("queries",),
    ),
    "the order of the judgments": (
        lambda tiny: tiny.write_rows("judgments.jsonl", JUDGMENTS[::-1]),
        ("qrels",),
    ),
    "the time of a file": (
        touch_all,
        (),
    ),
    "a fusion that needs more candidates than were searched for": (
        lambda tiny: tiny.configure("deep", type="rrf", inputs=["bm25", "okapi"], candidates=50),
        (
            "lexical_runs/okapi/1",
            "fused_runs/deep/*",
            "metrics/deep/[35]",  # at 1 it finds what another fusion of them does
            "metrics_summary/deep",
            "intervals/deep",
            "leaderboard",
            "comparisons",
            "attributions/okapi/*",
            "attributions/deep/*",
            "answerability",
        ),
    ),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_exactly_the_dependants_of_a_change_are_computed(
    tiny: Tiny, change: Change, expected: tuple[str, ...]
) -> None:
    change(tiny)
    plan = planned(tiny)
    computed = tiny.run()
    assert computed == matching(tiny.pipeline(), *expected)
    assert is_done(plan, computed)
    assert tiny.run() == set()


def test_where_answers_are_measured_a_text_or_an_answer_changes_the_metrics_only(
    tiny: Tiny,
) -> None:
    measure_answers(tiny)
    tiny.run()
    tiny.write_rows("queries.jsonl", with_answer("10 crowns"))
    expected = matching(tiny.pipeline(), "queries", "query_facts", "metrics/*", *NUMBERS)
    assert tiny.run() == expected
    tiny.replace("fares.md", "free of charge", "safe of charge")
    changed = (
        "documents",
        "qrels",
        "chunks/*",
        "term_counts/*",
        "lexical_index/*",
        "lexical_runs/*",
        *CONTEXTS,
    )
    assert tiny.run() == matching(tiny.pipeline(), *changed, "metrics/*")


def test_everything_is_computed_once(fresh: Tiny) -> None:
    everything = matching(fresh.pipeline(), "*")
    assert len(everything) == N_PARTITIONS
    assert fresh.run() == everything
    assert fresh.run() == set()


def test_going_back_costs_nothing(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.4)
    assert tiny.run()
    tiny.configure("bm25", k1=1.2)
    assert tiny.run() == set()


def test_old_and_new_artifacts_are_the_same_as_from_an_empty_store(
    tiny: Tiny, tmp_path: Path
) -> None:
    """After a chain of changes, nothing is left of the states between."""
    tiny.configure("bm25", k1=0.4)
    tiny.run()
    tiny.replace("fares.md", "40 crowns", "45 crowns")
    tiny.configure("deep", type="rrf", inputs=["bm25", "okapi"], candidates=50)
    add_top_k(tiny)
    tiny.run()
    other = Tiny(tmp_path / "other", tiny.config).write()
    other.replace("fares.md", "40 crowns", "45 crowns")
    other.run()
    assert tiny.snapshot().content == other.snapshot().content


LOSSES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "documents": (("documents",), ("documents",)),
    "chunks": (("chunks", "parts"), ("chunks/parts",)),
    "an index": (("lexical_index", "bm25"), ("lexical_index/bm25",)),
    "relevant_units": (("relevant_units", "hybrid"), ("relevant_units/hybrid",)),
    "a cell": (("fused_runs", "hybrid", "3"), ("fused_runs/hybrid/3",)),
    "all runs of a retriever": (("lexical_runs", "okapi"), ("lexical_runs/okapi/*",)),
    "metrics": (("metrics", "bm25", "1"), ("metrics/bm25/1",)),
    "a ranking that is fused": (("rankings", "bm25"), ("lexical_runs/bm25/1",)),
    "a ranking that nothing reads": (("rankings", "hybrid"), ()),
}


@pytest.mark.parametrize(("lost", "expected"), LOSSES.values(), ids=LOSSES)
def test_what_was_deleted_is_computed_again_and_nothing_else(
    tiny: Tiny, lost: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    before = tiny.snapshot().content
    tiny.lose(*lost)
    plan = planned(tiny)
    computed = tiny.run()
    assert computed == (matching(tiny.pipeline(), *expected) if expected else set())
    assert is_done(plan, computed)
    assert tiny.snapshot().content == before


@pytest.mark.parametrize(("lost", "expected"), LOSSES.values(), ids=LOSSES)
def test_what_was_truncated_is_computed_again_and_nothing_else(
    tiny: Tiny, lost: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    before = tiny.snapshot().content
    for path in tiny.stored(*lost):
        for file in [path, *path.rglob("*")]:
            if file.is_file():
                file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert tiny.run() == (matching(tiny.pipeline(), *expected) if expected else set())
    assert tiny.snapshot().content == before


def test_files_of_another_program_in_the_store_do_no_harm(tiny: Tiny) -> None:
    (tiny.objects("metrics") / ".DS_Store").write_text("")
    (tiny.objects("metrics") / "half.parquet.tmp-0123456789ab").write_text("")
    assert tiny.run() == set()
