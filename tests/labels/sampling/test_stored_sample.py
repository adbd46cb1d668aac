"""A sample as a table tells the same as log and design; what had no chance is not estimated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.labels.sampling.estimates import Estimate, Estimator
from rag_assets.labels.sampling.label_sample import LabelSample, sample_table, stored_sample
from rag_assets.labels.sampling.standing import estimate_rows
from rag_assets.report.sampled import sampled_notes
from rag_assets.schemas import SAMPLED_PASSAGES
from tests.labels.sampling.made_pool import DCG, asked, chosen, collection, design_of

POOL, LABELS = collection()
N = len(POOL.question_ids)
GENERATOR = np.random.default_rng(8)
ANSWERED = GENERATOR.random(len(LABELS)) > 0.1


def passages(label: int | None = None) -> dict[str, pa.Table]:
    """Return what each system of the pool has; with ``label`` one passage of s0 that is new."""
    found = {}
    for number, name in enumerate(POOL.systems):
        own = np.flatnonzero(POOL.system == number)
        rows: list[dict[str, object]] = [
            {
                "retriever": name,
                "rank": int(POOL.rank[place]),
                "label": None,
                **POOL.items[POOL.item[place]]._asdict(),
            }
            for place in own
        ]
        if label is not None and name == "s0":
            rows[0] |= {"document_id": "new", "label": label if label >= 0 else None}
        found[name] = SAMPLED_PASSAGES.from_rows(rows)
    return found


def samples() -> dict[str, LabelSample]:
    design = design_of(POOL)
    some = asked(POOL, LABELS, design, 4 * N, ANSWERED)
    unsure = np.isnan(some.grades) & some.touched
    known = np.zeros(len(LABELS), np.bool_)
    known[::7] = True
    grades = np.where(known, LABELS, some.grades)
    old = design.extended(POOL.items, POOL.weights(DCG) * 1.5, chosen(design, some.touched))
    later = np.zeros(len(LABELS), np.bool_)
    later[old.order()[: 6 * N]] = True
    return {
        "some": some,
        "cannot tell": replace(some, cannot_tell=unsure),
        "certain": replace(some, certain=known, grades=grades),
        "nothing": asked(POOL, LABELS, design, 0),
        "all": asked(POOL, LABELS, design, len(LABELS)),
        "two epochs": LabelSample(
            POOL, old, np.where(later, LABELS, np.nan), ~later & False, ~later & False, later
        ),
    }


@pytest.mark.parametrize("name", samples())
def test_a_table_tells_the_same(name: str) -> None:
    sample = samples()[name]
    again = stored_sample(sample_table(sample), passages(), POOL.question_ids, 10)
    assert again.pool.items == POOL.items
    np.testing.assert_allclose(again.probabilities(), sample.probabilities(), atol=1e-9)
    for target in ("items", "questions"):
        want, have = (Estimator(one, DCG).estimates(target) for one in (sample, again))
        assert have.keys() == want.keys()
        for system, one in want.items():
            assert numbers(have[system]) == pytest.approx(numbers(one), abs=1e-9)


def numbers(one: Estimate) -> list[float]:
    return [float(value) for value in one[:-2]]


def test_a_passage_that_had_no_chance_leaves_nothing_known() -> None:
    table = sample_table(samples()["some"])
    sample = stored_sample(table, passages(-1), POOL.question_ids, 10)
    assert len(sample.pool.items) == len(POOL.items) + 1
    for target in ("items", "questions"):
        found = Estimator(sample, DCG).differences(target)
        assert np.isinf(found["s0", "s1"].high)
        assert np.isfinite(found["s1", "s2"].high)
        assert [found[pair].n_no_chance for pair in (("s0", "s1"), ("s1", "s2"))] == [1, 0]
    note = sampled_notes(estimate_rows(sample, DCG, None, 0.95))[0]
    assert note.startswith("s0 has no interval: 1 passage had no chance to be asked yet, because a")


def test_a_label_of_the_dataset_fills_it() -> None:
    table = sample_table(samples()["some"])
    sample = stored_sample(table, passages(1), POOL.question_ids, 10)
    assert sample.certain.sum() == 1
    assert np.isfinite(Estimator(sample, DCG).differences("questions")["s0", "s1"].high)


def test_a_system_of_before_leaves_the_estimates_as_they_are() -> None:
    table, now = sample_table(samples()["some"]), passages()
    alone = Estimator(stored_sample(table, now, POOL.question_ids, 10), DCG).estimates()
    with_old = stored_sample(table, {**now, "old": now["s3"]}, POOL.question_ids, 10)
    both = Estimator(with_old, DCG, n_known=len(now))
    for name, one in both.estimates().items():
        want = alone["s3" if name == "old" else name]
        assert numbers(one) == pytest.approx(numbers(want), abs=1e-12)
    same = both.differences(pairs=[("s3", "old")])["s3", "old"]
    assert same.value == pytest.approx(0, abs=1e-12)  # two sums over all passages
    assert same.error == 0
