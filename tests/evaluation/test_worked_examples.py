"""Worked examples of manuals and articles, with the arithmetic written out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import log2
from pathlib import Path

import pytest

from rag_assets.evaluation.score import score
from tests.evaluation.dialects.one_query import as_given, number
from tests.made_tables import document_judgments, run_table

AUTORAG_MEASURES = ("f1", "recall", "precision", "ndcg", "mrr", "map")


def ours(
    rankings: Mapping[str, list[str]], qrels: Mapping[str, dict[str, int]], name: str
) -> float:
    value = score(run_table(rankings), document_judgments(qrels), [name]).means[name]
    assert value is not None
    return value


def test_the_example_of_autorags_page() -> None:
    """AutoRAG, docs/source/evaluate_metrics/retrieval.md."""
    groups = [["test-1", "test-2"], ["test-3"]]
    data = as_given(["test-1", "pred-1", "test-2", "pred-3"], groups=groups)
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
        assert number("autorag", name, data) == pytest.approx(value, abs=1e-12)
    assert expected["retrieval_f1"] == 0.5
    assert expected["retrieval_map"] == pytest.approx(5 / 12)
    assert expected["retrieval_ndcg"] == pytest.approx(0.7039180890341347, abs=1e-15)


@pytest.mark.real_data
def test_the_cases_of_autorags_own_tests(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("autorag_sample") / "metric_cases.json"
    cases = json.loads(path.read_text(encoding="utf-8"))
    assert (len(cases["cases"]), len(cases["extra"])) == (8, 2)
    for case in [*cases["cases"], *cases["extra"]]:
        data = as_given(case["retrieved_ids"], groups=case["retrieval_gt"])
        for measure in AUTORAG_MEASURES:
            if measure in case:
                found = number("autorag", f"retrieval_{measure}", data)
                value = case[measure]
                assert found == (None if value is None else pytest.approx(value, rel=1e-4))
    assert [case["f1"] for case in cases["cases"]].count(None) == 2


# Eight images, three queries (the article "Evaluation Measures in Information Retrieval" of
# pinecone.io): every query retrieves images 1 to 8 in this order.
IMAGES = [str(image) for image in range(1, 9)]
RELEVANT = {"cat in a box": "2457", "second": "1457", "third": "58"}
EIGHT = {query: dict.fromkeys(images, 1) for query, images in RELEVANT.items()}
EIGHT_RUN = dict.fromkeys(RELEVANT, IMAGES)
PLAIN = [
    ("ours", "recall@{k}", "map@{k}", "mrr@{k}"),
    ("beir", "Recall@{k}", "MAP@{k}", "MRR@{k}"),
    ("llamaindex", "recall@{k}", "ap@{k}", "mrr@{k}"),
]


def value_of(tool: str, name: str, query: str) -> float:
    if tool == "ours":
        return ours({query: IMAGES}, {query: EIGHT[query]}, name)
    value = number(tool, name, as_given(IMAGES, EIGHT[query]))
    assert value is not None
    return value


@pytest.mark.parametrize(("tool", "recall", "ap", "rr"), PLAIN)
def test_recall_ap_and_mrr_of_eight_images(tool: str, recall: str, ap: str, rr: str) -> None:
    """Relevant at ranks 2, 4, 5, 7; 1, 4, 5, 7; 5, 8. R is at most k = 8: all divide by R."""
    found = [value_of(tool, recall.format(k=k), "cat in a box") for k in range(1, 9)]
    assert found == [0, 1 / 4, 1 / 4, 2 / 4, 3 / 4, 3 / 4, 1, 1]
    first = (1 / 2 + 2 / 4 + 3 / 5 + 4 / 7) / 4
    second = (1 / 1 + 2 / 4 + 3 / 5 + 4 / 7) / 4
    third = (1 / 5 + 2 / 8) / 2
    values = [value_of(tool, ap.format(k=8), query) for query in RELEVANT]
    assert values == pytest.approx([first, second, third], abs=1e-12)
    assert [round(first, 2), round(second, 2)] == [0.54, 0.67]
    assert third == pytest.approx(0.225)  # printed as .23
    assert sum(values) / 3 == pytest.approx(0.48, abs=0.005)
    reciprocal = [value_of(tool, rr.format(k=8), query) for query in RELEVANT]
    assert reciprocal == [1 / 2, 1 / 1, 1 / 5]
    assert round(sum(reciprocal) / 3, 2) == 0.57


def test_means_over_the_three_queries() -> None:
    mean_ap = ((1 / 2 + 2 / 4 + 3 / 5 + 4 / 7) / 4 + (1 + 2 / 4 + 3 / 5 + 4 / 7) / 4 + 0.225) / 3
    assert ours(EIGHT_RUN, EIGHT, "map@8") == pytest.approx(mean_ap)
    assert ours(EIGHT_RUN, EIGHT, "mrr@8") == pytest.approx((1 / 2 + 1 + 1 / 5) / 3)


GAINS = [0, 7, 2, 4, 6, 1, 4, 3]


@pytest.mark.parametrize(("tool", "name"), [("ours", "ndcg@{k}"), ("beir", "NDCG@{k}")])
def test_ndcg_of_eight_images(tool: str, name: str) -> None:
    """The article prints .41, its nDCG@2, beside K = 8 too; at 8 the same gains give .7237."""
    grades = dict(zip(IMAGES, GAINS, strict=True))

    def found(k: int) -> float | None:
        if tool == "ours":
            return ours({"q": IMAGES}, {"q": grades}, name.format(k=k))
        return number(tool, name.format(k=k), as_given(IMAGES, grades))

    at_2 = (0 / log2(2) + 7 / log2(3)) / (7 / log2(2) + 6 / log2(3))
    assert found(2) == pytest.approx(at_2)
    assert at_2 == pytest.approx(0.4095, abs=5e-5)
    dcg = sum(gain / log2(rank + 1) for rank, gain in enumerate(GAINS, 1))
    ideal = sum(gain / log2(rank + 1) for rank, gain in enumerate([7, 6, 4, 4, 3, 2, 1, 0], 1))
    assert found(8) == pytest.approx(dcg / ideal)
    assert dcg / ideal == pytest.approx(0.7237, abs=5e-5)


def test_dcg_of_eight_images() -> None:
    qrels = {"q": dict(zip(IMAGES, GAINS, strict=True))}
    assert ours({"q": IMAGES}, qrels, "dcg@2") == pytest.approx(4.4165, abs=5e-5)
    assert ours({"q": IMAGES}, qrels, "dcg@8") == pytest.approx(12.0963, abs=5e-5)


def test_cumulative_gain_and_counts_of_eight_images() -> None:
    """The first two gain 0 and 7; the first is the only one of eight that is not relevant."""
    qrels = {"q": dict(zip(IMAGES, GAINS, strict=True))}
    expected = {
        "cg@2": 0 + 7,
        "cg@8": 0 + 7 + 2 + 4 + 6 + 1 + 4 + 3,
        "dcg_exp@2": (2**7 - 1) / log2(3),
        "ndcg@2": 0.4095,
        "ndcg@8": 0.7237,
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


def test_exponential_gain_of_eight_images() -> None:
    grades = dict(zip(IMAGES, GAINS, strict=True))
    dcg = sum((2**gain - 1) / log2(rank + 1) for rank, gain in enumerate(GAINS, 1))
    ideal = sorted(GAINS, reverse=True)
    idcg = sum((2**gain - 1) / log2(rank + 1) for rank, gain in enumerate(ideal, 1))
    assert ours({"q": IMAGES}, {"q": grades}, "ndcg_exp@8") == pytest.approx(dcg / idcg)


def test_mrr_of_first_ranks_two_and_one() -> None:
    rankings = {"one": ["x", "a"], "two": ["a", "x"]}
    qrels = {query: {"a": 1} for query in rankings}
    assert ours(rankings, qrels, "mrr@5") == (1 / 2 + 1 / 1) / 2 == 0.75


def test_capped_recall() -> None:
    """10 relevant in the first 10, 100 relevant in all: 10 / min(100, 10), not 10 / 100."""
    documents = [f"d{i:03d}" for i in range(100)]
    data = as_given(documents[:10], dict.fromkeys(documents, 1))
    assert number("beir", "R_cap@10", data) == 10 / min(100, 10) == 1
    assert number("beir", "Recall@10", data) == 10 / 100
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
    ("beir", "NDCG@5", G_LINEAR, 1, FIRST / IDEAL_5),
    ("ours", "ndcg_exp@5", G_EXPONENTIAL, 1, FIRST / IDEAL_5),
    ("llamaindex", "ndcg@5", G_BINARY, IDEAL_5 / IDEAL_20, FIRST / IDEAL_5),
    ("autorag", "retrieval_ndcg@5", G_BINARY, 1, 1),
    ("ours", "precision@5", 3 / 5, 1, 1 / 5),
    ("beir", "P@5", 3 / 5, 1, 1 / 5),
    ("llamaindex", "precision@5", 3 / 5, 1, 1),
    ("autorag", "retrieval_precision@5", 3 / 5, 1, 1),
    ("ours", "recall@5", 1, 5 / 20, 1 / 5),
    ("beir", "Recall@5", 1, 5 / 20, 1 / 5),
    ("ours", "recall_cap@5", 1, 1, 1 / 5),
    ("beir", "R_cap@5", 1, 1, 1 / 5),
    ("llamaindex", "recall@5", 1, 5 / 20, 1 / 5),
    ("autorag", "retrieval_recall@5", 1, 5 / 20, 1 / 5),
    ("ours", "f1@5", 2 * 0.6 / 1.6, 2 * 0.25 / 1.25, 2 * 0.2 * 0.2 / 0.4),
    ("autorag", "retrieval_f1@5", 2 * 0.6 / 1.6, 2 * 0.25 / 1.25, 2 * 0.2 / 1.2),
    ("ours", "mrr@5", 1, 1, 1),
    ("beir", "MRR@5", 1, 1, 1),
    ("llamaindex", "mrr@5", 1, 1, 1),
    ("autorag", "retrieval_mrr@5", G_GROUP_MEAN, H_GROUP_MEAN, 1 / 5),
    ("ours", "map@5", G_AP, 5 / 20, 1 / 5),
    ("beir", "MAP@5", G_AP, 5 / 20, 1 / 5),
    ("llamaindex", "ap@5", G_AP, 5 / 20, 1 / 5),
    ("autorag", "retrieval_map@5", G_GROUP_MEAN, H_GROUP_MEAN, 1 / 5),
    ("ours", "hit_rate@5", 1, 1, 1),
    ("beir", "Accuracy@5", 1, 1, 1),
    ("llamaindex", "hit_rate@5", 1, 1, 1),
]


@pytest.mark.parametrize(("tool", "name", "g", "h", "c"), TABLE)
def test_three_cases_under_every_dialect(
    tool: str, name: str, g: float, h: float, c: float
) -> None:
    for (ranking, grades), expected in zip(CASES.values(), (g, h, c), strict=True):
        if tool == "ours":
            assert ours({"q": ranking}, {"q": grades}, name) == pytest.approx(expected, abs=1e-12)
        else:
            found = number(tool, name, as_given(ranking, grades))
            assert found == pytest.approx(expected, abs=1e-12)


def test_the_numbers_of_the_three_cases_as_they_are_printed() -> None:
    printed = [G_LINEAR, G_EXPONENTIAL, G_BINARY, IDEAL_5 / IDEAL_20, FIRST / IDEAL_5, H_GROUP_MEAN]
    assert [round(value, 4) for value in printed] == [
        0.6875,
        0.6026,
        0.8855,
        0.4188,
        0.3392,
        0.1142,
    ]


def test_a_repeated_document_overflows_in_lists_that_count_it_twice() -> None:
    """One relevant document, listed twice: a gain of 1 + 1/log2(3) over an ideal of 1."""
    data = as_given(["a", "x", "a"], {"a": 1})
    twice = 1 + 1 / log2(4)
    assert number("autorag", "retrieval_ndcg", data) == pytest.approx(twice)
    assert number("llamaindex", "ndcg", data) == pytest.approx(twice)
    assert number("llamaindex", "ap", data) == pytest.approx(1 / 1 + 2 / 3)
    assert number("autorag", "retrieval_precision", data) == pytest.approx(1 / 3)
