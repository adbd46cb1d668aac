"""Small cases worked by hand, and what is refused."""

from __future__ import annotations

from math import log2
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import DataError
from rag_assets.evaluation.metric_names import parse_metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.schemas import QUERY_METRICS
from tests.made_tables import (
    ALL_METRICS,
    Row,
    document_judgments,
    judgment_table,
    one_query,
    query_table,
    run_table,
)

CASE_G = (["b", "x", "a", "n", "c"], {"a": 3, "b": 1, "c": 2, "n": 0})
TWENTY = [f"d{number:02}" for number in range(20)]
CASE_H = (TWENTY, dict.fromkeys(TWENTY, 1))
CASE_C = (["a"], dict.fromkeys("abcde", 1))

COUNTS = {column.name for column in QUERY_METRICS.columns} - {"query_id"}

Case = tuple[list[str], dict[str, int]]


def values(case: Case, k: int, *names: str) -> Row:
    ranking, grades = case
    metrics = [parse_metric(name) for name in names]
    labels = [(item, item, grade) for item, grade in grades.items()]
    row = one_query(ranking, labels, k, metrics or ALL_METRICS)
    return {name: value for name, value in row.items() if name not in COUNTS}


def test_graded_case() -> None:
    expected = {
        "hit_rate": 1,
        "mrr": 1,
        "ndcg": 0.6874847125494647,
        "ndcg_exp": 0.60265,  # printed by gdeval 1.2a, five decimals, as is err
        "dcg": 1 / log2(2) + 3 / log2(4) + 2 / log2(6),
        "dcg_exp": 1 / log2(2) + 7 / log2(4) + 3 / log2(6),
        "cg": 1 + 3 + 2,
        "recall": 1,
        "recall_cap": 1,
        "precision": 3 / 5,
        "f1": 2 * 0.6 / 1.6,
        "f_beta(beta=2)": 5 * 0.6 / (4 * 0.6 + 1),
        "tp": 3,
        "fp": 2,
        "fn": 0,
        "map": (1 + 2 / 3 + 3 / 5) / 3,
        "r_precision": 2 / 3,  # of the first three
        "bpref": (1 + 1 + 0) / 3,  # n stands above c
        "rbp(p=0.8)": 0.2 * (1 + 0.8**2 + 0.8**4),
        "err(gmax=4)": 0.21899,
        "judged": 4 / 5,
    }
    assert values(CASE_G, 5) == pytest.approx(expected, abs=5e-6)


def test_graded_case_at_level_2() -> None:
    # Values of ir_measures 0.4.3; the unit of grade 1 is then one that is judged and not relevant.
    names = ["P(rel=2)", "AP(rel=2)", "RR(rel=2)", "Success(rel=2)", "Bpref(rel=2)", "Rprec(rel=2)"]
    expected = [0.4, 0.3666666666666667, 0.3333333333333333, 1, 0.25, 0]
    found = values(CASE_G, 5, *names)
    assert list(found.values()) == pytest.approx(expected, abs=1e-12)
    assert values(CASE_G, 2, "Success(rel=3)") == {"hit_rate(rel=3)": 0}


def test_levels_and_parameters_side_by_side() -> None:
    found = values(CASE_G, 5, "P", "P(rel=2)", "P(rel=3)", "P(rel=4)", "RBP(p=0.5)", "RBP(rel=3)")
    assert found == {
        "precision": 3 / 5,
        "precision(rel=2)": 2 / 5,
        "precision(rel=3)": 1 / 5,
        "precision(rel=4)": 0,  # answerable, but not at this level: 0, as with trec_eval -l
        "rbp(p=0.5)": pytest.approx(0.5 * (1 + 0.25 + 0.0625)),
        "rbp(p=0.8,rel=3)": pytest.approx(0.2 * 0.64),
    }


def test_more_relevant_units_than_ranks() -> None:
    found = values(CASE_H, 5, "recall", "recall_cap", "map", "f1", "Rprec", "ndcg", "ndcg_exp")
    expected = [0.25, 1, 0.25, 2 * 0.25 / 1.25, 5 / 20, 1, 1]
    assert list(found.values()) == pytest.approx(expected, abs=1e-12)


def test_one_result_for_five_relevant_units() -> None:
    found = values(CASE_C, 5, "recall_cap", "f1", "judged", "bpref", "ndcg", "err(gmax=1)")
    assert list(found.values()) == pytest.approx([1 / 5, 1 / 5, 1, 1 / 5, 0.3392, 0.5], abs=5e-5)


def test_err_stops_at_the_first_satisfaction() -> None:
    both = values((["a", "b"], {"a": 2, "b": 2}), 2, "err(gmax=2)")
    assert both == {"err(gmax=2)": pytest.approx(3 / 4 + 1 / 4 * 3 / 4 / 2)}


def test_a_second_unit_of_an_evidence_gains_nothing_in_err() -> None:
    labels = [("e", "a", 4), ("e", "b", 4), ("other", "c", 4)]
    row = one_query(["a", "b", "c"], labels, 3)
    assert row["err(gmax=4)"] == pytest.approx(15 / 16 + 1 / 16 * 15 / 16 / 3)
    assert row["rbp(p=0.8)"] == pytest.approx(0.2 * (1 + 0.8 + 0.64))


def test_a_grade_below_0_is_no_judgment() -> None:
    found = values((["x", "a"], {"a": 1, "x": -1}), 2, "judged", "bpref")
    assert found == {"judged": 1 / 2, "bpref": 1}
    assert values((["x", "a"], {"a": 1, "x": 0}), 2, "judged", "bpref") == {"judged": 1, "bpref": 0}


def test_judged_of_nothing_is_null() -> None:
    assert values(([], {"a": 1}), 2, "judged", "mrr") == {"judged": None, "mrr": 0}


@pytest.mark.parametrize(
    ("metric", "grade", "problem"),
    [
        ("err", 5, "query 'q' has a grade of 5; err(gmax=4) allows at most 4; ask for err(gmax=5)"),
        ("ndcg_exp", 1001, "query 'q' has a grade of 1001; ndcg_exp allows at most 1000"),
        ("dcg_exp", 1001, "query 'q' has a grade of 1001; dcg_exp allows at most 1000"),
    ],
)
def test_grades_too_high(metric: str, grade: int, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        values((["a"], {"a": grade, "b": 1}), 2, metric)
    assert str(caught.value) == problem
    assert values((["a"], {"a": grade}), 2, "ndcg") == {"ndcg": 1}


def changed(column: str, value: object) -> pa.Table:
    rows = run_table({"q": ["a", "b", "c"], "r": ["a"]}).to_pylist()
    rows[2][column] = value
    return run_table({}).from_pylist(rows, schema=run_table({}).schema)


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("unit_id", "a", "unit 'a' of query 'q' in run 'mine' stands twice, at ranks 1 and 3"),
        ("rank", 2, "rank 2 of query 'q' in run 'mine' is held by unit 'b' and by unit 'c'"),
    ],
)
def test_what_stands_twice(column: str, value: object, problem: str) -> None:
    runs = {"fine": run_table({"q": ["a", "b"]}), "mine": changed(column, value)}
    judgments = {"j": document_judgments({"q": {"a": 1}})}
    judged_by = dict.fromkeys(runs, "j")
    with pytest.raises(DataError) as caught:
        query_metrics(runs, judgments, judged_by, query_table(["q"]), [("mine", 1)])
    assert str(caught.value) == problem


def test_ranks_may_be_left_out() -> None:
    runs, judgments = {"r": changed("rank", 7)}, {"j": document_judgments({"q": {"c": 1}})}
    cells = [("r", 3), ("r", 7)]
    found = query_metrics(runs, judgments, {"r": "j"}, query_table(["q"]), cells)
    assert [found[cell]["mrr"].to_pylist() for cell in cells] == [[0], [1 / 7]]
    assert [found[cell]["n_retrieved"].to_pylist() for cell in cells] == [[2], [3]]


@pytest.mark.parametrize("folder", ["retriever=bm25", "a [1] *"])
def test_parquet_files_are_tables(tmp_path: Path, folder: str) -> None:
    run, judgments = run_table({"q": CASE_G[0]}), document_judgments({"q": CASE_G[1]})
    (tmp_path / folder).mkdir()
    paths = [tmp_path / folder / name for name in ("run.parquet", "judgments.parquet")]
    for path, table in zip(paths, (run, judgments), strict=True):
        pq.write_table(table, path)
    cells, queries = [("r", 2), ("r", 5)], query_table(["q"])
    expected = query_metrics({"r": run}, {"j": judgments}, {"r": "j"}, queries, cells, ALL_METRICS)
    files = {"r": paths[0]}, {"j": paths[1]}
    assert query_metrics(*files, {"r": "j"}, queries, cells, ALL_METRICS) == expected


def test_nothing_asked() -> None:
    run, judgments = run_table({"q": ["a"]}), judgment_table([])
    assert query_metrics({"r": run}, {"j": judgments}, {"r": "j"}, query_table(["q"]), []) == {}
    cells = [("r", 1)]
    found = query_metrics({"r": run}, {"j": judgments}, {"r": "j"}, query_table(["q"]), cells, [])
    assert found["r", 1].to_pylist() == [
        {
            "query_id": "q",
            "n_relevant": 0,
            "n_unreachable": 0,
            "n_retrieved": 1,
            "n_judged": 0,
            "ties_at_cut": None,
            "failed": False,
            "tokens": None,
        }
    ]
