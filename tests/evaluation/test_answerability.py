from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.answerability_stage import Query, answerability
from rag_assets.schemas import ANSWERABILITY

SCORES = st.one_of(st.none(), st.integers(-4, 4).map(lambda n: n / 4))
SETS = st.lists(st.tuples(SCORES, st.booleans()).map(lambda pair: Query(*pair)), min_size=1)


def row_of(queries: list[Query]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = answerability("r", {"all": queries}).to_pylist()
    return rows[0]


def kept(queries: list[Query], threshold: float, answerable: bool) -> float:
    flags = [
        q.score is not None and q.score >= threshold for q in queries if q.answerable == answerable
    ]
    return sum(flags) / len(flags)


@settings(max_examples=60, deadline=None)
@given(SETS)
def test_equals_scikit_learn_and_a_search_of_every_threshold(queries: list[Query]) -> None:
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    if len({query.answerable for query in queries}) < 2:
        assert answerability("r", {"all": queries}).equals(ANSWERABILITY.empty())
        return
    row = row_of(queries)
    truth = [query.answerable for query in queries]
    scores = [-9.0 if query.score is None else query.score for query in queries]
    assert row["auroc"] == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    observed = sorted({query.score for query in queries if query.score is not None})
    if not observed:
        assert (row["threshold"], row["coverage"], row["rejected"]) == (None, 0.0, 1.0)
        return
    balanced = {t: balanced_accuracy_score(truth, [s >= t for s in scores]) for t in observed}
    best = max(balanced.values())
    assert row["threshold"] == min(t for t, value in balanced.items() if math.isclose(value, best))
    assert row["coverage"] == kept(queries, row["threshold"], True)
    assert row["rejected"] == pytest.approx(1 - kept(queries, row["threshold"], False))
    assert (row["coverage"] + row["rejected"]) / 2 == pytest.approx(best)


def test_a_query_without_hits_is_below_every_other_and_never_answered() -> None:
    row = row_of([Query(-5.0, True), Query(None, True), Query(None, False)])
    assert row["auroc"] == (1 + 0.5) / 2
    assert (row["threshold"], row["coverage"], row["rejected"]) == (-5.0, 0.5, 1.0)


def test_the_threshold_of_test_is_chosen_on_dev() -> None:
    dev = [Query(3.0, True), Query(2.0, True), Query(1.0, False)]
    test = [Query(9.0, True), Query(1.5, True), Query(8.0, False), Query(0.0, False)]
    found = {
        row["split"]: row for row in answerability("r", {"test": test, "dev": dev}).to_pylist()
    }
    assert list(found) == ["dev", "test"]
    assert [row["threshold"] for row in found.values()] == [2.0, 2.0]
    assert [row["threshold_from"] for row in found.values()] == ["dev", "dev"]
    assert (found["dev"]["coverage"], found["dev"]["rejected"]) == (1.0, 1.0)
    assert (found["test"]["coverage"], found["test"]["rejected"]) == (0.5, 0.5)
    assert found["test"]["auroc"] == 3 / 4


def test_a_split_that_lacks_one_kind() -> None:
    splits = {"dev": [Query(1.0, True)], "test": [Query(1.0, True), Query(0.0, False)]}
    dev, test = answerability("r", splits).to_pylist()
    assert (dev["auroc"], dev["threshold"], dev["rejected"]) == (None, None, None)
    assert test["auroc"] == 1.0
    assert (test["threshold"], test["coverage"], test["rejected"]) == (None, 0.0, 1.0)
