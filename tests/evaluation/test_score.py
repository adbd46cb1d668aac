"""Scores of run files, and checks of tables of runs and metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rag_assets.errors import UsageError
from rag_assets.evaluation.label_files import read_labels
from rag_assets.evaluation.run_files import read_run_file
from rag_assets.evaluation.score import score
from rag_assets.evaluation.table_checks import (
    incomplete,
    tied_at_cut,
    unanswered,
)
from rag_assets.schemas import RUNS
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


QUERIES = pa.table({"query_id": ["q1", "q2"]})


def run(*rows: tuple[str, int, float, str, str, str]) -> pa.Table:
    names = RUNS.arrow().names
    return RUNS.from_rows([dict(zip(names, row, strict=True)) for row in rows])


SOUND = run(
    ("q1", 1, 2.0, "a#0-9", "a#5-9", "a"),
    ("q1", 2, 2.0, "b#0-5", "b#0-5", "b"),
    ("q2", 1, 0.5, "b#0-5", "b#0-5", "b"),
)


def test_a_sound_run_has_no_problem() -> None:
    assert unanswered(SOUND, QUERIES) == []


def test_an_empty_run_answers_nobody() -> None:
    found = unanswered(RUNS.empty(), QUERIES, {"q2": "no answer"})
    assert found == ["query 'q1': nothing was retrieved", "query 'q2': the retriever failed"]


TWO_QUERIES = pa.table({"query_id": ["q1", "q2"]})


def metrics(**columns: list[object]) -> pa.Table:
    whole: dict[str, list[object]] = {
        "query_id": ["q1", "q2"],
        "failed": [False, False],
        "ties_at_cut": [0, None],
        "ndcg": [1.0, None],
    }
    return pa.table(whole | columns)


def test_a_sound_table_has_no_problem() -> None:
    table = metrics()
    assert incomplete(table, TWO_QUERIES) == []
    assert tied_at_cut(table) == []


def test_queries_that_are_missing_twice_there_or_failed() -> None:
    assert incomplete(metrics(query_id=["q1", "q1"]), TWO_QUERIES) == [
        "query 'q1': 2 rows of metrics",
        "query 'q2': 0 rows of metrics",
    ]
    assert incomplete(metrics(failed=[False, True]), TWO_QUERIES) == [
        "query 'q2': the retriever failed"
    ]


def test_ties_at_the_cut() -> None:
    (found,) = tied_at_cut(metrics(ties_at_cut=[0, 2]))
    assert found == "query 'q2': units below the cut that score as the last one above it: 2"
