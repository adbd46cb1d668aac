"""Scores of run files."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.errors import UsageError
from rag_assets.evaluation.label_files import read_labels
from rag_assets.evaluation.run_files import read_run_file
from rag_assets.evaluation.score import score
from tests.made_tables import document_judgments, run_table

COMPARABLE = ("map", "ndcg", "recip_rank")
FAMILIES = ("P_", "recall_", "ndcg_cut_", "map_cut_", "success_")

RUN = run_table({"hit": ["x", "a"], "none": ["a"], "stranger": ["a"]})
QRELS = document_judgments({"hit": {"a": 1}, "lost": {"a": 2}, "none": {"a": 0}})


def trec_eval_output(path: Path) -> dict[tuple[str, str], float]:
    """(query, measure) -> value, of the measures that both know."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return {
        (query, name): float(value)
        for name, query, value in lines
        if name in COMPARABLE or (name.startswith(FAMILIES) and name.rsplit("_", 1)[1].isdigit())
    }


@pytest.mark.real_data
@pytest.mark.parametrize("trec_mean", [False, True])
def test_cranfield_equals_trec_eval(shared_data: Callable[[str], Path], trec_mean: bool) -> None:
    runs = shared_data("cranfield") / "runs"
    expected = trec_eval_output(runs / "bm25s_top100.trec_eval-9.0.8.all.txt")
    names = [name for _, name in expected]
    assert len(names) == 3 + 4 * 9 + 3
    run = read_run_file(runs / "bm25s_lucene_k1.2_b0.75_top100.trec")
    qrels = read_labels(runs / "qrels.test.trec").judgments
    found = score(run, qrels, [*names, "mrr@100"], trec_mean=trec_mean)
    assert found.n_queries == 225
    assert (found.n_unanswerable, found.n_missing, found.n_unjudged_queries) == (0, 0, 0)
    for (_, name), value in expected.items():
        mean = found.means[name]
        assert mean is not None
        assert round(mean, 4) == pytest.approx(value, abs=1e-9), name
    assert found.means["mrr@100"] == found.means["recip_rank"]


@pytest.mark.real_data
def test_cranfield_equals_trec_eval_for_each_query(shared_data: Callable[[str], Path]) -> None:
    runs = shared_data("cranfield") / "runs"
    expected = trec_eval_output(runs / "bm25s_top100.trec_eval-9.0.8.perquery.txt")
    names = sorted({name for _, name in expected})
    assert names == ["P_10", "map", "ndcg", "ndcg_cut_10", "recall_100", "recip_rank"]
    run = read_run_file(runs / "bm25s_lucene_k1.2_b0.75_top100.trec")
    rows = score(run, read_labels(runs / "qrels.test.trec").judgments, names).per_query
    found = {(str(row["query_id"]), name): row[name] for row in rows for name in names}
    assert len(found) == len(expected) == 225 * 6
    for key, value in expected.items():
        # Printed with four decimals; a value half-way between two may go either way.
        assert found[key] == pytest.approx(value, abs=0.5e-4 + 1e-9), key


def test_names_are_echoed_as_asked() -> None:
    scores = score(RUN, QRELS, ["RR", "recip_rank", "mrr@1", "P_1", "nDCG@10"])
    assert scores.means == {
        "RR": 0.25,
        "recip_rank": 0.25,
        "mrr@1": 0.0,
        "P_1": 0.0,
        "nDCG@10": pytest.approx(1 / math.log2(3) / 2),
    }


def test_accounting() -> None:
    scores = score(RUN, QRELS, ["mrr"])
    assert scores.n_queries == 2
    assert scores.n_unanswerable == 1
    assert scores.n_missing == 1
    assert scores.n_unjudged_queries == 1
    assert scores.per_query == [
        {"query_id": "hit", "mrr": 0.5},
        {"query_id": "lost", "mrr": 0.0},
        {"query_id": "none", "mrr": None},
    ]


def test_trec_mean_counts_queries_without_a_relevant_document() -> None:
    scores = score(RUN, QRELS, ["mrr"], trec_mean=True)
    assert scores.n_queries == 3
    assert scores.means == {"mrr": (0.5 + 0 + 0) / 3}
    assert scores.per_query[2]["mrr"] == 0.0


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("precision", "metric 'precision' needs a cut-off, such as precision@10"),
        ("P", "metric 'P' needs a cut-off, such as P@10"),
        ("f1", "metric 'f1' needs a cut-off, such as f1@10"),
        ("f2", "unknown metric 'f2'"),
    ],
)
def test_refused_metrics(name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        score(RUN, QRELS, ["mrr", name])


def test_a_count_is_a_sum_under_trec_evals_name() -> None:
    qrels = document_judgments({"a": {"x": 1, "y": 1}, "b": {"x": 1}, "c": {"z": 1}})
    run = run_table({"a": ["x", "y"], "b": ["x"]})
    found = score(run, qrels, ["num_rel_ret", "tp"])
    assert found.means == {"num_rel_ret": 3.0, "tp": 1.0}


def test_judged_has_no_value_where_nothing_is_retrieved() -> None:
    """A query that the run lacks is not judged by 0; ir_measures leaves it out too."""
    found = score(RUN, QRELS, ["judged@5", "mrr"], trec_mean=True)
    values = {row["query_id"]: (row["judged@5"], row["mrr"]) for row in found.per_query}
    assert values["lost"] == (None, 0.0)
    assert found.means["judged@5"] == 0.5, "of the one query that is answerable and has hits"
