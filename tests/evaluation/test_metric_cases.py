"""Metrics by hand: cases, evidence, worked examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, UsageError
from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.dialects.tools import ToolInput, ToolQuery
from rag_assets.evaluation.metric_names import Metric, parameters_of, parse_metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.score import score
from rag_assets.schemas import QUERY_METRICS
from tests.evaluation.naive_metrics import RANKINGS, STRUCTURES, Structure, naive
from tests.made_tables import (
    ALL_METRICS,
    N_UNITS,
    RANKING_MEASURES,
    Label,
    Row,
    document_judgments,
    judgment_table,
    one_query,
    query_table,
    run_table,
)

CASE_G = (["b", "x", "a", "n", "c"], {"a": 3, "b": 1, "c": 2, "n": 0})

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
        "idcg": 3 / log2(2) + 2 / log2(3) + 1 / log2(4),
        "cg": 1 + 3 + 2,
        "recall": 1,
        "recall_cap": 1,
        "precision": 3 / 5,
        "set_p": 3 / 5,
        "set_map": 3 / 5,
        "iprec": 1,
        "eleven_pt_avg": (4 * 1 + 4 * 2 / 3 + 3 * 3 / 5) / 11,
        "ndcg_rel": (0.333333 + 0.525005 + 0.687485) / 3,  # at ranks 1, 3 and 5
        "rndcg": (0.333333 + 0.234639 + 0.525005 + 0.687485) / 4,  # at ranks 1, 2, 3, at the end
        "f1": 2 * 0.6 / 1.6,
        "f_beta(beta=2)": 5 * 0.6 / (4 * 0.6 + 1),
        "tp": 3,
        "fp": 2,
        "fn": 0,
        "tn": N_UNITS - 5,
        "map": (1 + 2 / 3 + 3 / 5) / 3,
        "r_precision": 2 / 3,  # of the first three
        "bpref": (1 + 1 + 0) / 3,  # n stands above c
        "rbp(p=0.8)": 0.2 * (1 + 0.8**2 + 0.8**4),
        "err(gmax=4)": 0.21899,
        "judged": 4 / 5,
    }
    assert values(CASE_G, 5) == pytest.approx(expected, abs=5e-6)


VALUES: list[tuple[Case, int, dict[str, float | None]]] = [
    # Of ir_measures 0.4.3; the unit of grade 1 is then one that is judged and not relevant.
    (
        CASE_G,
        5,
        {
            **{"P(rel=2)": 0.4, "AP(rel=2)": 0.3666666666666667, "RR(rel=2)": 0.3333333333333333},
            **{"Success(rel=2)": 1, "Bpref(rel=2)": 0.25, "Rprec(rel=2)": 0},
        },
    ),
    (CASE_G, 2, {"Success(rel=3)": 0}),
    # Of levels side by side: answerable, but not at level 4, is 0, as with trec_eval -l.
    (CASE_G, 5, {"P": 3 / 5, "P(rel=2)": 2 / 5, "P(rel=3)": 1 / 5, "P(rel=4)": 0}),
    (CASE_G, 5, {"RBP(p=0.5)": 0.5 * (1 + 0.25 + 0.0625), "RBP(rel=3)": 0.2 * 0.64}),
    # A grade below 0 is no judgment, and judged of nothing is null.
    ((["x", "a"], {"a": 1, "x": -1}), 2, {"judged": 1 / 2, "bpref": 1}),
    ((["x", "a"], {"a": 1, "x": 0}), 2, {"judged": 1, "bpref": 0}),
    (([], {"a": 1}), 2, {"judged": None, "mrr": 0}),
]


@pytest.mark.parametrize(("case", "k", "expected"), VALUES)
def test_levels_and_parameters(case: Case, k: int, expected: dict[str, float | None]) -> None:
    found = values(case, k, *expected)
    known = {parse_metric(name).column: value for name, value in expected.items()}
    assert found == pytest.approx(known, abs=1e-12)


def test_a_second_unit_of_an_evidence_gains_nothing_in_err() -> None:
    row = one_query(["a", "b", "c"], [("e", "a", 4), ("e", "b", 4), ("other", "c", 4)], 3)
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
        ("unit_id", "a", "unit 'a' of query 'q' in run 'mine' occurs twice, at ranks 1 and 3"),
        ("rank", 2, "rank 2 of query 'q' in run 'mine' is given to unit 'b' and to unit 'c'"),
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
    rest = {"r": "j"}, queries, cells, ALL_METRICS, {"r": N_UNITS}
    expected = query_metrics({"r": run}, {"j": judgments}, *rest)
    assert query_metrics({"r": paths[0]}, {"j": paths[1]}, *rest) == expected


CUTOFFS = (1, 2, 3, 4, 6, 10)


def test_two_evidences_in_one_chunk_count_both_for_recall() -> None:
    row = one_query(["a", "b"], [("e1", "a", 2), ("e2", "a", 1)], 2)
    assert (row["n_relevant"], row["recall"], row["mrr"], row["hit_rate"]) == (2, 1, 1, 1)
    assert row["precision"] == 1 / 2
    assert row["map"] == (1 / 1 + 1 / 1) / 2
    # One rank earns once: the higher of the two grades. The ideal has one evidence a rank.
    assert row["ndcg"] == pytest.approx(2 / (2 / log2(2) + 1 / log2(3)), abs=1e-12)


def test_second_chunk_with_the_same_evidence_earns_nothing_but_is_no_error() -> None:
    row = one_query(["a", "b", "c"], [("e1", "a", 1), ("e1", "b", 1), ("e2", "c", 1)], 3)
    assert row["n_relevant"] == 2
    assert row["precision"] == 1  # all three are relevant
    assert row["recall"] == 1
    assert row["map"] == (1 / 1 + 3 / 3) / 2
    dcg, ideal = 1 / log2(2) + 1 / log2(4), 1 / log2(2) + 1 / log2(3)
    assert row["ndcg"] == pytest.approx(dcg / ideal, abs=1e-12)
    at_two = one_query(["a", "b", "c"], [("e1", "a", 1), ("e1", "b", 1), ("e2", "c", 1)], 2)
    assert (at_two["recall"], at_two["precision"]) == (1 / 2, 1)


def test_unreachable_evidence_stays_in_r_and_in_the_ideal() -> None:
    row = one_query(["a"], [("e1", "a", 1), ("lost", None, 1)], 5)
    assert (row["n_relevant"], row["n_unreachable"]) == (2, 1)
    assert (row["recall"], row["map"]) == (1 / 2, 1 / 2)
    assert row["ndcg"] == pytest.approx(1 / (1 + 1 / log2(3)), abs=1e-12)


def test_only_unreachable_evidence_is_answerable_and_scores_0() -> None:
    row = one_query(["a"], [("lost", None, 2)], 1)
    assert (row["n_relevant"], row["n_unreachable"], row["n_judged"]) == (1, 1, 0)
    values = {metric.column: row[metric.column] for metric in ALL_METRICS}
    mistakes = {"fp": 1, "fn": 1}  # a, which has no judgment, and the evidence
    assert values == {**dict.fromkeys(values, 0), **mistakes, "idcg": 2, "tn": N_UNITS - 2}


def test_the_four_counts_are_all_units_and_names_of_statistics_are_ours() -> None:
    """Of 20 units 3 are relevant, one of them and 3 others stand in the first 4."""
    labels = [("a", "a", 1), ("b", "b", 1), ("c", "c", 2)]
    names = ("tp@4", "fp@4", "fn@4", "tn@4", "PPV@4", "sensitivity@4", "tpr@4", "idcg@2")
    row = one_query(["x", "a", "y", "z"], labels, 4, list(map(parse_metric, names)))
    assert [row[name] for name in ("tp", "fp", "fn", "tn")] == [1, 3, 2, 14]
    assert (row["precision"], row["recall"]) == (1 / 4, 1 / 3)
    assert row["idcg"] == 2 / log2(2) + 1 / log2(3) + 1 / log2(4)  # at 4, where the row is
    lone = one_query(["a"], [("e", None, 1), ("f", None, 1)] * 12, 1, [parse_metric("tn")])
    assert lone["tn"] == N_UNITS - 3
    with pytest.raises(
        UsageError, match="tn: the number of units that r could return is not known"
    ):
        query_metrics(
            {"r": run_table({"q": ["a"]})},
            {"j": judgment_table([("q", "e", "a", 1)])},
            {"r": "j"},
            query_table(["q"]),
            [("r", 1)],
            [parse_metric("tn")],
        )


def labels_of(query: str, structure: Structure) -> list[Label]:
    return [(query, *pair, grade) for pair, grade in structure.items()]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(RANKINGS, STRUCTURES), min_size=1, max_size=12),
    st.integers(1, 3),
    st.sampled_from((0.5, 0.8, 0.95)),
)
def test_random_evidence(
    cases: list[tuple[list[str], Structure]], rel: int, persistence: float
) -> None:
    runs = {"r": run_table({f"q{n:02}": ranking for n, (ranking, _) in enumerate(cases)})}
    labels = [row for n, (_, found) in enumerate(cases) for row in labels_of(f"q{n:02}", found)]
    cells, queries = [("r", k) for k in CUTOFFS], query_table(f"q{n:02}" for n in range(len(cases)))
    metrics = {measure: _with(measure, rel, persistence) for measure in RANKING_MEASURES}
    judgments = {"j": judgment_table(labels)}
    tables = query_metrics(
        runs, judgments, {"r": "j"}, queries, cells, metrics.values(), {"r": N_UNITS}
    )
    for n, (ranking, structure) in enumerate(cases):
        rows = [tables["r", k].slice(n, 1).to_pylist()[0] for k in CUTOFFS]
        for k, row in zip(CUTOFFS, rows, strict=True):
            expected = naive(ranking, structure, k, rel=rel, p=persistence)
            assert set(expected) == set(RANKING_MEASURES)
            for measure, value in expected.items():
                known = None if value is None else pytest.approx(value, abs=1e-9)
                assert row[metrics[measure].column] == known, measure


def _with(measure: str, rel: int, p: float) -> Metric:
    given = {"rel": rel, "p": p}
    defaults = parameters_of(measure)
    chosen = [(n, given[n]) for n in sorted(defaults) if given.get(n, defaults[n]) != defaults[n]]
    return Metric(measure, None, tuple(chosen))


def ours(
    rankings: Mapping[str, list[str]], qrels: Mapping[str, dict[str, int]], name: str
) -> float:
    value = score(run_table(rankings), document_judgments(qrels), [name]).means[name]
    assert value is not None
    return value


def test_the_example_of_autorags_page() -> None:
    """AutoRAG, docs/source/evaluate_metrics/retrieval.md."""
    groups = [["test-1", "test-2"], ["test-3"]]
    ranking = ["test-1", "pred-1", "test-2", "pred-3"]
    precision, recall = 2 / 4, 1 / 2
    expected = {
        "retrieval_precision": precision,
        "retrieval_recall": recall,
        "retrieval_f1": 2 * precision * recall / (precision + recall),
        "retrieval_mrr": (1 / 1 + 0) / 2,
        "retrieval_map": ((1 / 1 + 2 / 3) / 2 + 0) / 2,
        "retrieval_ndcg": (1 / log2(2) + 1 / log2(4)) / (1 / log2(2) + 1 / log2(3) + 1 / log2(4)),
    }
    for name, value in expected.items():
        assert number("autorag", name, ranking, groups=groups) == pytest.approx(value, abs=1e-12)
    assert expected["retrieval_f1"] == 0.5
    assert expected["retrieval_map"] == pytest.approx(5 / 12)
    assert expected["retrieval_ndcg"] == pytest.approx(0.7039180890341347, abs=1e-15)


# Eight images, three queries (the article "Evaluation Measures in Information Retrieval" of
# pinecone.io): every query retrieves images 1 to 8 in this order.
IMAGES = [str(image) for image in range(1, 9)]
RELEVANT = {"cat in a box": "2457", "second": "1457", "third": "58"}
EIGHT = {query: dict.fromkeys(images, 1) for query, images in RELEVANT.items()}


@pytest.mark.parametrize(("tool", "ap"), [("ours", "map@8"), ("llamaindex", "ap@8")])
def test_recall_ap_and_mrr_of_eight_images(tool: str, ap: str) -> None:
    """Relevant at ranks 2, 4, 5, 7; 1, 4, 5, 7; 5, 8. R is at most k = 8: all divide by R."""
    found = [number(tool, f"recall@{k}", IMAGES, EIGHT["cat in a box"]) for k in range(1, 9)]
    assert found == [0, 1 / 4, 1 / 4, 2 / 4, 3 / 4, 3 / 4, 1, 1]
    first = (1 / 2 + 2 / 4 + 3 / 5 + 4 / 7) / 4
    second = (1 / 1 + 2 / 4 + 3 / 5 + 4 / 7) / 4
    third = (1 / 5 + 2 / 8) / 2
    values = [number(tool, ap, IMAGES, EIGHT[query]) for query in RELEVANT]
    assert values == pytest.approx([first, second, third], abs=1e-12)
    assert [round(first, 2), round(second, 2)] == [0.54, 0.67]
    assert third == pytest.approx(0.225)  # printed as .23
    assert sum(values) / 3 == pytest.approx(0.48, abs=0.005)
    reciprocal = [number(tool, "mrr@8", IMAGES, EIGHT[query]) for query in RELEVANT]
    assert reciprocal == [1 / 2, 1 / 1, 1 / 5]
    assert round(sum(reciprocal) / 3, 2) == 0.57


GAINS = [0, 7, 2, 4, 6, 1, 4, 3]


def test_ndcg_of_eight_images() -> None:
    """The article prints .41, its nDCG@2, beside K = 8 too; at 8 the same gains give .7237."""
    grades = dict(zip(IMAGES, GAINS, strict=True))
    at_2 = (0 / log2(2) + 7 / log2(3)) / (7 / log2(2) + 6 / log2(3))
    dcg = sum(gain / log2(rank + 1) for rank, gain in enumerate(GAINS, 1))
    ideal = sum(gain / log2(rank + 1) for rank, gain in enumerate([7, 6, 4, 4, 3, 2, 1, 0], 1))
    for k, value, printed in ((2, at_2, 0.4095), (8, dcg / ideal, 0.7237)):
        assert ours({"q": IMAGES}, {"q": grades}, f"ndcg@{k}") == pytest.approx(value)
        assert value == pytest.approx(printed, abs=5e-5)


def test_cumulative_gain_and_counts_of_eight_images() -> None:
    """The first two gain 0 and 7; the first is the only one of eight that is not relevant."""
    qrels = {"q": dict(zip(IMAGES, GAINS, strict=True))}
    expected = {
        "cg@2": 0 + 7,
        "cg@8": 0 + 7 + 2 + 4 + 6 + 1 + 4 + 3,
        "dcg@2": 4.4165,
        "dcg@8": 12.0963,
        "dcg_exp@2": (2**7 - 1) / log2(3),
        "tp@2": 1,
        "fp@2": 1,
        "fn@2": 7 - 1,
        "tp@8": 7,
        "fp@8": 1,
        "fn@8": 0,
    }
    for name, value in expected.items():
        assert ours({"q": IMAGES}, qrels, name) == pytest.approx(value, abs=5e-5), name


def test_f_beta_of_the_eight_images() -> None:
    """Of 'cat in a box', at 4, two of four are relevant and two of four are found; at 8 all."""
    qrels = {"q": EIGHT["cat in a box"]}
    assert ours({"q": IMAGES}, qrels, "f_beta(beta=2)@4") == 0.5
    precision, recall = 4 / 8, 4 / 4
    for beta in (0.5, 1, 2, 3):
        value = (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
        found = ours({"q": IMAGES}, qrels, f"f_beta(beta={beta})@8")
        assert found == pytest.approx(value, abs=1e-12)
    assert ours({"q": IMAGES}, qrels, "f_beta(beta=1)@8") == ours({"q": IMAGES}, qrels, "f1@8")


def test_capped_recall() -> None:
    """10 relevant in the first 10, 100 relevant in all: 10 / min(100, 10), not 10 / 100."""
    documents = [f"d{i:03d}" for i in range(100)]
    run, qrels = {"q": documents[:10]}, {"q": dict.fromkeys(documents, 1)}
    assert ours(run, qrels, "recall_cap@10") == 1
    assert ours(run, qrels, "recall@10") == 10 / 100


FIRST = 1 / log2(2)
TWO = FIRST + 1 / log2(3)
IDEAL_3 = TWO + 1 / log2(4)
IDEAL_5 = IDEAL_3 + 1 / log2(5) + 1 / log2(6)
IDEAL_20 = sum(1 / log2(rank + 1) for rank in range(1, 21))

# Case G: grades a 3, b 1, c 2, n 0; ranked b, x, a, n, c; k = 5.
G_LINEAR = (1 / log2(2) + 3 / log2(4) + 2 / log2(6)) / (3 / log2(2) + 2 / log2(3) + 1 / log2(4))
G_EXPONENTIAL = (1 / log2(2) + 7 / log2(4) + 3 / log2(6)) / (7 / log2(2) + 3 / log2(3) + 1 / 2)
G_BINARY = (1 / log2(2) + 1 / log2(4) + 1 / log2(6)) / IDEAL_3
G_AP = (1 / 1 + 2 / 3 + 3 / 5) / 3
G_GROUP_MEAN = (1 / 1 + 1 / 3 + 1 / 5) / 3
# Case H: 20 relevant, the first 5 all relevant; k = 5.
H_GROUP_MEAN = sum(1 / rank for rank in range(1, 6)) / 20
# Case C: 5 relevant, one result, relevant; k = 5.

CASES = {
    "G": (list("bxanc"), {"a": 3, "b": 1, "c": 2, "n": 0}),
    "H": ([f"d{i:02d}" for i in range(5)], {f"d{i:02d}": 1 for i in range(20)}),
    "C": (["a"], dict.fromkeys("abcde", 1)),
}
TABLE: list[tuple[str, str, float, float, float]] = [
    # tool, metric, case G, case H, case C
    ("ours", "ndcg@5", G_LINEAR, 1, FIRST / IDEAL_5),
    ("ours", "ndcg_exp@5", G_EXPONENTIAL, 1, FIRST / IDEAL_5),
    ("llamaindex", "ndcg@5", G_BINARY, IDEAL_5 / IDEAL_20, FIRST / IDEAL_5),
    ("autorag", "retrieval_ndcg@5", G_BINARY, 1, 1),
    ("ours", "precision@5", 3 / 5, 1, 1 / 5),
    ("llamaindex", "precision@5", 3 / 5, 1, 1),
    ("autorag", "retrieval_precision@5", 3 / 5, 1, 1),
    ("ours", "recall@5", 1, 5 / 20, 1 / 5),
    ("ours", "recall_cap@5", 1, 1, 1 / 5),
    ("llamaindex", "recall@5", 1, 5 / 20, 1 / 5),
    ("autorag", "retrieval_recall@5", 1, 5 / 20, 1 / 5),
    ("ours", "f1@5", 2 * 0.6 / 1.6, 2 * 0.25 / 1.25, 2 * 0.2 * 0.2 / 0.4),
    ("autorag", "retrieval_f1@5", 2 * 0.6 / 1.6, 2 * 0.25 / 1.25, 2 * 0.2 / 1.2),
    ("ours", "mrr@5", 1, 1, 1),
    ("llamaindex", "mrr@5", 1, 1, 1),
    ("autorag", "retrieval_mrr@5", G_GROUP_MEAN, H_GROUP_MEAN, 1 / 5),
    ("ours", "map@5", G_AP, 5 / 20, 1 / 5),
    ("llamaindex", "ap@5", G_AP, 5 / 20, 1 / 5),
    ("autorag", "retrieval_map@5", G_GROUP_MEAN, H_GROUP_MEAN, 1 / 5),
    ("ours", "hit_rate@5", 1, 1, 1),
    ("llamaindex", "hit_rate@5", 1, 1, 1),
]


@pytest.mark.parametrize(("tool", "name", "g", "h", "c"), TABLE)
def test_three_cases_under_every_dialect(
    tool: str, name: str, g: float, h: float, c: float
) -> None:
    for (ranking, grades), expected in zip(CASES.values(), (g, h, c), strict=True):
        assert number(tool, name, ranking, grades) == pytest.approx(expected, abs=1e-12)


def test_a_repeated_document_overflows_in_lists_that_count_it_twice() -> None:
    """One relevant document, listed twice: a gain of 1 + 1/log2(3) over an ideal of 1."""
    for tool, name, value in (
        ("autorag", "retrieval_ndcg", 1 + 1 / log2(4)),
        ("llamaindex", "ndcg", 1 + 1 / log2(4)),
        ("llamaindex", "ap", 1 / 1 + 2 / 3),
        ("autorag", "retrieval_precision", 1 / 3),
    ):
        assert number(tool, name, ["a", "x", "a"], {"a": 1}) == pytest.approx(value)


def number(
    tool: str,
    name: str,
    ranking: Sequence[str],
    grades: Mapping[str, int] | None = None,
    groups: Sequence[Sequence[str]] = (),
) -> float:
    """Score a list, best first, by either grades or groups of alternatives."""
    if tool == "ours":
        return ours({"q": list(ranking)}, {"q": dict(grades or {})}, name)
    groups = groups or [[item] for item, grade in (grades or {}).items() if grade > 0]
    grades = grades or {item: 1 for group in groups for item in group}
    query = ToolQuery("q", list(ranking), True, tuple(map(tuple, groups)), grades)
    dialect = DIALECTS[tool]
    value = dialect.outcome(ToolInput((query,)), dialect.parse(name)).mean
    assert value is not None
    return value
