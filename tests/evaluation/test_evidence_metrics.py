"""Evidence that is not one document: hand-worked examples, and a naive second implementation."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.metric_names import (
    Metric,
    highest_value,
    parameters_of,
)
from rag_assets.evaluation.metrics import query_metrics
from tests.evaluation.naive_metrics import Structure, naive
from tests.made_tables import (
    ALL_METRICS,
    RANKING_MEASURES,
    Label,
    Row,
    by_query,
    document_judgments,
    judgment_table,
    one_query,
    query_table,
    run_table,
)

MEASURES = ("hit_rate", "mrr", "ndcg", "recall", "precision", "map")
CUTOFFS = (1, 2, 3, 4, 6, 10)
UNITS = [f"c{i}" for i in range(8)]
EVIDENCES = [f"e{i}" for i in range(5)]

STRUCTURES = st.dictionaries(
    st.tuples(st.sampled_from(EVIDENCES), st.sampled_from([*UNITS, None])), st.integers(-1, 3)
)
RANKINGS = st.permutations([*UNITS, "x", "y"]).flatmap(
    lambda items: st.integers(0, len(items)).map(lambda n: list(items[:n]))
)


def test_two_evidences_in_one_chunk_count_both_for_recall() -> None:
    row = one_query(["a", "b"], [("e1", "a", 2), ("e2", "a", 1)], 2)
    assert (row["n_relevant"], row["recall"], row["mrr"], row["hit_rate"]) == (2, 1, 1, 1)
    assert row["precision"] == 1 / 2
    assert row["map"] == (1 / 1 + 1 / 1) / 2
    # One rank earns once: the higher of the two grades. The ideal has one evidence a rank.
    assert row["ndcg"] == pytest.approx(2 / (2 / log2(2) + 1 / log2(3)), abs=1e-12)


def test_second_chunk_with_the_same_evidence_earns_nothing_but_is_no_error() -> None:
    row = one_query(["a", "b", "c"], [("e1", "a", 1), ("e1", "b", 1), ("e2", "c", 1)], 3)
    assert row["n_relevant"] == 2
    assert row["precision"] == 1  # all three are relevant
    assert row["recall"] == 1
    assert row["map"] == (1 / 1 + 3 / 3) / 2
    dcg, ideal = 1 / log2(2) + 1 / log2(4), 1 / log2(2) + 1 / log2(3)
    assert row["ndcg"] == pytest.approx(dcg / ideal, abs=1e-12)
    at_two = one_query(["a", "b", "c"], [("e1", "a", 1), ("e1", "b", 1), ("e2", "c", 1)], 2)
    assert (at_two["recall"], at_two["precision"]) == (1 / 2, 1)


def test_alternatives_earn_the_grade_of_the_one_found_first() -> None:
    labels = [("e1", "strong", 2), ("e1", "weak", 1)]
    assert one_query(["strong", "weak"], labels, 2)["ndcg"] == 1
    weak_first = one_query(["weak", "strong"], labels, 2)
    assert weak_first["ndcg"] == pytest.approx(1 / 2)  # ideal: grade 2 at rank 1
    assert (weak_first["recall"], weak_first["precision"], weak_first["n_relevant"]) == (1, 1, 1)


def test_an_alternative_without_a_positive_grade_satisfies_nothing() -> None:
    row = one_query(["zero", "good"], [("e1", "good", 1), ("e1", "zero", 0)], 2)
    assert (row["mrr"], row["precision"], row["n_relevant"], row["n_judged"]) == (0.5, 0.5, 1, 2)


def test_unreachable_evidence_stays_in_r_and_in_the_ideal() -> None:
    row = one_query(["a"], [("e1", "a", 1), ("lost", None, 1)], 5)
    assert (row["n_relevant"], row["n_unreachable"]) == (2, 1)
    assert (row["recall"], row["map"]) == (1 / 2, 1 / 2)
    assert row["ndcg"] == pytest.approx(1 / (1 + 1 / log2(3)), abs=1e-12)


def test_evidence_whose_best_alternative_is_out_of_reach_is_not_unreachable() -> None:
    row = one_query(["weak"], [("e1", None, 2), ("e1", "weak", 1)], 1)
    assert (row["n_relevant"], row["n_unreachable"]) == (1, 0)
    assert (row["recall"], row["ndcg"]) == (1, 1 / 2)


def test_only_unreachable_evidence_is_answerable_and_scores_0() -> None:
    row = one_query(["a"], [("lost", None, 2)], 1)
    assert (row["n_relevant"], row["n_unreachable"], row["n_judged"]) == (1, 1, 0)
    values = {metric.column: row[metric.column] for metric in ALL_METRICS}
    mistakes = {"fp": 1, "fn": 1}  # a, which has no judgment, and the evidence
    assert values == {**dict.fromkeys(values, 0), **mistakes}


def labels_of(query: str, structure: Structure) -> list[Label]:
    return [(query, *pair, grade) for pair, grade in structure.items()]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(RANKINGS, STRUCTURES), min_size=1, max_size=12),
    st.integers(1, 3),
    st.sampled_from((0.5, 0.8, 0.95)),
)
def test_random_evidence(
    cases: list[tuple[list[str], Structure]], rel: int, persistence: float
) -> None:
    runs = {"r": run_table({f"q{n:02}": ranking for n, (ranking, _) in enumerate(cases)})}
    labels = [row for n, (_, found) in enumerate(cases) for row in labels_of(f"q{n:02}", found)]
    cells, queries = [("r", k) for k in CUTOFFS], query_table(f"q{n:02}" for n in range(len(cases)))
    metrics = {measure: _with(measure, rel, persistence) for measure in RANKING_MEASURES}
    judgments = {"j": judgment_table(labels)}
    tables = query_metrics(runs, judgments, {"r": "j"}, queries, cells, metrics.values())
    for n, (ranking, structure) in enumerate(cases):
        rows = [tables["r", k].slice(n, 1).to_pylist()[0] for k in CUTOFFS]
        for k, row in zip(CUTOFFS, rows, strict=True):
            expected = naive(ranking, structure, k, rel=rel, p=persistence)
            assert set(expected) == set(RANKING_MEASURES)
            for measure, value in expected.items():
                known = None if value is None else pytest.approx(value, abs=1e-9)
                assert row[metrics[measure].column] == known, measure
        if rows[0]["n_relevant"]:
            assert_bounded_and_monotone(rows, metrics)


def _with(measure: str, rel: int, p: float) -> Metric:
    given = {"rel": rel, "p": p}
    defaults = parameters_of(measure)
    chosen = [(n, given[n]) for n in sorted(defaults) if given.get(n, defaults[n]) != defaults[n]]
    return Metric(measure, None, tuple(chosen))


def assert_bounded_and_monotone(rows: list[Row], metrics: dict[str, Metric]) -> None:
    for measure, metric in metrics.items():
        values = [row[metric.column] or 0.0 for row in rows]
        assert all(0 <= value <= highest_value(measure) + 1e-12 for value in values), measure
        if measure in {
            "dcg",
            "dcg_exp",
            "cg",
            "tp",
            "hit_rate",
            "recall",
            "mrr",
            "map",
            "rbp",
            "err",
            "bpref",
        }:
            assert values == sorted(values), measure


@settings(max_examples=20, deadline=None)
@given(RANKINGS, st.dictionaries(st.sampled_from(UNITS), st.integers(0, 3), min_size=1))
def test_one_document_an_evidence_equals_trec_eval(
    ranking: list[str], grades: dict[str, int]
) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    labels = document_judgments({"q": grades})
    runs, cells = {"r": run_table({"q": ranking})}, [("r", k) for k in CUTOFFS]
    found = query_metrics(runs, {"j": labels}, {"r": "j"}, query_table(["q"]), cells)
    if not ranking or max(grades.values()) == 0:
        return
    scores = {"q": {item: 1.0 / rank for rank, item in enumerate(ranking, 1)}}
    ks = ",".join(map(str, CUTOFFS))
    names = {"ndcg": "ndcg_cut", "precision": "P", "recall": "recall", "map": "map_cut"}
    measures = {f"{name}.{ks}" for name in names.values()}
    expected = pytrec_eval.RelevanceEvaluator({"q": grades}, measures).evaluate(scores)["q"]
    for k in CUTOFFS:
        row = by_query(found["r", k])["q"]
        for ours, theirs in names.items():
            assert row[ours] == pytest.approx(expected[f"{theirs}_{k}"], abs=1e-9)
