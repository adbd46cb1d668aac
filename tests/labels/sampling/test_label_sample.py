"""A pool and its labels: items that stay, stored samples, and questions that are left out."""

from __future__ import annotations

from dataclasses import replace
from math import log2
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace as replace_line

from rag_assets.analysis.sampled import sampled_notes
from rag_assets.errors import NotEstimable, UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.units import text_digest
from rag_assets.labels.logs import LoggedJudgment, append_lines
from rag_assets.labels.pool import estimable_metric, gains, label_pool
from rag_assets.labels.sampling.confidence_sequence import contrasts_of
from rag_assets.labels.sampling.estimates import Estimate, Estimator
from rag_assets.labels.sampling.label_sample import (
    LabelSample,
    label_sample,
    lost_notes,
    sample_table,
    stored_sample,
    valid_judgments,
    whole_readers,
    with_graded_pool,
)
from rag_assets.labels.sampling.sample_stage import estimate_rows, part_notes, sample_status
from rag_assets.schemas import QRELS, SAMPLED_PASSAGES
from tests.labels.health.tables import documents
from tests.labels.sampling.made_pool import (
    DCG,
    PRECISION,
    asked,
    chosen,
    collection,
    design_of,
    item,
    looks,
    passages,
    run,
)

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
    pool = label_pool(passages({"small": run({"q": ["lost", "b1", "a1"]})}, SPANS), ["q"], 2)
    assert pool.items == (item("q", "b", 0, 40),)
    assert pool.weights(DCG).tolist() == [[1 / log2(3)]]


def test_names_of_metrics_and_gains_of_grades() -> None:
    assert estimable_metric("dcg@10") == DCG
    assert estimable_metric("P(rel=2)@5") == Metric("precision", 5, (("rel", 2),))
    assert estimable_metric("pool_recall@3") == Metric("pool_recall", 3)
    for name in ("nDCG@10", "recall@10", "mrr@10", "map@10", "f1@10", "bpref@10"):
        with pytest.raises(NotEstimable, match="@10 is not estimated from a sample of labels"):
            estimable_metric(name)
    with pytest.raises(NotEstimable, match="dcg needs a cut-off to be estimated, as dcg@10"):
        estimable_metric("dcg")
    for name in ("pool_recall", "pool_recall@0", "dgc@10"):
        with pytest.raises(UsageError, match="unknown metric"):
            estimable_metric(name)
    grades = np.array([0.0, 1.0, 3.0, np.nan, -1.0])
    assert gains(DCG, grades) == pytest.approx([0, 1, 3, np.nan, 0], nan_ok=True)
    assert gains(PRECISION, grades) == pytest.approx([0, 1, 1, np.nan, 0], nan_ok=True)
    high = Metric("precision", 10, (("rel", 2),))
    assert gains(high, grades) == pytest.approx([0, 0, 1, np.nan, 0], nan_ok=True)


POOL, LABELS = collection()
N = len(POOL.question_ids)
GENERATOR = np.random.default_rng(8)
ANSWERED = GENERATOR.random(len(LABELS)) > 0.1


def system_passages(label: int | None = None) -> dict[str, pa.Table]:
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


IDS = POOL.question_ids[:-20]
LEFT_POOL = label_pool(system_passages(), IDS, 10, POOL.items)
TRUTHS = LEFT_POOL.weights(DCG) @ LABELS / len(IDS)
N_ASKED = 4 * N


def drawn(generator: np.random.Generator) -> LabelSample:
    """Return a sample in which a third of the questions is left out after the first quarter."""
    design = design_of(POOL, generator)
    order = design.order()[:N_ASKED]
    late = order[N_ASKED // 4 :]
    touched = np.zeros(len(LABELS), np.bool_)
    touched[order] = True
    touched[late[~LEFT_POOL.counted[late]]] = False
    nothing = np.zeros_like(touched)
    grades = np.where(touched, LABELS, np.nan)
    return LabelSample(LEFT_POOL, design, grades, nothing, nothing, touched)


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
        "left out": drawn(np.random.default_rng(8)),
        "verdicts": replace(some, verdicts={"judge:fair": np.where(ANSWERED, LABELS, np.nan)}),
    }


@pytest.mark.parametrize("name", samples())
def test_a_table_tells_the_same(name: str) -> None:
    sample = samples()[name]
    table, ids = sample_table(sample), sample.pool.question_ids
    again = stored_sample(table, system_passages(), ids, 10)
    assert again.pool.items == POOL.items
    assert list(again.verdicts) == list(sample.verdicts)
    assert stored_sample(table.drop(["verdicts"]), system_passages(), ids, 10).verdicts == {}
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
    sample = stored_sample(table, system_passages(-1), POOL.question_ids, 10)
    assert len(sample.pool.items) == len(POOL.items) + 1
    for target in ("items", "questions"):
        found = Estimator(sample, DCG).differences(target)
        assert np.isinf(found["s0", "s1"].high)
        assert np.isfinite(found["s1", "s2"].high)
        assert [found[pair].n_no_chance for pair in (("s0", "s1"), ("s1", "s2"))] == [1, 0]
    note = sampled_notes(estimate_rows(sample, DCG, None, 0.95))[0]
    assert note.startswith("s0 has no interval: 1 passage could not be drawn yet, because a")


def test_a_label_of_the_dataset_fills_it() -> None:
    table = sample_table(samples()["some"])
    sample = stored_sample(table, system_passages(1), POOL.question_ids, 10)
    assert sample.certain.sum() == 1
    assert np.isfinite(Estimator(sample, DCG).differences("questions")["s0", "s1"].high)


def test_a_system_of_before_leaves_the_estimates_as_they_are() -> None:
    table, now = sample_table(samples()["some"]), system_passages()
    alone = Estimator(stored_sample(table, now, POOL.question_ids, 10), DCG).estimates()
    with_old = stored_sample(table, {**now, "old": now["s3"]}, POOL.question_ids, 10)
    both = Estimator(with_old, DCG, n_known=len(now))
    for name, one in both.estimates().items():
        want = alone["s3" if name == "old" else name]
        assert numbers(one) == pytest.approx(numbers(want), abs=1e-12)
    same = both.differences(pairs=[("s3", "old")])["s3", "old"]
    assert same.value == pytest.approx(0, abs=1e-12)  # two sums over all passages
    assert same.error == 0


def test_their_items_weigh_nothing_and_all_others_as_before() -> None:
    assert LEFT_POOL.items == POOL.items
    assert set(LEFT_POOL.question[~LEFT_POOL.counted]) == {len(IDS)}
    weights = POOL.weights(DCG)
    assert LEFT_POOL.weights(DCG) == pytest.approx(np.where(LEFT_POOL.counted, weights, 0.0))
    assert LEFT_POOL.counted.sum() < 0.8 * len(LABELS)
    judged = replace(drawn(GENERATOR), grades=LABELS, touched=np.ones(len(LABELS), np.bool_))
    assert Estimator(judged, DCG).values() == pytest.approx(TRUTHS)


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
    design = design_of(POOL, np.random.default_rng(3))
    first = design.order()[~LEFT_POOL.counted[design.order()]][:1]
    touched = np.isin(np.arange(len(LABELS)), first)
    none, grades = np.zeros_like(touched), np.where(touched, 2.0, np.nan)
    sample = LabelSample(LEFT_POOL, design, grades, none, none, touched)
    assert [*sample_status(sample, DCG, []).values()] == [[], [], None, None, None, None]
    with np.errstate(all="raise"):
        assert all(one.error == np.inf for one in Estimator(sample, DCG).estimates().values())


def test_looks_hold_the_difference_of_the_others() -> None:
    generator, n, excluded = np.random.default_rng(7), 40, 0
    true = TRUTHS[0] - TRUTHS[5]
    for _ in range(n):
        sample = drawn(generator)
        lows, highs = looks(sample, DCG, contrasts_of(sample, DCG, [("s0", "s5")]))
        assert lows.shape[1] == (sample.judged & LEFT_POOL.counted).sum()
        excluded += bool(((lows > true) | (highs < true)).any())
    assert excluded <= 0.1 * n


DOG = "A dog pays ten crowns."


def graded(text: str, span: tuple[int, int], grade: int, query: str = "q") -> LoggedJudgment:
    digest = text_digest(text[slice(*span)])
    return LoggedJudgment(*item(query, "d", *span), grade, probability=0.5, digest=digest)


@pytest.mark.parametrize(
    ("text", "again"),
    [(DOG.replace("ten", "six"), (0, 22)), (f"Welcome. {DOG}", (9, 31)), ("A dog pays.", (0, 22))],
    ids=["another word", "moved", "shorter"],
)
def test_a_grade_of_a_text_that_changed_is_told_until_it_is_given_again(
    tmp_path: Path, text: str, again: tuple[int, int]
) -> None:
    log, now = tmp_path / "log.jsonl", documents({"d": text})
    line = graded(DOG, (0, 22), 2)
    append_lines(log, [line])
    assert valid_judgments(log, documents({"d": DOG})) == ([line], [])
    assert valid_judgments(log, now) == ([], [line])
    assert valid_judgments(log, documents({"e": DOG})) == ([], [line])
    assert lost_notes([line], log) == [
        "1 grade of log.jsonl is not used, because the text changed; `rag-assets label` asks "
        "again: query q in d"
    ]
    new = graded(text, again, 1)
    append_lines(log, [new])
    assert valid_judgments(log, now) == ([new], [])


def test_a_question_is_not_unanswerable_because_its_passage_changed(tmp_path: Path) -> None:
    """Its grades of 0 are not used either; what an earlier version wrote is used where it fits."""
    log, text = tmp_path / "log.jsonl", f"{DOG} Cats are free."
    lines = [graded(text, (0, 22), 2), graded(text, (23, 38), 0), graded(text, (23, 38), 3, "r")]
    append_lines(log, lines)
    now = documents({"d": text.replace("ten", "six")})
    labels = with_graded_pool(QRELS.empty(), log, now, "evidence").to_pylist()
    assert [(row["query_id"], row["grade"]) for row in labels] == [("r", 3)]
    append_lines(log, [LoggedJudgment(*item("s", "d", 0, end), 1) for end in (22, 99)])
    labels = with_graded_pool(QRELS.empty(), log, now, "evidence").to_pylist()
    assert [row["evidence_id"] for row in labels] == ["d#23-38", "d#0-22"]


def test_a_difference_is_not_decided_where_a_passage_lacks_the_part_that_has_the_grade() -> None:
    """An estimate counts the whole item, also for who found the other part of it."""
    spans = {
        "long": {"L": ("d", 0, 100)},
        "first": {"F": ("d", 0, 50)},
        "last": {"S": ("d", 50, 100)},
    }
    runs = {name: run({"q": list(units)}) for name, units in spans.items()}
    pool = label_pool(passages(runs, spans), ["q"], 10)
    assert pool.items == (item("q", "d", 0, 100),)
    line = LoggedJudgment(*pool.items[0], 2, probability=0.5, evidence=((60, 90),))
    for one, lacking in (
        (line, ["first"]),
        (replace_line(line, evidence=((0, 10), (60, 90))), []),
        (replace_line(line, evidence=()), []),
        (replace_line(line, grade=0), []),
        (replace_line(line, source="judge:a", probability=None), []),
    ):
        assert whole_readers(pool, [one]) == lacking
    now = sample_status(label_sample(pool, design_of(pool), [line]), DCG, [line])
    decided = {
        frozenset((row["retriever_a"], row["retriever_b"])): row["decided"]
        for row in now["differences"]
    }
    assert decided == {
        frozenset(("long", "last")): True,
        frozenset(("long", "first")): False,
        frozenset(("first", "last")): False,
    }
    (note,) = part_notes(pool, [line])
    assert note.startswith("estimates of first count a whole passage where they may miss the part")
