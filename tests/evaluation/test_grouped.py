"""Metrics of evidence groups: hand-worked examples, a naive second implementation, AutoRAG."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.dialects.tools import ToolInput, ToolQuery
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.metrics import query_metrics
from tests.evaluation.naive_metrics import RANKINGS, STRUCTURES, UNITS, Structure
from tests.made_tables import GROUP_MEASURES, Row, by_query, judgment_table, query_table, run_table

CUTOFFS = (1, 2, 3, 5, 10)
METRICS = [Metric(measure) for measure in GROUP_MEASURES]


def grouped(cases: list[tuple[list[str], Structure]], cutoffs: tuple[int, ...]) -> list[list[Row]]:
    """For each case, a query of its own, a row a cut-off."""
    runs = {"r": run_table({f"q{n}": ranking for n, (ranking, _) in enumerate(cases)})}
    labels = judgment_table(
        (f"q{n}", *pair, grade)
        for n, (_, structure) in enumerate(cases)
        for pair, grade in structure.items()
    )
    queries = [f"q{n}" for n in range(len(cases))]
    cells = [("r", k) for k in cutoffs]
    found = query_metrics(runs, {"j": labels}, {"r": "j"}, query_table(queries), cells, METRICS)
    assert list(found) == cells
    tables = [by_query(table.select(["query_id", *GROUP_MEASURES])) for table in found.values()]
    return [[rows[query] for rows in tables] for query in queries]


def one(ranking: list[str], structure: Mapping[tuple[str, str], int], k: int) -> Row:
    return grouped([(ranking, {pair: grade for pair, grade in structure.items()})], (k,))[0][0]


def test_two_groups_with_an_alternative() -> None:
    structure = {("e1", "a"): 1, ("e1", "b"): 1, ("e2", "c"): 1}
    row = one(["a", "x", "b", "c"], structure, 3)
    assert row["group_recall"] == 1 / 2
    assert row["full_recall"] == 0
    precision, recall = 2 / 3, 1 / 2
    assert row["group_f1"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert row["group_mrr"] == pytest.approx((1 / 1 + 0) / 2)
    assert row["group_map"] == pytest.approx(((1 / 1 + 2 / 3) / 2 + 0) / 2)
    assert row["group_ndcg"] == pytest.approx(1 / (1 + 1 / log2(3)))
    at_four = one(["a", "x", "b", "c"], structure, 4)
    assert (at_four["group_recall"], at_four["full_recall"]) == (1, 1)
    assert at_four["group_ndcg"] == pytest.approx((1 + 1 / log2(5)) / (1 + 1 / log2(3)))


def test_one_unit_for_two_groups_is_as_good_as_one_unit_each() -> None:
    both = one(["ab", "x"], {("e1", "ab"): 1, ("e2", "ab"): 1}, 2)
    each = one(["a", "b"], {("e1", "a"): 1, ("e2", "b"): 1}, 2)
    assert both["group_ndcg"] == each["group_ndcg"] == 1
    # At rank 2 neither can gain more than rank 2 does.
    late = one(["x", "ab"], {("e1", "ab"): 1, ("e2", "ab"): 1}, 2)
    assert late["group_ndcg"] == pytest.approx(2 / log2(3) / (1 + 1 / log2(3)))
    first = one(["ab"], {("e1", "ab"): 1, ("e2", "ab"): 1}, 1)
    assert (first["group_ndcg"], first["full_recall"]) == (1, 1)


def test_a_group_gains_the_grade_of_its_first_unit() -> None:
    structure = {("e1", "weak"): 1, ("e1", "strong"): 3, ("e2", "b"): 2}
    ideal = 3 + 2 / log2(3)
    assert one(["strong", "b"], structure, 2)["group_ndcg"] == pytest.approx(1)
    found = one(["weak", "b", "strong"], structure, 3)["group_ndcg"]
    assert found == pytest.approx((1 + 2 / log2(3)) / ideal)


def naive(ranking: list[str], structure: Structure, k: int) -> Row:
    """The definitions, group by group."""
    groups: dict[str, dict[str | None, int]] = {}
    for (evidence, unit), grade in structure.items():
        if grade > 0:
            groups.setdefault(evidence, {})[unit] = grade
    if not groups:
        return dict.fromkeys(GROUP_MEASURES)
    cut = ranking[:k]
    ranks = {
        name: [rank for rank, item in enumerate(cut, 1) if item in units]
        for name, units in groups.items()
    }
    firsts = sorted(
        (found[0], -groups[name][cut[found[0] - 1]]) for name, found in ranks.items() if found
    )
    ideal = sorted((max(units.values()) for units in groups.values()), reverse=True)[:k]
    positions = [(max(rank, nth), -less) for nth, (rank, less) in enumerate(firsts, 1)]
    gained = sum(grade / log2(position + 1) for position, grade in positions if position <= k)
    recall = len(firsts) / len(groups)
    relevant = sum(any(item in units for units in groups.values()) for item in cut)
    precision = relevant / len(cut) if cut else 0.0
    average = [sum(n / r for n, r in enumerate(f, 1)) / len(f) for f in ranks.values() if f]
    return {
        "group_recall": recall,
        "group_f1": 2 * recall * precision / (recall + precision) if relevant else 0.0,
        "group_mrr": sum(1 / rank for rank, _ in firsts) / len(groups),
        "group_map": sum(average) / len(groups),
        "group_ndcg": gained / sum(g / log2(rank + 1) for rank, g in enumerate(ideal, 1)),
        "full_recall": float(len(firsts) == len(groups)),
    }


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(RANKINGS, STRUCTURES), min_size=1, max_size=12))
def test_random_groups(cases: list[tuple[list[str], Structure]]) -> None:
    for case, rows in zip(cases, grouped(cases, CUTOFFS), strict=True):
        for k, row in zip(CUTOFFS, rows, strict=True):
            for measure, value in naive(*case, k).items():
                assert row[measure] == (None if value is None else pytest.approx(value, abs=1e-9))


GROUPS = st.lists(st.lists(st.sampled_from(UNITS), min_size=1, max_size=3, unique=True), min_size=1)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(RANKINGS.filter(bool), GROUPS), min_size=1, max_size=12))
def test_equals_autorag_except_for_ndcg(cases: list[tuple[list[str], list[list[str]]]]) -> None:
    autorag = DIALECTS["autorag"]
    structures: list[tuple[list[str], Structure]] = [
        (ranking, {(str(n), item): 1 for n, group in enumerate(groups) for item in group})
        for ranking, groups in cases
    ]
    for (ranking, groups), rows in zip(cases, grouped(structures, CUTOFFS), strict=True):
        query = ToolQuery("q", ranking, groups=tuple(map(tuple, groups)))
        for k, row in zip(CUTOFFS, rows, strict=True):
            for name in ("recall", "f1", "mrr", "map"):
                metric = autorag.parse(f"retrieval_{name}@{k}")
                theirs = autorag.outcome(ToolInput((query,)), metric).mean
                assert row[f"group_{name}"] == pytest.approx(theirs, abs=1e-9)
