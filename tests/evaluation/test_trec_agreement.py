"""Everything that pytrec_eval computes, for thousands of random queries."""

from __future__ import annotations

from math import exp, log
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.metrics import WHOLE_RANKING, query_metrics
from rag_assets.evaluation.score import metrics
from rag_assets.evaluation.trec_measures import OFFICIAL, RECALLS, SINGLE
from tests.made_tables import (
    by_query,
    document_judgments,
    judgment_table,
    query_table,
    ranked,
    run_table,
    scored_table,
)

pytrec_eval = pytest.importorskip("pytrec_eval")

CUTOFFS = (1, 2, 3, 5, 10, 100)
N_QUERIES = 90
LEVELS = (1, 2)

Grades = dict[str, dict[str, int]]
Scored = dict[str, dict[str, float]]
Values = dict[str, dict[str, float]]

SINGLES = (
    *(*SINGLE, "set_P", "set_map", "set_F", "11pt_avg", "ndcg_rel", "Rndcg"),
    *(f"iprec_at_recall_{level}" for level in RECALLS),
)

AT_K = {
    "ndcg": "ndcg_cut",
    "precision": "P",
    "recall": "recall",
    "map": "map_cut",
    "hit_rate": "success",
}
WHOLE = {
    "ndcg": "ndcg",
    "map": "map",
    "mrr": "recip_rank",
    "recall": "set_recall",
    "r_precision": "Rprec",
    "bpref": "bpref",
}


def random_case(seed: int) -> tuple[Grades, Scored]:
    """Queries with ties, with grades below 0, not judged, not retrieved, with nothing retrieved.

    Scores are eighths, the same number in float32, by which pytrec_eval ranks. A query that has
    only grades below 0 crashes pytrec_eval-terrier 0.5.11: each has one of 0 or more.
    """
    made = Random(seed)
    documents = [f"d{i}" for i in range(made.choice((3, 14, 40)))] + ["Z", "\u00e9", "\U0001f600"]
    qrels: Grades = {}
    run: Scored = {}
    for number in range(N_QUERIES):
        judged = made.sample(documents, made.randint(1, len(documents)))
        lowest, highest = made.choice(((0, 1), (-2, 4), (0, 3), (1, 1), (-1, 0)))
        grades = {document: made.randint(lowest, highest) for document in judged}
        grades[judged[0]] = made.randint(0, max(highest, 0))
        found = made.sample(documents, made.randint(0, len(documents)))
        spread = made.choice((1, 4, 400))
        if made.random() < 0.95:
            qrels[f"q{number}"] = grades
        if made.random() < 0.95:
            run[f"q{number}"] = {item: made.randint(-spread, spread) / 8 for item in found}
    return qrels, run


def ours(qrels: Grades, run: Scored, metrics: list[Metric], k: int) -> Values:
    queries = query_table(qrels)
    judgments = {"j": document_judgments(qrels)}
    runs = {"r": scored_table(run)}
    found = query_metrics(runs, judgments, {"r": "j"}, queries, [("r", k)], metrics)
    return by_query(found["r", k])  # type: ignore[return-value]


def theirs(qrels: Grades, run: Scored, names: set[str], rel: int) -> Values:
    """Per query of the qrels; one that the run lacks has 0, as with trec_eval -c."""
    filled = {query: scores for query, scores in run.items() if scores}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, names, relevance_level=rel)
    values: Values = evaluator.evaluate(filled)
    return {query: values.get(query, {}) for query in qrels}


def assert_equal(
    qrels: Grades, found: Values, expected: Values, names: dict[str, str], rel: int
) -> None:
    for query, grades in qrels.items():
        for measure, name in names.items():
            level = rel if measure != "ndcg" else 1
            column = measure if level == 1 else f"{measure}(rel={level})"
            if max(grades.values()) > 0:
                value = expected[query].get(name, 0.0)
                assert found[query][column] == pytest.approx(value, abs=1e-9), (query, column)
            else:
                assert found[query][column] is None
                assert expected[query].get(name, 0.0) == 0


def metrics_of(names: dict[str, str], rel: int) -> list[Metric]:
    return [
        Metric(measure, None, () if rel == 1 or measure == "ndcg" else (("rel", rel),))
        for measure in names
    ]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(CUTOFFS), st.sampled_from(LEVELS))
def test_at_a_cutoff(seed: int, k: int, rel: int) -> None:
    qrels, run = random_case(seed)
    found = ours(qrels, run, metrics_of({**AT_K, "mrr": ""}, rel), k)
    expected = theirs(qrels, run, {f"{name}.{k}" for name in AT_K.values()}, rel)
    assert_equal(qrels, found, expected, {own: f"{name}_{k}" for own, name in AT_K.items()}, rel)
    cut = {query: {d: scores[d] for d in ranked(scores)[:k]} for query, scores in run.items()}
    assert_equal(qrels, found, theirs(qrels, cut, {"recip_rank"}, rel), {"mrr": "recip_rank"}, rel)
    found = ours(qrels, run, metrics_of(WHOLE, rel), WHOLE_RANKING)
    assert_equal(qrels, found, theirs(qrels, run, set(WHOLE.values()), rel), WHOLE, rel)


def test_what_score_has_beside_our_own() -> None:
    """Each value of 400 queries and more, with ties and grades; then means and sums over all."""
    qrels: Grades = {}
    run: Scored = {}
    for part in range(8):
        more_qrels, more_run = random_case(part)
        qrels |= {f"{part} {query}": grades for query, grades in more_qrels.items()}
        run |= {f"{part} {query}": scores for query, scores in more_run.items() if scores}
    lists = {name.partition("_0")[0].partition("_1")[0] for name in ("official", *SINGLES)}
    asked = {name for name in lists if name in pytrec_eval.supported_measures}
    expected = theirs(qrels, run, asked, 1)
    scored = metrics(run, qrels, ["official", "all_trec"], trec_mean=True)
    assert {*OFFICIAL} < scored.means.keys()
    compared = 0
    for row in scored.per_query:
        query = str(row["query_id"])
        for name in SINGLES:
            is_empty = max(qrels[query].values()) <= 0
            if query in run and not (is_empty and not name.startswith("num_")):
                assert row[name] == pytest.approx(expected[query][name], abs=1e-9), (query, name)
                compared += 1
            elif not name.startswith("num_"):
                assert row[name] == 0
    assert compared > 400 * len(SINGLES)
    averages = theirs(qrels, run, {"map", "bpref"}, 1).values()
    for name, of in (("gm_map", "map"), ("gm_bpref", "bpref")):
        logs = [log(max(one.get(of, 0.0), 0.00001)) for one in averages]
        assert scored.means[name] == pytest.approx(exp(sum(logs) / len(logs)))
    assert scored.means["num_q"] == len(qrels)
    assert scored.means["num_rel"] == sum(g > 0 for one in qrels.values() for g in one.values())
    assert scored.means["num_ret"] == sum(len(run[query]) for query in qrels if query in run)


def test_own_functions() -> None:
    """At two: the share of grade 2 among the first two, and what R is."""

    def best_of_two(grades: list[int | None], r: int) -> float:
        return sum(grade == 2 for grade in grades[:2]) / min(2, r)

    run = {"a": ["x", "y", "z"], "b": ["y"]}
    qrels = {"a": {"y": 2, "z": 1}, "b": {"x": 2}, "c": {"x": 2}, "d": {"x": 0}}
    scored = metrics(run, qrels, [best_of_two, "mrr"])
    assert [row["best_of_two"] for row in scored.per_query] == [0.5, 0.0, 0.0, None]
    assert scored.means == {"best_of_two": pytest.approx(1 / 6), "mrr": pytest.approx(1 / 6)}
    cases: tuple[tuple[Any, str], ...] = (
        (lambda grades, r: 1 / 0, "failed: ZeroDivisionError"),
        (lambda grades, r: float("nan"), "must be a finite number; found nan"),
        (lambda grades: 1, "failed: TypeError"),
    )
    for wrong, problem in cases:
        with pytest.raises(UsageError, match=problem):
            metrics(run, qrels, [wrong])
    with pytest.raises(UsageError, match="two metrics have the name 'best_of_two'"):
        metrics(run, qrels, [best_of_two, best_of_two])


def test_scores_are_compared_in_float64() -> None:
    # pytrec_eval reads a score into a float32, where these two are equal: the id decides.
    qrels, run = {"q": {"a": 1}}, {"q": {"a": 0.12345678901, "b": 0.12345678900}}
    assert theirs(qrels, run, {"recip_rank"}, 1) == {"q": {"recip_rank": 0.5}}
    assert ours(qrels, run, [Metric("mrr")], 10)["q"]["mrr"] == 1.0


def test_equal_bit_for_bit_whatever_the_order_of_the_rows() -> None:
    shuffle = Random(7)
    documents = [f"d{i}" for i in range(400)]
    rankings = {f"q{i}": shuffle.sample(documents, 100) for i in range(60)}
    labels = [
        (query, f"e{e}", item, shuffle.randint(0, 3))
        for query in rankings
        for e in range(30)
        for item in shuffle.sample(documents, 4)
    ]
    run, judgments, queries = run_table(rankings), judgment_table(labels), query_table(rankings)
    cells = [("r", k) for k in CUTOFFS]

    def computed(run: pa.Table, judgments: pa.Table) -> dict[tuple[str, int], pa.Table]:
        return query_metrics({"r": run}, {"j": judgments}, {"r": "j"}, queries, cells)

    expected = computed(run, judgments)
    assert sum(expected["r", 100]["ndcg"].to_pylist()) > 1
    for _ in range(3):
        mixed_run = run.take(shuffle.sample(range(run.num_rows), run.num_rows))
        mixed = judgments.take(shuffle.sample(range(judgments.num_rows), judgments.num_rows))
        found = computed(mixed_run, mixed)
        assert all(found[cell].equals(expected[cell]) for cell in cells)


def test_every_query_has_a_row_sorted_also_of_an_empty_run_beside_others() -> None:
    runs = {"empty": run_table({}), "full": run_table({"b": ["x"], "stranger": ["x"]})}
    judgments = {"j": document_judgments({"b": {"x": 1}, "stranger": {"x": 1}})}
    queries, cells = query_table(["c", "a", "b"]), [("empty", 1), ("full", 1)]
    found = query_metrics(runs, judgments, dict.fromkeys(runs, "j"), queries, cells)
    for cell, value, n in zip(cells, (0.0, 1.0), (0, 1), strict=True):
        assert found[cell]["query_id"].to_pylist() == ["a", "b", "c"]
        assert found[cell]["hit_rate"].to_pylist() == [None, value, None]
        assert found[cell]["n_retrieved"].to_pylist() == [0, n, 0]
