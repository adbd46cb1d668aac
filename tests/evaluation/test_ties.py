"""Ties: what their order is worth, and the cut."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, UsageError
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.evaluation.ties import BELOW, BOUNDED, tie_bounds, tied_at_cut
from tests.evaluation.naive_metrics import Structure, naive
from tests.made_tables import document_judgments, judgment_table, ranked, scored_table

N_QUERIES = 20


def all_orders(scores: dict[str, float]) -> list[list[str]]:
    groups = [
        [item for item in scores if scores[item] == score]
        for score in sorted(set(scores.values()), reverse=True)
    ]
    orders = product(*(permutations(group) for group in groups))
    return [[item for group in order for item in group] for order in orders]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 2))
def test_bounds_are_those_of_all_orders(seed: int, k: int, rel: int) -> None:
    made = Random(seed)
    items = "abcdefg"
    run = {
        f"q{n:02}": {i: float(made.randint(0, 2)) for i in made.sample(items, made.randint(1, 6))}
        for n in range(N_QUERIES)
    }
    qrels = {
        query: {i: made.randint(-1, 3) for i in made.sample(items, made.randint(1, 7))}
        for query in run
    }
    metrics = {
        measure: Metric(measure, k, (("rel", rel),) if rel > 1 and measure != "ndcg" else ())
        for measure in BOUNDED
    }
    found = tie_bounds(scored_table(run), document_judgments(qrels), list(metrics.values()))
    for number, (query, scores) in enumerate(run.items()):
        structure: Structure = {(item, item): grade for item, grade in qrels[query].items()}
        values = [naive(order, structure, k, rel=rel) for order in all_orders(scores)]
        as_stored = naive(ranked(scores), structure, k, rel=rel)
        for measure, metric in metrics.items():
            row = found[metric].slice(number, 1).to_pylist()[0]
            reached = [one for value in values if (one := value[measure]) is not None]
            if not reached:
                assert row == {"query_id": query, "worst": None, "value": None, "best": None}
                continue
            bounds = (min(reached), as_stored[measure], max(reached))
            expected = [pytest.approx(bound, abs=1e-12) for bound in bounds]
            assert [row["worst"], row["value"], row["best"]] == expected, (query, measure)


def test_units_of_several_evidences() -> None:
    run = scored_table({"q": {"a": 1.0, "b": 1.0, "c": 1.0}})
    labels = judgment_table([("q", "e1", "a", 1), ("q", "e2", "a", 1), ("q", "e1", "b", 1)])
    metric = parse_metric("precision@1")
    row = tie_bounds(run, labels, [metric])[metric].to_pylist()[0]
    assert (row["worst"], row["value"], row["best"]) == (0, 0, 1)
    with pytest.raises(
        DataError, match=r"^recall cannot be bounded over tied .* unit 'a' and evidence 'e1'"
    ):
        tie_bounds(run, labels, [parse_metric("recall@1")])


def test_measures_without_bounds() -> None:
    run, labels = scored_table({"q": {"a": 1.0}}), document_judgments({"q": {"a": 1}})
    with pytest.raises(UsageError, match="cannot bound ties for 'map'"):
        tie_bounds(run, labels, [parse_metric("map@10")])


def test_ranks_against_the_scores() -> None:
    run = scored_table({"q": {"a": 1.0, "b": 2.0}})
    backwards = run.set_column(1, "rank", run["rank"].take([1, 0]))
    with pytest.raises(DataError, match="rank 1 of query 'q' scores less than the rank below"):
        tie_bounds(backwards, document_judgments({"q": {"a": 1}}), [parse_metric("mrr")])


RUN = {
    "crossed": {"a": 3.0, "b": 2.0, "c": 2.0, "d": 2.0, "e": 1.0},
    "ends": {"a": 2.0, "b": 2.0},
    "above only": {"a": 2.0, "b": 2.0, "c": 1.0},
    "short": {"a": 1.0},
}


@pytest.mark.parametrize(
    ("top_k", "found"),
    [(1, {"above only": 1, "ends": 1}), (2, {"crossed": 2}), (3, {"crossed": 1}), (4, {})],
)
def test_units_below_the_cut(top_k: int, found: dict[str, int | None]) -> None:
    assert tied_at_cut(scored_table(RUN), top_k, ends_known=True) == found


def test_a_list_that_ends_at_the_cut_may_have_been_cut_there() -> None:
    assert tied_at_cut(scored_table(RUN), 2, ends_known=False) == {"crossed": 2, "ends": None}


def test_the_count_does_not_depend_on_the_depth_of_the_ranking() -> None:
    runs = [{"q": {f"d{n:03}": 1.0 for n in range(depth)}} for depth in (1 + BELOW, 100)]
    counts = [tied_at_cut(scored_table(run), 1, ends_known=True) for run in runs]
    assert counts == [{"q": BELOW}, {"q": BELOW}]
