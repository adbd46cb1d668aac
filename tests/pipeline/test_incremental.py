"""What a change computes anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rag_assets.errors import DataError
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY, metrics_key
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.selection import Selection
from rag_assets.report.html import render
from rag_assets.report.leaderboard import leaderboard_rows, leaderboard_sheets
from rag_assets.report.result import EvaluationResult
from rag_assets.report.slices import slices_of
from rag_assets.report.terminal_table import sheets_view
from tests.made_tables import word_tokenizer
from tests.shown_board import evaluated, shown
from tests.tiny_experiment import CONFIG, DOCUMENTS, QUERIES, Tiny, is_done, matching, planned

TOP_K = (1, 3, 5)

Change = Callable[[Tiny], object]

SUMMARIES = ("metrics_summary/*", "intervals/*", "leaderboard")
NUMBERS = (*SUMMARIES, "comparisons")
CONTEXTS = ("contexts/*", "retriever_contexts/*")
SEED = 0
"""Of the six queries it puts three in dev."""

N_PARTITIONS = 76


def add_top_k(tiny: Tiny) -> None:
    tiny.config["top_k"] = [1, 3, 5, 10]
    tiny.write_config()


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
    "an answer; no mean depends on it": (
        lambda tiny: tiny.replace("queries.jsonl", '"q1",', '"q1", "answers": ["10 crowns"],'),
        ("queries", "query_facts"),
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
    "the primary metric": (change_primary, ("leaderboard", "comparisons")),
    "the tokenizer; nothing is searched": (
        change_tokenizer,
        ("contexts/*", "retriever_contexts/*", "metrics/*", *NUMBERS),
    ),
    "answers are measured": (measure_answers, ("metrics/*", *NUMBERS)),
    "one more metric": (add_metric, ("metrics/*", *NUMBERS)),
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


def test_files_of_another_program_in_the_store_do_no_harm(tiny: Tiny) -> None:
    (tiny.objects("metrics") / ".DS_Store").write_text("")
    (tiny.objects("metrics") / "half.parquet.tmp-0123456789ab").write_text("")
    assert tiny.run() == set()


Fields = dict[str, list[Any]]
Facts = dict[str, dict[str, Any]]


def ask(tiny: Tiny, fields: Fields, **config: Any) -> None:
    """Give the queries fields, and the experiment keys."""
    values = [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]
    tiny.write_rows("queries.jsonl", [{**q, **v} for q, v in zip(QUERIES, values, strict=True)])
    tiny.config |= config
    tiny.write_config()


def facts(tiny: Tiny) -> Facts:
    pipeline = tiny.pipeline()
    for asset in ("documents", "queries", "qrels", "query_facts"):
        pipeline.materialize(asset, [QUERY_FACTS_KEY.of(asset)])
    rows = pipeline.artifact(QUERY_FACTS_KEY).table().to_pylist()
    return {row.pop("query_id"): row for row in rows}


@pytest.mark.parametrize(
    ("fields", "config", "place", "problem"),
    [
        (
            {"fold": ["dev", "tset", "test", "test", "test", None]},
            {"split": {"field": "fold"}},
            "split.field",
            "query 'q2' has 'fold': 'tset'; must be dev or test",
        ),
        (
            {"asked": [1, 2, 3, 0, 5, 6]},
            {"weight": "asked"},
            "weight",
            "query 'q4' has 'asked': 0; must be a positive number, at most 2^53",
        ),
    ],
)
def test_a_bad_value_is_one_line_with_file_line_and_key(
    one: Tiny, fields: Fields, config: dict[str, Any], place: str, problem: str
) -> None:
    ask(one, fields or {"x": [1] * 6}, **config)
    file = one.folder / "experiment.yaml"
    keys = [line.split(":")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    with pytest.raises(DataError) as caught:
        facts(one)
    line = 1 + keys.index(place.split(".")[-1])
    assert str(caught.value) == f"{file}:{line}: `{place}`: {problem}"


def test_an_unreadable_answer_is_noted(one: Tiny) -> None:
    ask(one, {"answers": [["x"], [], "y", {"text": "z"}, True, None]})
    found = facts(one)
    assert [row["answers"] for row in found.values()] == [["x"], [], ["y"], [], [], []]
    notes = one.pipeline().artifact(QUERY_FACTS_KEY).manifest.facts["notes"]
    assert notes == [
        "2 queries have an answer that is not a text; their answers do not count: q4, q5"
    ]


def test_means_by_split_and_weight_by_hand(one: Tiny) -> None:
    fields: Fields = {"fold": ["dev", "dev", *["test"] * 4], "n": [1, 2, 3, 4, 5, 8]}
    ask(one, fields, split={"field": "fold"}, weight="n")
    result = evaluated(one.pipeline())
    values = {
        row["query_id"]: row["mrr"] for row in result.query_metrics(1)["bm25-whole"].to_pylist()
    }
    expected = {
        "test": (3 * values["q3"] + 4 * values["q4"] + 5 * values["q5"] + 8 * values["q6"]) / 20,
        "dev": (values["q1"] + 2 * values["q2"]) / 3,
    }
    board = result.leaderboard.to_pylist()
    assert [row["split"] for row in board] == ["test", "test", "dev", "dev"]
    for row in board:
        if row["retriever"] == "bm25-whole":
            assert row["mrr"] == pytest.approx(expected[row["split"]])
    assert shown(result)[0] == "tiny: test, top_k 1, weighted mean over 4 queries"
    assert shown(result, "dev")[0] == "tiny: dev, top_k 1, weighted mean over 2 queries"
    page = render(result)
    assert "Weighted means over 4 answerable queries of the test split" in page
    slices = {one.value: one.n_queries for one in slices_of(result)}
    assert slices == {"engines": 1, "safety": 2}  # q1 and q2, fares and wind, are in dev


COLUMNS = [
    "ndcg",
    "ndcg_exp",
    "precision",
    "precision(rel=2)",
    "bpref",
    "rbp(p=0.9)",
    "err(gmax=4)",
]


def test_parameters_reach_every_face(fresh: Tiny) -> None:
    fresh.config["retrievers"] = {"bm25": fresh.config["retrievers"]["bm25"]}
    fresh.config["metrics"] = ["ERR", "P", "P(rel=2)", "RBP(p=0.9)", "nDCG", "Bpref", "ndcg_exp"]
    fresh.config["primary"] = "RBP(p=0.9)@3"
    fresh.write_config()
    fresh.run()
    fresh.snapshot()
    experiment = load_experiment(fresh.folder)
    result = EvaluationResult.current(fresh.artifacts)
    assert experiment.primary == result.primary
    assert str(result.primary) == "rbp(p=0.9)@3"
    rows = leaderboard_rows(result.leaderboard, Selection.of(experiment), "all")
    assert [row["top_k"] for row in rows] == [1, 3, 5]
    assert [name for name in rows[0] if name in COLUMNS] == COLUMNS
    cell = result.query_metrics(3)["bm25"]
    assert cell.column_names[-len(COLUMNS) :] == COLUMNS
    assert rows[1]["rbp(p=0.9)"] == sum(cell["rbp(p=0.9)"].to_pylist()) / 6
    assert rows[1]["precision(rel=2)"] != rows[1]["precision"]
    assert set(slices_of(result)[0].means) == {"bm25"}
    console = Console(width=160)
    with console.capture() as shown:
        console.print(sheets_view(leaderboard_sheets(result, rows)))
    assert "rbp(p=0.9)*" in shown.get()
    assert "rbp(p=0.9) by top_k" in shown.get()
    assert "err(gmax=4)" in render(result)


def test_an_experiment_asks_for_them(fresh: Tiny) -> None:
    fresh.config["metrics"] = ["recall", "group_recall", "full_recall", "group_ndcg@5"]
    fresh.write()
    retriever = next(iter(fresh.config["retrievers"]))
    fresh.run()
    pipeline = fresh.pipeline()
    board = pipeline.artifact(LEADERBOARD_KEY).table()
    assert {"recall", "group_recall", "full_recall", "group_ndcg"} <= set(board.column_names)
    for row in board.to_pylist():
        assert (row["group_ndcg"] is None) == (row["top_k"] != 5)
        if row["group_recall"] is not None:
            assert row["group_recall"] == row["recall"] >= row["full_recall"]
    top_k = max(fresh.config["top_k"])
    cell = pipeline.artifact(metrics_key(retriever, top_k)).table()
    values = cell["full_recall"].to_pylist()
    assert set(values) <= {0.0, 1.0, None}
    assert 1.0 in values


def test_going_back_costs_nothing(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.4)
    assert tiny.run()
    tiny.configure("bm25", k1=1.2)
    assert tiny.run() == set()
