from __future__ import annotations

from math import log2

import numpy as np
import pytest

from rag_assets.errors import NotEstimable, UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.sampling.label_pool import estimable_metric, gains, label_pool
from tests.labels.sampling.made_pool import DCG, PRECISION, item, passages, run, whole

SMALL = {"small": {"q": ["a1", "b1", "a2"]}}
SPANS = {
    "small": {"a1": ("a", 0, 50), "a2": ("a", 60, 100), "b1": ("b", 0, 40)},
    "large": {"A": ("a", 20, 90), "C": ("c", 0, 80)},
}
LARGE = {"large": {"q": ["C", "A"]}}


def test_overlapping_passages_of_two_chunkings_are_one_item() -> None:
    runs = {name: run(one) for name, one in {**SMALL, **LARGE}.items()}
    pool = label_pool(passages(runs, SPANS), ["q", "without"], 10)
    assert pool.items == (item("q", "a", 0, 100), item("q", "b", 0, 40), item("q", "c", 0, 80))
    assert pool.weights(DCG).tolist() == [[1, 1 / log2(3), 0], [1 / log2(3), 0, 1]]
    assert pool.weights(PRECISION) == pytest.approx(np.array([[0.2, 0.1, 0], [0.1, 0, 0.1]]))
    assert pool.weights(Metric("pool_recall", 2)).tolist() == [[1, 1, 0], [1, 0, 1]]
    assert pool.weights(Metric("dcg", 1)).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_items_stay_when_a_system_with_other_chunks_joins() -> None:
    first = label_pool(passages({"small": run(SMALL["small"])}, SPANS), ["q"], 10)
    runs = {"small": run(SMALL["small"]), "large": run(LARGE["large"])}
    pool = label_pool(passages(runs, SPANS), ["q"], 10, first.items)
    assert pool.items[: len(first.items)] == first.items
    # A, [20, 90), holds half of both a1 and a2; a1 and a2 are items, and they overlap it alike.
    assert pool.items[len(first.items) :] == (item("q", "c", 0, 80),)
    assert pool.weights(DCG)[1].tolist() == [1 / log2(3), 0, 0, 1]


def test_depth_cuts_and_units_without_a_place_are_left_out() -> None:
    runs = {"small": run({"q": ["lost", "b1", "a1"]})}
    pool = label_pool(passages(runs, SPANS), ["q"], 2)
    assert pool.items == (item("q", "b", 0, 40),)
    assert pool.weights(DCG).tolist() == [[1 / log2(3)]]


@pytest.mark.parametrize("name", ["ndcg", "recall", "mrr", "map", "f1", "bpref"])
def test_ratios_are_refused_by_name(name: str) -> None:
    pool = whole({"s": {"q": ["a"]}})
    with pytest.raises(NotEstimable, match=f"{name}@10 is not estimated from a sample of labels"):
        pool.weights(Metric(name, 10))
    with pytest.raises(NotEstimable, match="dcg needs a cut-off to be estimated, as dcg@10"):
        pool.weights(Metric("dcg"))


def test_names_of_metrics() -> None:
    assert estimable_metric("dcg@10") == DCG
    assert estimable_metric("P(rel=2)@5") == Metric("precision", 5, (("rel", 2),))
    assert estimable_metric("pool_recall@3") == Metric("pool_recall", 3)
    for name in ("nDCG@10", "recall@10", "dcg"):
        with pytest.raises(NotEstimable):
            estimable_metric(name)
    for name in ("pool_recall", "pool_recall@0", "dgc@10"):
        with pytest.raises(UsageError, match="unknown metric"):
            estimable_metric(name)


def test_gains_of_grades() -> None:
    grades = np.array([0.0, 1.0, 3.0, np.nan, -1.0])
    assert gains(DCG, grades) == pytest.approx([0, 1, 3, np.nan, 0], nan_ok=True)
    assert gains(PRECISION, grades) == pytest.approx([0, 1, 1, np.nan, 0], nan_ok=True)
    high = Metric("precision", 10, (("rel", 2),))
    assert gains(high, grades) == pytest.approx([0, 0, 1, np.nan, 0], nan_ok=True)
