from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.metrics import DEFAULT_METRICS, query_metrics
from tests.made_tables import by_query, document_judgments, judgment_table, query_table, run_table

MEASURES = [metric.column for metric in DEFAULT_METRICS]

pytrec_eval = pytest.importorskip("pytrec_eval")

CUTOFFS = (1, 2, 3, 5, 10, 100)
QUERIES = ("q1", "q2", "q10", "\u00e9")
DOCUMENTS = [f"d{i}" for i in range(12)] + ["Z", "a", "\u00e9", "\U0001f600"]
TREC_NAMES = {
    "ndcg": "ndcg_cut",
    "precision": "P",
    "recall": "recall",
    "map": "map_cut",
    "hit_rate": "success",
}

Grades = dict[str, dict[str, int]]
Scored = dict[str, dict[str, float]]

# Eighths are the same number in float32, by which pytrec_eval ranks; few values give many ties.
SCORES = st.integers(-20, 20).map(lambda n: n / 8)
QRELS = st.dictionaries(
    st.sampled_from(QUERIES),
    st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-2, 4), min_size=1),
    min_size=1,
)
RUN = st.dictionaries(st.sampled_from(QUERIES), st.dictionaries(st.sampled_from(DOCUMENTS), SCORES))


def ranked(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda item: (scores[item], item.encode()), reverse=True)


def answerable(qrels: Grades) -> Grades:
    return {query: grades for query, grades in qrels.items() if max(grades.values()) > 0}


def trec_values(qrels: Grades, run: Scored, k: int) -> dict[str, dict[str, float]]:
    """What pytrec_eval says of the queries that both hold.

    It crashes on a query that has only negative grades: it is given the answerable ones.
    """
    qrels = answerable(qrels)
    filled = {query: scores for query, scores in run.items() if scores}
    cut = {q: {d: scores[d] for d in ranked(scores)[:k]} for q, scores in filled.items()}
    measures = {f"{name}.{k}" for name in TREC_NAMES.values()}
    values = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(filled)
    reciprocal = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(cut)
    return {
        query: {
            "mrr": reciprocal[query]["recip_rank"],
            **{ours: found[f"{theirs}_{k}"] for ours, theirs in TREC_NAMES.items()},
        }
        for query, found in values.items()
    }


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(QRELS, RUN), min_size=1, max_size=3))
def test_equals_trec_eval_for_several_runs_at_once(pairs: list[tuple[Grades, Scored]]) -> None:
    runs = {
        f"run{n}": run_table({q: ranked(scores) for q, scores in run.items()})
        for n, (_, run) in enumerate(pairs)
    }
    judgments = {f"qrels{n}": document_judgments(qrels) for n, (qrels, _) in enumerate(pairs)}
    judged_by = {f"run{n}": f"qrels{n}" for n in range(len(pairs))}
    cells = [(run, k) for run in runs for k in CUTOFFS]
    found = query_metrics(runs, judgments, judged_by, query_table(QUERIES), cells)
    assert list(found) == cells
    for n, (qrels, run) in enumerate(pairs):
        for k in CUTOFFS:
            expected = trec_values(qrels, run, k)
            for query, row in by_query(found[f"run{n}", k]).items():
                grades, retrieved = qrels.get(query, {}), ranked(run.get(query, {}))[:k]
                relevant = sum(grade > 0 for grade in grades.values())
                assert row["n_relevant"] == relevant
                assert row["n_retrieved"] == len(retrieved)
                assert row["n_judged"] == sum(grades.get(item, -1) >= 0 for item in retrieved)
                assert row["n_unreachable"] == 0
                for measure in MEASURES:
                    if relevant:
                        value = expected[query][measure] if query in expected else 0.0
                        assert row[measure] == pytest.approx(value, abs=1e-9), (measure, k, query)
                    else:
                        assert row[measure] is None


def one_run(ranking: list[str], grades: dict[str, int], k: int) -> dict[str, float | None]:
    runs, judgments = {"r": run_table({"q": ranking})}, {"j": document_judgments({"q": grades})}
    cells = query_metrics(runs, judgments, {"r": "j"}, query_table(["q"]), [("r", k)])
    return by_query(cells["r", k])["q"]


def test_equal_bit_for_bit_whatever_the_order_of_the_rows() -> None:
    shuffle = random.Random(7)
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


def test_rows_are_sorted_by_query_and_every_query_has_one() -> None:
    run = run_table({"b": ["x"], "stranger": ["x"]})
    judgments = {"j": document_judgments({"b": {"x": 1}, "stranger": {"x": 1}})}
    queries = query_table(["c", "a", "b"])
    table = query_metrics({"r": run}, judgments, {"r": "j"}, queries, [("r", 1)])["r", 1]
    assert table["query_id"].to_pylist() == ["a", "b", "c"]
    assert table["hit_rate"].to_pylist() == [None, 1.0, None]


def test_judgments_are_shared_by_runs() -> None:
    runs = {"good": run_table({"q": ["a"]}), "bad": run_table({"q": ["b"]})}
    judged_by = {"good": "j", "bad": "j"}
    cells = [("good", 1), ("bad", 1), ("bad", 2)]
    judgments = {"j": document_judgments({"q": {"a": 1}})}
    found = query_metrics(runs, judgments, judged_by, query_table(["q"]), cells)
    assert {cell: table["mrr"].to_pylist() for cell, table in found.items()} == {
        ("good", 1): [1.0],
        ("bad", 1): [0.0],
        ("bad", 2): [0.0],
    }


def test_an_empty_run_beside_others() -> None:
    runs = {"empty": run_table({}), "full": run_table({"q": ["a"]})}
    judgments = {"j": document_judgments({"q": {"a": 2}})}
    judged_by = {"empty": "j", "full": "j"}
    cells = [("empty", 3), ("full", 3)]
    found = query_metrics(runs, judgments, judged_by, query_table(["q"]), cells)
    assert found["empty", 3]["ndcg"].to_pylist() == [0.0]
    assert found["empty", 3]["n_retrieved"].to_pylist() == [0]
    assert found["full", 3]["ndcg"].to_pylist() == [1.0]
