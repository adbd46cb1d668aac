"""Questions that are left out half way: all the others are estimated as if nothing had been."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rag_assets.labels.sampling.confidence_sequence import contrasts_of, looks
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.labels.sampling.label_pool import label_pool
from rag_assets.labels.sampling.label_sample import LabelSample, sample_table, stored_sample
from rag_assets.labels.sampling.standing import SampleStatus, sample_status
from tests.labels.sampling.made_pool import DCG, collection, design_of
from tests.labels.sampling.test_stored_sample import passages

WHOLE, LABELS = collection()
IDS = WHOLE.question_ids[:-20]
POOL = label_pool(passages(), IDS, 10, WHOLE.items)
TRUTHS = POOL.weights(DCG) @ LABELS / len(IDS)
N = 4 * len(WHOLE.question_ids)


def drawn(generator: np.random.Generator) -> LabelSample:
    """Return a sample in which a third of the questions is left out after the first quarter."""
    design = design_of(WHOLE, generator)
    order = design.order()[:N]
    late = order[N // 4 :]
    touched = np.zeros(len(LABELS), np.bool_)
    touched[order] = True
    touched[late[~POOL.counted[late]]] = False
    nothing = np.zeros_like(touched)
    grades = np.where(touched, LABELS, np.nan)
    return LabelSample(POOL, design, grades, nothing, nothing, touched)


def test_their_items_weigh_nothing_and_all_others_as_before() -> None:
    assert POOL.items == WHOLE.items
    assert set(POOL.question[~POOL.counted]) == {len(IDS)}
    weights = WHOLE.weights(DCG)
    assert POOL.weights(DCG) == pytest.approx(np.where(POOL.counted, weights, 0.0))
    assert POOL.counted.sum() < 0.8 * len(LABELS)


def test_estimates_of_the_others_are_unbiased_and_covered() -> None:
    """Were what is missing of them a part of the response, all values would be a third too high."""
    generator, n = np.random.default_rng(6), 120
    pairs = np.triu_indices(len(TRUTHS), 1)
    true = TRUTHS[pairs[0]] - TRUTHS[pairs[1]]
    values, held = np.zeros_like(TRUTHS), np.zeros(len(true))
    for _ in range(n):
        sample = drawn(generator)
        assert sample.judged.sum() < 0.85 * sample.asked.sum()
        estimator = Estimator(sample, DCG)
        values += estimator.values() / n
        found = np.array([(one.low, one.high) for one in estimator.differences().values()])
        held += ((found[:, 0] <= true) & (true <= found[:, 1])) / n
    assert values == pytest.approx(TRUTHS, rel=0.03)
    assert 0.92 <= held.mean() <= 0.985
    assert held.min() >= 0.87


def test_only_questions_that_are_left_out_are_judged() -> None:
    """Nothing is known then: no estimate may come out, and no division by a probability of 0."""
    design = design_of(WHOLE, np.random.default_rng(3))
    first = design.order()[~POOL.counted[design.order()]][:1]
    touched = np.isin(np.arange(len(LABELS)), first)
    none, grades = np.zeros_like(touched), np.where(touched, 2.0, np.nan)
    sample = LabelSample(POOL, design, grades, none, none, touched)
    assert sample_status(sample, DCG, []) == SampleStatus()
    with np.errstate(all="raise"):
        assert all(one.error == np.inf for one in Estimator(sample, DCG).estimates().values())


def test_looks_hold_the_difference_of_the_others() -> None:
    generator, n, excluded = np.random.default_rng(7), 40, 0
    true = TRUTHS[0] - TRUTHS[5]
    for _ in range(n):
        sample = drawn(generator)
        lows, highs = looks(sample, DCG, contrasts_of(sample, DCG, [("s0", "s5")]))
        assert lows.shape[1] == (sample.judged & POOL.counted).sum()
        excluded += bool(((lows > true) | (highs < true)).any())
    assert excluded <= 0.1 * n


def test_an_evaluation_says_the_same() -> None:
    sample = drawn(np.random.default_rng(8))
    again = stored_sample(sample_table(sample), passages(), IDS, 10)
    for target in ("items", "questions"):
        want, have = (Estimator(one, DCG).estimates(target) for one in (sample, again))
        for name, one in want.items():
            assert have[name][:4] == pytest.approx(one[:4], abs=1e-9)
    everything = replace(sample, grades=LABELS, touched=np.ones(len(LABELS), np.bool_))
    assert Estimator(everything, DCG).values() == pytest.approx(TRUTHS)
