"""Estimates from a sample: exact with all labels, unbiased with some, covered as they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from rag_assets.errors import NotEstimable
from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.logs import LoggedJudgment
from rag_assets.labels.pool import Floats, Judgment, LabelPool
from rag_assets.labels.sampling.estimates import Estimator, Target
from rag_assets.labels.sampling.label_sample import LabelSample, label_sample
from rag_assets.statistics.intervals import bounded_intervals
from rag_assets.statistics.units import Units
from tests.labels.sampling.made_pool import (
    DCG,
    PRECISION,
    asked,
    collection,
    design_of,
    item,
    whole,
)
from tests.statistics.samples import alone

POOL, LABELS = collection()
N_QUESTIONS = len(POOL.question_ids)
POOL_RECALL = Metric("pool_recall", 5)


def truths(metric: Metric, pool: LabelPool = POOL, labels: Floats = LABELS) -> Floats:
    values = pool.weights(metric) @ labels
    return values / (labels.sum() if metric == POOL_RECALL else len(pool.question_ids))


def everything() -> LabelSample:
    return asked(POOL, LABELS, design_of(POOL), len(LABELS))


@pytest.mark.parametrize("metric", [DCG, PRECISION, POOL_RECALL])
def test_with_all_labels_it_is_the_metric_itself(metric: Metric) -> None:
    estimates = Estimator(everything(), metric).estimates()
    values = [estimates[system].value for system in POOL.systems]
    assert values == pytest.approx(truths(metric).tolist())
    for one in estimates.values():
        assert one.error == pytest.approx(0, abs=1e-9)
        assert one.lowest == one.highest == one.value
        assert one.target == "items"


def question_values(system: int) -> npt.NDArray[np.float64]:
    values = POOL.weights(DCG)[system] * LABELS
    return np.bincount(POOL.question, values, N_QUESTIONS).astype(np.float64)


HIGHEST = max(float(question_values(n).max()) for n in range(len(POOL.systems)))


def test_questions_and_clusters_are_observations() -> None:
    estimate = Estimator(everything(), DCG).differences("questions")["s0", "s3"]
    values = question_values(0) - question_values(3)
    (low,), (high,) = bounded_intervals(alone(values), 0.95, -HIGHEST, HIGHEST)
    assert estimate.value == pytest.approx(values.mean())
    assert (estimate.low, estimate.high) == pytest.approx((low, high))
    names = [f"c{number // 3}" for number in range(N_QUESTIONS)]
    estimate = Estimator(everything(), DCG, names).estimates("questions")["s1"]
    sums, sizes = question_values(1).reshape(-1, 3).sum(axis=1), np.full(N_QUESTIONS // 3, 3.0)
    (low,), (high,) = bounded_intervals(Units(sums[:, None], sizes[:, None]), 0.95, 0.0, HIGHEST)
    assert (estimate.low, estimate.high) == pytest.approx((low, high))


def test_no_interval_has_width_0_and_no_value_is_impossible() -> None:
    """Two systems that find the same on all questions but for passages that are not relevant."""
    pool = whole({"a": {"q": ["x"], "r": ["y"]}, "b": {"q": ["z"], "r": ["y"]}})
    labels = np.array([0.0 if item.document_id in "xz" else 1.0 for item in pool.items])
    sample = asked(pool, labels, design_of(pool), len(labels))
    one = Estimator(sample, Metric("precision", 1)).differences("questions")["a", "b"]
    assert one.value == 0
    assert -1 <= one.low < -0.2 < 0.2 < one.high <= 1
    few = asked(POOL, LABELS, design_of(POOL), 40)
    for metric in (POOL_RECALL, PRECISION):
        for target in ("items", "questions"):
            for each in Estimator(few, metric).estimates(target).values():
                assert 0 <= each.low <= each.value <= each.high <= 1


def test_the_formula_on_three_items() -> None:
    pool = whole({"a": {"q": ["x", "y"]}, "b": {"q": ["z", "x"]}})
    labels = np.array([1.0, 0.0, 1.0])
    design = replace(design_of(pool), numbers=np.array([0.1, 9.0, 0.2]))
    sample = asked(pool, labels, design, 2)
    p = 1 - np.exp(-design.rates[0] * design.arrivals()[1])
    # One question is one fold, so no label of another says what to expect: m = 0.
    filled = np.array([1 / p[0], 0.0, 1 / p[2]])
    assert Estimator(sample, DCG).values() == pytest.approx(pool.weights(DCG) @ filled)
    effective = (1 / p[0] + 1 / p[2]) ** 2 / (1 / p[0] ** 2 + 1 / p[2] ** 2)
    estimate = Estimator(sample, DCG).estimates()["b"]
    assert estimate.n_labels == 2
    assert estimate.effective_labels == pytest.approx(effective)


Draw = Callable[[np.random.Generator], LabelSample]


def repeated(draw: Draw, metric: Metric, target: Target, n: int) -> tuple[Floats, Floats]:
    """Return how often each difference was covered, and its mean error in standard errors."""
    generator = np.random.default_rng(5)
    values = truths(metric)
    rows = np.triu_indices(len(values), 1)
    true = values[rows[0]] - values[rows[1]]
    held, errors, sizes = np.zeros(len(true)), np.zeros(len(true)), np.zeros(len(true))
    for _ in range(n):
        found = Estimator(draw(generator), metric).differences(target).values()
        table = np.array([(one.value, one.error, one.low, one.high) for one in found])
        held += (table[:, 2] <= true) & (true <= table[:, 3])
        errors += table[:, 0] - true
        sizes += table[:, 1]
    return held / n, errors / sizes


@pytest.mark.parametrize("metric", [DCG, PRECISION, POOL_RECALL])
def test_differences_are_unbiased_and_covered(metric: Metric) -> None:
    coverage, bias = repeated(
        lambda g: asked(POOL, LABELS, design_of(POOL, g), 4 * N_QUESTIONS), metric, "items", 120
    )
    assert 0.92 <= coverage.mean() <= 0.985
    assert coverage.min() >= 0.88
    assert np.abs(bias).mean() < 0.2
    assert np.abs(bias).max() < 0.4  # 120 repetitions leave .09 of chance in each


def test_also_with_a_tenth_skipped_and_a_judge_who_likes_one_system() -> None:
    verdicts = np.maximum(LABELS, POOL.weights(DCG)[4] > 0)

    def draw(generator: np.random.Generator) -> LabelSample:
        answered = generator.random(len(LABELS)) >= 0.1
        sample = asked(POOL, LABELS, design_of(POOL, generator), 4 * N_QUESTIONS, answered)
        return replace(sample, verdicts={"judge": verdicts})

    coverage, bias = repeated(draw, DCG, "items", 120)
    assert 0.92 <= coverage.mean() <= 0.985
    assert coverage.min() >= 0.88
    assert np.abs(bias).mean() < 0.2
    assert np.abs(bias).max() < 0.4  # 120 repetitions leave .09 of chance in each


def test_a_sample_that_is_taken_for_all_labels_would_be_biased() -> None:
    """What the weights are for: without them, systems that share their finds lose."""
    generator = np.random.default_rng(0)
    sums = np.zeros((2, len(POOL.systems)))
    for _ in range(60):
        sample = asked(POOL, LABELS, design_of(POOL, generator), 4 * N_QUESTIONS)
        sums[0] += Estimator(sample, DCG).values() / truths(DCG) / 60
        plugged = POOL.weights(DCG) @ np.nan_to_num(sample.grades) / N_QUESTIONS
        sums[1] += plugged / truths(DCG) / 60
    assert np.abs(sums[0] - 1).max() < 0.05
    assert sums[1].max() < 0.8


def test_cannot_tell_is_missing_with_bounds() -> None:
    sample = asked(POOL, LABELS, design_of(POOL), 4 * N_QUESTIONS)
    unsure = sample.judged & (np.arange(len(LABELS)) % 10 == 0)
    grades = np.where(unsure, np.nan, sample.grades)
    open_sample = replace(sample, grades=grades, cannot_tell=unsure)
    estimates = Estimator(open_sample, PRECISION).estimates()
    low = Estimator(replace(sample, grades=np.where(unsure, 0.0, grades)), PRECISION).values()
    high = Estimator(replace(sample, grades=np.where(unsure, 1.0, grades)), PRECISION).values()
    for number, one in enumerate(estimates.values()):
        assert one.lowest < one.value < one.highest
        # The working values differ a little, since they are fitted from other labels.
        assert one.lowest == pytest.approx(low[number], rel=0.03)
        assert one.highest == pytest.approx(high[number], rel=0.03)


def test_earlier_labels_are_certain_and_never_asked() -> None:
    pool = whole({"a": {"q": ["x", "y"], "r": ["x"]}, "b": {"q": ["z", "x"], "r": ["y"]}})
    design = design_of(pool)
    first, second = pool.items[0], pool.items[1]
    earlier = [Judgment(item("q", "x", 10, 60), 2, "", 1), Judgment(item("q", "x", 0, 9), 3, "", 2)]
    sample = label_sample(pool, design, [], earlier)
    # [0, 9) lies inside the item, and the higher grade counts.
    assert (sample.grades[0], bool(sample.certain[0])) == (3, True)
    assert not sample.asked.any()
    assert 0 not in sample.next_items()
    logged = [
        LoggedJudgment(*second, 1, probability=0.4),
        LoggedJudgment(*item("q", "z", 20, 90), 2, source="votes"),
        LoggedJudgment(*first, 0, probability=0.9),
    ]
    sample = label_sample(pool, design, logged, earlier)
    assert sample.certain.tolist() == [True, False, True, False, False]
    assert sample.grades[:3].tolist() == [3, 1, 2]
    assert sample.probabilities()[sample.certain].tolist() == [1, 1]


def test_the_last_line_of_an_item_counts() -> None:
    pool = whole({"a": {"q": ["x", "y"]}, "b": {"q": ["z", "x"]}})
    lines = [
        LoggedJudgment(*pool.items[0], 3, probability=0.4),
        LoggedJudgment(*pool.items[1], None, "cannot_tell", 0.4),
        LoggedJudgment(*pool.items[0], None, "skipped", 0.4),
        LoggedJudgment(*pool.items[2], 1, probability=0.4),
    ]
    sample = label_sample(pool, design_of(pool), lines)
    assert np.isnan(sample.grades[:2]).all()
    assert sample.touched.all()
    assert sample.next_items().tolist() == [0]


def test_without_labels_nothing_is_known_and_ratios_are_refused() -> None:
    estimates = Estimator(asked(POOL, LABELS, design_of(POOL), 0), DCG).estimates()
    assert all(one.value == 0 and one.high > 10 for one in estimates.values())
    estimates = Estimator(asked(POOL, 0 * LABELS, design_of(POOL), 20), DCG).estimates()
    assert all(one.value == 0 < one.high for one in estimates.values())
    with pytest.raises(NotEstimable, match="judge whole questions"):
        Estimator(everything(), Metric("ndcg", 10))
