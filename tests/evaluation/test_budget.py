from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.budget import budget_metrics, within_budget
from rag_assets.evaluation.metrics import WHOLE_RANKING, query_metrics
from tests.context_tokens import context_table
from tests.made_tables import by_query, document_judgments, query_table, run_table

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
    kept = within_budget(run_table(rankings), context_table(tokens), budget, column="unit_id")
    expected = {query: prefix(units, tokens, budget) for query, units in rankings.items()}
    found: dict[str, list[str]] = {query: [] for query in rankings}
    for row in kept.run.to_pylist():
        found[row["query_id"]].append(row["unit_id"])
        assert row["rank"] == len(found[row["query_id"]])
    assert found == expected
    for row in kept.queries.to_pylist():
        assert row["tokens"] == sum(tokens[u] for u in expected[row["query_id"]]) <= budget
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


@settings(max_examples=6, deadline=None)
@given(RANKINGS, TOKENS, GRADES)
def test_a_larger_budget_never_lowers_recall(
    rankings: dict[str, list[str]], tokens: dict[str, int], grades: dict[str, dict[str, int]]
) -> None:
    run, contexts = run_table(rankings), context_table(tokens)
    judgments, queries = document_judgments(grades), query_table(QUERIES)
    before = dict.fromkeys(QUERIES, 0.0)
    for budget in (0, 30, 60, 400):
        kept = within_budget(run, contexts, budget, column="unit_id")
        rows = by_query(budget_metrics(kept, judgments, queries, ["recall"]))
        after = {query: float(row["recall"] or 0) for query, row in rows.items()}
        assert all(after[query] >= before[query] for query in QUERIES)
        before = after


def test_a_run_that_ended_by_itself_is_not_short() -> None:
    kept = within_budget(
        run_table({"q1": ["d0", "d1"], "q2": ["d0"]}),
        context_table({"d0": 1, "d1": 1}),
        100,
        column="unit_id",
    )
    assert kept.n_short(2) == 1
    assert kept.n_short(3) == 0


def test_a_measure_that_needs_more_than_judgments_is_left_out() -> None:
    kept = within_budget(run_table({"q1": ["d0"]}), context_table({"d0": 1}), 1, column="unit_id")
    judgments = document_judgments({"q1": {"d0": 1}})
    table = budget_metrics(kept, judgments, query_table(["q1"]), ["answer_hit", "mrr"])
    assert table.column_names == ["query_id", "mrr"]
