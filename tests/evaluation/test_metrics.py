from __future__ import annotations

import random

import pyarrow as pa

from rag_assets.evaluation.metrics import query_metrics
from tests.made_tables import by_query, document_judgments, judgment_table, query_table, run_table

CUTOFFS = (1, 2, 3, 5, 10, 100)


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
