"""What is returned for a chunk, its tokens, windows around it, an equal budget."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.chunking.chunker import cut_documents
from rag_assets.evaluation.contexts_stage import contexts, expanded_contexts, of_retriever
from rag_assets.evaluation.metrics import WHOLE_RANKING, query_metrics
from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.evaluation.returned_texts import (
    budget_metrics,
    returned_texts,
    tokens_by_query,
    within_budget,
)
from rag_assets.evaluation.units import context_column, text_digest, unit_spans, with_neighbours
from rag_assets.schemas import DOCUMENTS, column_values
from tests.chunking.chunk_checks import cutter
from tests.evaluation.answer_text import holds
from tests.labels.health.tables import chunks, qrels
from tests.made_tables import by_query, context_table, document_judgments, query_table, run_table

TEXTS = {"a": "one two three four five six", "b": "seven eight", "c": ""}


def documents() -> pa.Table:
    rest: dict[str, object] = {"title": "a title of many words", "metadata": "{}"}
    rows = [{"document_id": name, "text": text, **rest} for name, text in TEXTS.items()]
    return DOCUMENTS.from_rows(rows)


SMALL: dict[str, Any] = {"strategy": "fixed", "max_characters": 14, "overlap": 0}
LARGE: dict[str, Any] = {**SMALL, "max_characters": 20}


def test_without_parents_it_is_the_chunk_and_no_title() -> None:
    chunks = cut_documents(documents(), cutter(**SMALL))
    table = contexts(chunks, {})
    assert table["text_digest"].to_pylist() == [*map(text_digest, chunks["text"].to_pylist())]
    assert table["unit_id"].equals(chunks["chunk_id"])
    assert table["start"].equals(chunks["start"])


def test_with_parents_it_is_the_parent() -> None:
    chunks = cut_documents(documents(), cutter("parent", child=SMALL, parent=LARGE))
    rows = contexts(chunks, TEXTS).to_pylist()
    assert [row["chunk_id"] for row in rows] == chunks["chunk_id"].to_pylist()
    assert len({row["unit_id"] for row in rows}) < len(rows)
    for row, chunk in zip(rows, chunks.to_pylist(), strict=True):
        text = TEXTS[row["document_id"]][row["start"] : row["end"]]
        assert chunk["text"] in text
        assert (row["unit_id"], row["start"]) == (chunk["parent_chunk_id"], chunk["parent_start"])
        assert row["text_digest"] == text_digest(text)


@pytest.mark.parametrize("at_once", [1, 2, 1000])
@pytest.mark.parametrize("judge", ["document", "chunk", "evidence"])
def test_a_fusion_of_chunks_and_of_their_parents(
    judge: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same chunk stands for itself in one input, and for its parent in the other."""
    monkeypatch.setattr("rag_assets.evaluation.contexts_stage.ROWS_AT_ONCE", at_once)
    alone = cut_documents(documents(), cutter(**SMALL))
    inside = cut_documents(documents(), cutter("parent", child=SMALL, parent={"strategy": "none"}))
    shared = "a#0-14"
    assert shared in alone["chunk_id"].to_pylist()
    assert shared in inside["chunk_id"].to_pylist()
    tables = [contexts(chunks, TEXTS) for chunks in (alone, inside)]
    for order in (tables, tables[::-1]):
        found = of_retriever(order, judge)
        ends = dict(column_values(found, "context_id", "end"))
        assert len(ends) == found.num_rows
        if context_column(judge) == "chunk_id":
            assert ends[shared] == 27
        else:
            assert (ends[shared], ends["a#0-27"]) == (14, 27)


def test_tokens_of_what_is_returned() -> None:
    run = run_table({"q1": ["a", "b", "c"], "q2": ["c"]})
    tokens = {"a": 100, "b": 20, "c": 3, "d": 7}
    texts = returned_texts(run, context_table(tokens), "unit_id")
    counts = {(name, 0, count): count for name, count in tokens.items()}
    together, each = tokens_by_query(texts, counts, ["q2", "q1", "q3"])
    assert together.to_pylist() == [3, 123, 0]
    assert each.to_pylist() == [[3], [100, 20, 3], []]


UNITS = [f"d{i}" for i in range(8)]
QUERIES = ("q1", "q2", "q3")
MEASURES = ["hit_rate", "mrr", "ndcg", "recall", "precision", "map"]
RANKINGS = st.dictionaries(
    st.sampled_from(QUERIES), st.lists(st.sampled_from(UNITS), unique=True, min_size=1), min_size=1
)
TOKENS = st.fixed_dictionaries({unit: st.integers(0, 40) for unit in UNITS})
GRADES = st.dictionaries(
    st.sampled_from(QUERIES),
    st.dictionaries(st.sampled_from(UNITS), st.integers(0, 3), min_size=1),
    min_size=1,
)


def prefix(units: list[str], tokens: dict[str, int], budget: int) -> list[str]:
    """The rule once more, one unit after the other."""
    kept: list[str] = []
    for unit in units:
        if sum(tokens[u] for u in kept) + tokens[unit] > budget:
            break
        kept.append(unit)
    return kept


@settings(max_examples=12, deadline=None)
@given(RANKINGS, TOKENS, st.integers(0, 120), GRADES)
def test_equals_the_metrics_of_the_prefix(
    rankings: dict[str, list[str]],
    tokens: dict[str, int],
    budget: int,
    grades: dict[str, dict[str, int]],
) -> None:
    of_units = {query: [tokens[unit] for unit in units] for query, units in rankings.items()}
    kept = within_budget(run_table(rankings), of_units, budget)
    expected = {query: prefix(units, tokens, budget) for query, units in rankings.items()}
    found: dict[str, list[str]] = {query: [] for query in rankings}
    for row in kept.run.to_pylist():
        found[row["query_id"]].append(row["unit_id"])
        assert row["rank"] == len(found[row["query_id"]])
    assert found == expected
    for query, fitting in kept.queries.items():
        assert fitting.tokens == sum(tokens[u] for u in expected[query]) <= budget
    longest = max(len(units) for units in rankings.values())
    assert kept.n_short(longest) == sum(
        len(expected[q]) == len(units) == longest for q, units in rankings.items()
    )
    assert kept.n_nothing_fits() == sum(not units for units in expected.values())
    judgments, queries = document_judgments(grades), query_table(QUERIES)
    rows = by_query(budget_metrics(kept, judgments, queries, MEASURES))
    cut = run_table(expected)
    cell = ("r", WHOLE_RANKING)
    whole = by_query(query_metrics({"r": cut}, {"j": judgments}, {"r": "j"}, queries, [cell])[cell])
    for query in QUERIES:
        values = {name: whole[query][name] for name in MEASURES}
        if values["precision"] is not None:
            units = expected.get(query, [])
            relevant = sum(grades.get(query, {}).get(unit, 0) > 0 for unit in units)
            values["precision"] = relevant / len(units) if units else 0.0
        assert rows[query] == pytest.approx(values, abs=1e-12)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "context_cost.md"
BLOCKS = [
    yaml.safe_load(block)
    for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
]
CONFIG, EXPANDED, WINDOWS, ANSWERS, BUDGETS = BLOCKS


def test_neighbours() -> None:
    text = WINDOWS["text"]
    spans = [(text.index(one), text.index(one) + len(one)) for one in WINDOWS["chunks"]]
    cut = chunks({"d": text}, {"d": spans})
    start = text.index(WINDOWS["evidence"])
    labels = qrels(("q", "e", "d", (start, start + len(WINDOWS["evidence"])), 1))
    table = expanded_contexts(contexts(cut, {}), WINDOWS["neighbours"], {"d": text})
    returned = [text[first:last] for first, last in column_values(table, "start", "end")]
    assert returned == WINDOWS["returned"]
    assert [len(part.split()) for part in returned] == WINDOWS["tokens"]
    assert table["text_digest"].to_pylist() == [*map(text_digest, returned)]
    units = with_neighbours(unit_spans(cut), WINDOWS["neighbours"])
    found = relevant_units(labels, cut, "evidence", units)["unit_id"].to_pylist()
    ids = cut["chunk_id"].to_pylist()
    assert set(found) == {ids[number - 1] for number in WINDOWS["satisfied_by"]}
    assert relevant_units(labels, cut, "evidence")["unit_id"].to_pylist() == [ids[1]]


@pytest.mark.parametrize("example", ANSWERS, ids=str)
def test_answer(example: dict[str, Any]) -> None:
    assert holds(example["text"], example["answer"]) is example["holds"]


@pytest.mark.parametrize("example", BUDGETS, ids=str)
def test_budget(example: dict[str, Any]) -> None:
    units = [f"d{rank}" for rank in range(1, len(example["tokens"]) + 1)]
    kept = within_budget(run_table({"q": units}), {"q": example["tokens"]}, example["budget"])
    assert kept.queries["q"].n_kept == example["kept"]
    judgments = document_judgments({"q": {f"d{rank}": 1 for rank in example["relevant"]}})
    # A measure that needs more than judgments is left out.
    asked = ["answer_hit", *example["metrics"]]
    (row,) = budget_metrics(kept, judgments, query_table(["q"]), asked).to_pylist()
    assert row.pop("query_id") == "q"
    assert row == pytest.approx(example["metrics"], abs=1e-6)


Span = tuple[str, int, int]
SPANS = st.lists(
    st.builds(
        lambda name, start, length: (name, start, start + length),
        st.sampled_from("abc"),
        st.integers(0, 12),
        st.integers(0, 6),
    ),
    max_size=14,
)


def grown(spans: list[Span], neighbours: int) -> list[Span]:
    """By the words of the definition."""
    found = []
    for name, start, end in spans:
        ordered = sorted({span for span in spans if span[0] == name})
        place = ordered.index((name, start, end))
        window = ordered[max(place - neighbours, 0) : place + neighbours + 1]
        found.append((name, min(s for _, s, _ in window), max(e for _, _, e in window)))
    return found


@given(SPANS, st.integers(0, 5))
def test_a_span_grows_over_its_neighbours(spans: list[Span], neighbours: int) -> None:
    names, kinds = ("unit_id", "document_id", "start", "end"), (pa.int64(), pa.string())
    schema = pa.schema(zip(names, (*kinds, pa.int64(), pa.int64()), strict=True))
    rows = [dict(zip(names, (n, *span), strict=True)) for n, span in enumerate(spans)]
    table = pa.Table.from_pylist(rows, schema=schema)
    found = with_neighbours(table, neighbours)
    assert found.schema == table.schema
    assert found["unit_id"].equals(table["unit_id"])
    assert [*column_values(found, "document_id", "start", "end")] == grown(spans, neighbours)
