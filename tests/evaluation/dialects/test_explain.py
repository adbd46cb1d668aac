"""No number of a tool differs from ours without a reason, and no reason is given without need."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.dialects.dialect import Hit, tool_input
from rag_assets.evaluation.dialects.differences import DIFFERENCES
from rag_assets.evaluation.dialects.explain import UNKNOWN, explain
from rag_assets.evaluation.label_files import Labels
from rag_assets.evaluation.metric_names import GROUP_MEASURES, MEASURES, RANKING_MEASURES
from tests.made_tables import Label, judgment_table

DOCUMENTS = ["a", "b", "c", "d", "e", "q1", "q2"]
HITS = st.lists(st.tuples(st.sampled_from(DOCUMENTS), st.integers(0, 3).map(float)), max_size=6)
GRADED = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), max_size=6)
GROUPED = st.lists(
    st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=3, unique=True), max_size=3
)
METRICS = [
    f"{measure}@{k}" for measure in (*RANKING_MEASURES, *GROUP_MEASURES[:-1]) for k in (1, 3, 10)
]

Truth = dict[str, int] | list[list[str]]


def labels_of(truths: dict[str, Truth]) -> Labels:
    rows: list[Label] = []
    groups: dict[str, tuple[tuple[str, ...], ...]] = {}
    for query, truth in truths.items():
        if isinstance(truth, dict):
            rows += [(query, item, item, grade) for item, grade in truth.items()]
            groups[query] = tuple((item,) for item, grade in truth.items() if grade > 0)
        else:
            rows += [(query, str(n), item, 1) for n, group in enumerate(truth) for item in group]
            groups[query] = tuple(tuple(group) for group in truth)
        if not truth:
            rows.append((query, "none", None, 0))
    return Labels(judgment_table(rows), groups)


def explained(
    run: dict[str, list[Hit]], truths: dict[str, Truth], metrics: list[str], listed: bool = False
) -> list[dict[str, object]]:
    labels = labels_of(truths)
    hits = {query: tuple(found) for query, found in run.items()}
    return explain(tool_input(hits, listed, labels), labels.judgments, metrics)


QUERIES = [f"q{n}" for n in range(1, 9)]


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(st.sampled_from([*QUERIES, "stranger"]), HITS, min_size=3),
    st.dictionaries(st.sampled_from(QUERIES), st.one_of(GRADED, GROUPED), min_size=5),
    st.booleans(),
)
def test_no_difference_without_a_reason(
    run: dict[str, list[Hit]], truths: dict[str, Truth], listed: bool
) -> None:
    for row in explained(run, truths, METRICS, listed):
        assert row["why"] != UNKNOWN, row
        assert row["ours"] != row["value"]


Case = tuple[dict[str, list[Hit]], dict[str, Truth]]
MANY: dict[str, Truth] = {"q": dict.fromkeys("abcdefghijkl", 1)}
EXAMPLES: list[Case] = [
    ({"q": [("a", 1.0)]}, {"q": {"a": 1, "b": 1}}),
    ({}, {"q": {"a": 1}}),
    ({"q": []}, {"q": {"a": 1}}),
    ({"q": [("a", 1.0)]}, {"q": {"a": 0}}),
    ({"q": [("a", 2.0), ("a", 1.0)]}, {"q": {"a": 1}}),
    ({"q": [("a", 1.0), ("b", 1.0)]}, {"q": {"b": 1}}),
    ({"a": [("a", 2.0), ("b", 1.0)]}, {"a": {"b": 1}}),
    ({"q": [("a", 2.0), ("b", 1.0)]}, {"q": {"a": 1, "b": 3}}),
    ({"q": [("a", 2.0), ("b", 1.0)]}, {"q": [["a", "b"], ["c"]]}),
    ({"q": [("a", 2.0)]}, {"q": [["a"], []]}),
    ({"q": [("a", 2.0)]}, MANY),
    ({"q": [("c", 2.0), ("a", 1.0)]}, {"q": {"a": 1, "b": 0}}),
    ({"q": [("a", 2.0), ("b", 1.0)]}, {"q": {"a": -1, "b": 1}}),
    ({"q": [("a", 2.0), ("b", 1.0)]}, {"q": {"a": 1, "b": 1}}),
]


@pytest.fixture(scope="module")
def given_reasons() -> set[tuple[object, str]]:
    """Every (dialect, reason) of the examples."""
    return {
        (row["dialect"], reason)
        for run, truths in EXAMPLES
        for row in explained(run, truths, METRICS)
        for reason in str(row["why"]).split("; ")
    }


def test_every_known_difference_is_met(given_reasons: set[tuple[object, str]]) -> None:
    """A reason that no example meets would be a claim without a proof."""
    for difference in DIFFERENCES:
        if set(difference.measures) & set(MEASURES):
            pairs = {(dialect, difference.reason) for dialect in difference.dialects}
            assert pairs & given_reasons, difference.reason


def test_rows_name_both_numbers_and_the_reason() -> None:
    run: dict[str, list[Hit]] = {"q": [("a", 1.0)], "fine": [("a", 1.0)]}
    truths: dict[str, Truth] = {"q": {"a": 1, "b": 1}, "fine": {"a": 1}}
    rows = explained(run, truths, ["ndcg@5"])
    ours = pytest.approx(1 / (1 + 1 / 1.584962500721156))
    short = "the ideal list is no longer than what was retrieved (ours: min(R, k) entries)"
    assert rows == [
        {
            "query_id": "q",
            "metric": "ndcg@5",
            "ours": ours,
            "dialect": dialect,
            "name": name,
            "value": 1.0,
            "why": short,
        }
        for dialect, name in (("autorag", "retrieval_ndcg@5"), ("mlflow", "ndcg_at_5"))
    ]


def test_a_query_that_repeats_documents_has_no_value_of_ours() -> None:
    rows = explained({"q": [("a", 2.0), ("a", 1.0)]}, {"q": {"a": 1}}, ["recall@5", "map@5"])
    assert {row["dialect"] for row in rows} == set(DIALECTS)
    assert all(row["ours"] is None for row in rows)
    assert all("a document stands twice" in str(row["why"]) for row in rows)


def test_metrics_without_a_cut_off_are_compared_where_a_tool_has_them() -> None:
    run: dict[str, list[Hit]] = {"q": [("a", 3.0), ("b", 2.0)]}
    rows = explained(run, {"q": {"a": 1, "b": 3}}, ["ndcg"])
    assert [row["name"] for row in rows] == ["retrieval_ndcg", "ndcg"]
    assert [row["dialect"] for row in rows] == ["autorag", "llamaindex"]


def test_a_query_without_a_relevant_document() -> None:
    rows = explained({"q": [("a", 1.0)]}, {"q": {"a": 0}}, ["recall@5"])
    assert {row["dialect"]: row["value"] for row in rows} == {"beir": 0, "ranx": 0, "mlflow": 0}
    assert all(row["ours"] is None for row in rows)
