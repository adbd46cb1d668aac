"""Evidence that is not one document: hand-worked examples, and a naive second implementation."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.metrics import query_metrics
from tests.made_tables import (
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

Structure = dict[tuple[str, str | None], int]
"""(evidence, unit) -> grade."""

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
    assert [row[measure] for measure in MEASURES] == [0] * len(MEASURES)


def naive(ranking: list[str], structure: Structure, k: int) -> Row:
    """The definitions, rank by rank."""
    positive = {pair: grade for pair, grade in structure.items() if grade > 0}
    best: dict[str, int] = {}
    for (evidence, _), grade in positive.items():
        best[evidence] = max(grade, best.get(evidence, 0))
    if not best:
        return dict.fromkeys(MEASURES)
    done: set[str] = set()
    relevant, first, dcg, precisions = 0, 0.0, 0.0, 0.0
    for rank, item in enumerate(ranking[:k], 1):
        here = {evidence: grade for (evidence, unit), grade in positive.items() if unit == item}
        relevant += bool(here)
        first = first or (1 / rank if here else 0.0)
        new = here.keys() - done
        dcg += max((here[e] for e in new), default=0) / log2(rank + 1)
        precisions += len(new) * relevant / rank
        done |= new
    ideal = sorted(best.values(), reverse=True)[:k]
    return {
        "hit_rate": float(relevant > 0),
        "mrr": first,
        "ndcg": dcg / sum(grade / log2(rank + 1) for rank, grade in enumerate(ideal, 1)),
        "recall": len(done) / len(best),
        "precision": relevant / k,
        "map": precisions / len(best),
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(RANKINGS, STRUCTURES), min_size=1, max_size=4))
def test_random_evidence(pairs: list[tuple[list[str], Structure]]) -> None:
    runs = {f"r{n}": run_table({"q": ranking}) for n, (ranking, _) in enumerate(pairs)}
    judgments = {
        f"j{n}": judgment_table(("q", *pair, grade) for pair, grade in structure.items())
        for n, (_, structure) in enumerate(pairs)
    }
    judged_by = {f"r{n}": f"j{n}" for n in range(len(pairs))}
    cells = [(run, k) for run in runs for k in CUTOFFS]
    found = query_metrics(runs, judgments, judged_by, query_table(["q"]), cells)
    for n, (ranking, structure) in enumerate(pairs):
        rows = [by_query(found[f"r{n}", k])["q"] for k in CUTOFFS]
        for k, row in zip(CUTOFFS, rows, strict=True):
            for measure, value in naive(ranking, structure, k).items():
                assert row[measure] == (None if value is None else pytest.approx(value, abs=1e-9))
        if rows[0]["n_relevant"]:
            assert_bounded_and_monotone(rows)


def assert_bounded_and_monotone(rows: list[Row]) -> None:
    for measure in MEASURES:
        values = [row[measure] or 0.0 for row in rows]
        assert all(0 <= value <= 1 + 1e-12 for value in values), measure
        if measure in {"hit_rate", "recall", "mrr"}:
            assert values == sorted(values), measure


@settings(max_examples=30, deadline=None)
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
