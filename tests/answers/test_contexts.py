"""What a question is answered from: order, budget, gold, random, against arithmetic by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answers.contexts_stage import (
    gold_contexts,
    ordered,
    passage_lists,
    passages,
    random_contexts,
    ranked_contexts,
    units_by_query,
    within,
)
from rag_assets.schemas import PASSAGES, RELEVANT_UNITS, RETRIEVER_CONTEXTS, RUNS


def unit(name: str, tokens: int = 1, document: str = "d", start: int = 0) -> dict[str, Any]:
    return {
        "unit_id": name,
        "document_id": document,
        "start": start,
        "end": start + 10,
        "n_tokens": tokens,
        "text_digest": f"t{name}",
    }


def handed_over(**queries: list[int]) -> pa.Table:
    """Return passages a, b, ... of queries, with these tokens."""
    return PASSAGES.from_rows(
        [
            {"query_id": query_id, "rank": rank, **unit("abcdefgh"[rank - 1], tokens)}
            for query_id, own in queries.items()
            for rank, tokens in enumerate(own, 1)
        ]
    )


def names(table: pa.Table) -> dict[str, str]:
    return {
        query_id: "".join(row["unit_id"] for row in own)
        for query_id, own in units_by_query(table).items()
    }


@pytest.mark.parametrize(
    ("order", "expected"), [("rank", "abcde"), ("reversed", "edcba"), ("edges", "acedb")]
)
def test_orders(order: str, expected: str) -> None:
    table = ranked_contexts(handed_over(q=[1, 1, 1, 1, 1]), order, None)
    assert names(table) == {"q": expected}
    assert table["position"].to_pylist() == [1, 2, 3, 4, 5]
    assert table["rank"].to_pylist() == ["abcde".index(name) + 1 for name in expected]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [(2, ""), (3, "a"), (7, "a"), (8, "ab"), (9, "abc"), (100, "abc"), (None, "abc")],
)
def test_a_budget_counts_ranks_and_ends_at_the_first_that_does_not_fit(
    budget: int | None, expected: str
) -> None:
    # The third one has one token only: with 4 it would fit beside the first, and is not taken.
    table = ranked_contexts(handed_over(q=[3, 5, 1]), "rank", budget)
    assert names(table).get("q", "") == expected


def test_the_best_are_kept_whatever_the_order() -> None:
    table = ranked_contexts(handed_over(q=[3, 5, 1]), "reversed", 8)
    assert names(table) == {"q": "ba"}


@given(
    st.lists(st.integers(0, 9), max_size=9),
    st.integers(0, 40),
    st.sampled_from(["rank", "reversed", "edges"]),
)
def test_order_and_budget_together(tokens: list[int], budget: int, order: str) -> None:
    units = [unit(str(number), n) for number, n in enumerate(tokens)]
    few = within(units, budget)
    assert few == units[: len(few)]
    assert sum(tokens[: len(few)]) <= budget
    assert len(few) == len(tokens) or sum(tokens[: len(few) + 1]) > budget
    shown = ordered(few, order)
    assert sorted(one["unit_id"] for one in shown) == sorted(one["unit_id"] for one in few)
    if few:
        assert (shown[-1] if order == "reversed" else shown[0]) == few[0]


def test_passages_are_the_texts_of_the_units_of_a_run() -> None:
    rows = [
        {
            "query_id": "q",
            "rank": rank,
            "score": 1.0 / rank,
            "unit_id": f"item{rank}",
            "chunk_id": name,
            "document_id": "d",
        }
        for rank, name in enumerate("ba", 1)
    ]
    contexts = [{"context_id": name, **unit(name, ord(name))} for name in "abc"]
    for row in contexts:
        del row["unit_id"]
    table = passages(RUNS.from_rows(rows), RETRIEVER_CONTEXTS.from_rows(contexts), "chunk_id")
    assert table["unit_id"].to_pylist() == ["b", "a"]
    assert table["n_tokens"].to_pylist() == [ord("b"), ord("a")]


def test_lists_have_a_row_for_every_query_and_cutoff_and_tell_changes() -> None:
    cells = {1: handed_over(q=[3]), 2: handed_over(q=[3, 5], r=[4])}
    rows = passage_lists(cells, ["q", "r"]).to_pylist()
    found = {(row["query_id"], row["top_k"]): row for row in rows}
    assert [(row["n_passages"], row["n_tokens"]) for row in rows] == [
        (1, 3),
        (2, 8),
        (0, 0),
        (1, 4),
    ]
    assert found["q", 1]["digest"] != found["q", 2]["digest"]
    moved = cells[1].set_column(3, "document_id", pa.array(["e"]))
    again = passage_lists({1: moved}, ["q"]).to_pylist()
    assert again[0]["digest"] != found["q", 1]["digest"]


def test_gold_is_all_evidence_by_document_and_place() -> None:
    units = pa.Table.from_pylist(
        [
            unit("late", document="a", start=50),
            unit("first", document="a", start=0),
            unit("other", document="b", start=0),
            unit("wrong", document="b", start=90),
        ]
    )
    rows: list[dict[str, object]] = [
        {"query_id": "q", "evidence_id": e, "unit_id": item, "grade": grade}
        for e, item, grade in [
            ("1", "other", 1),
            ("1", "late", 2),
            ("2", "first", 1),
            ("3", "late", 1),
            ("4", "wrong", 0),
            ("5", None, 1),
        ]
    ]
    table = gold_contexts(RELEVANT_UNITS.from_rows(rows), units, None)
    assert [row["unit_id"] for row in table.to_pylist()] == ["first", "late", "other"]
    assert table["rank"].null_count == 3
    assert gold_contexts(RELEVANT_UNITS.from_rows(rows), units, 2).num_rows == 2


def test_random_units_depend_on_the_seed_and_the_question_alone() -> None:
    rows = [{"context_id": f"u{n:02}", **unit("x", 1, "d", n)} for n in range(40)]
    for row in rows:
        del row["unit_id"]
    units = RETRIEVER_CONTEXTS.from_rows(rows)
    both = names(random_contexts({"q": 3, "r": 50}, units, 0, None))
    alone = names(random_contexts({"q": 3}, units, 0, None))
    assert both["q"] == alone["q"]
    assert len(both["r"]) == 40 * len("u00")  # each once, though more were wanted
    assert names(random_contexts({"q": 3}, units, 1, None)) != alone
    seen = {names(random_contexts({f"q{n}": 1}, units, 0, None))[f"q{n}"] for n in range(400)}
    assert len(seen) == 40
