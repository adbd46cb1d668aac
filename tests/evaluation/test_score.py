"""Scores of run files, of one and of several runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import pytrec_eval
from scipy import stats

from rag_assets.errors import UsageError
from rag_assets.evaluation.label_files import read_labels
from rag_assets.evaluation.run_files import read_run_file
from rag_assets.evaluation.score import RunScores, score, score_runs
from rag_assets.evaluation.table_checks import (
    incomplete,
    tied_at_cut,
    unanswered,
)
from rag_assets.schemas import RUNS
from rag_assets.statistics.units import Resampling
from tests.made_tables import document_judgments, run_table, scored_table

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
    names = score_runs({"one": run, "two": run}, qrels, ["num_rel_ret"]).metrics
    assert names == ("tp",), "a mean and its interval have no name of a sum"


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


Run = dict[str, dict[str, float]]
METRICS = ["ndcg@5", "map@20"]
THEIRS = {"ndcg@5": "ndcg_cut_5", "map@20": "map_cut_20"}
N_QUERIES = 60


def made() -> tuple[dict[str, Run], dict[str, dict[str, int]]]:
    """Return runs of which the second is worse, and qrels; no two queries share a document."""
    generator = np.random.default_rng(7)
    runs: dict[str, Run] = {"good": {}, "worse": {}, "BM25+RM3": {}}
    qrels: dict[str, dict[str, int]] = {}
    for number in range(N_QUERIES):
        documents = [f"d{number}_{place}" for place in range(20)]
        qrels[f"q{number}"] = {name: int(place < 3) for place, name in enumerate(documents)}
        worth = np.array([1.0 if place < 3 else 0.0 for place in range(20)])
        for name, noise in (("good", 0.8), ("worse", 2.5), ("BM25+RM3", 0.82)):
            scores = worth + noise * generator.standard_normal(20)
            runs[name][f"q{number}"] = dict(zip(documents, scores.tolist(), strict=True))
    del runs["worse"]["q0"]
    return runs, qrels


@pytest.fixture(scope="module")
def scores() -> RunScores:
    runs, qrels = made()
    return score_runs(
        {name: scored_table(run) for name, run in runs.items()}, document_judgments(qrels), METRICS
    )


@pytest.fixture(scope="module")
def theirs() -> dict[str, dict[str, list[float]]]:
    """Metric -> run -> trec_eval's value of each query; one that a run lacks counts 0."""
    runs, qrels = made()
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, set(THEIRS.values()))
    values = {name: evaluator.evaluate(run) for name, run in runs.items()}
    return {
        metric: {
            name: [found.get(query, {}).get(own, 0.0) for query in qrels]
            for name, found in values.items()
        }
        for metric, own in THEIRS.items()
    }


def test_means_are_trec_evals(scores: RunScores, theirs: dict[str, Any]) -> None:
    assert [(row["metric"], row["run"]) for row in scores.means] == [
        (metric, run) for metric in METRICS for run in ("good", "worse", "BM25+RM3")
    ]
    for row in scores.means:
        values = theirs[str(row["metric"])][row["run"]]
        assert row["mean"] == pytest.approx(np.mean(values), abs=1e-9)
        assert row["n"] == N_QUERIES
    assert scores.n_missing == {"good": 0, "worse": 1, "BM25+RM3": 0}
    assert (scores.n_queries, scores.n_unanswerable, scores.caveat) == (N_QUERIES, 0, None)


def test_pairs_are_tested_as_scipy_tests_them(scores: RunScores, theirs: dict[str, Any]) -> None:
    names = ["good", "worse", "BM25+RM3"]
    rows = {(row["metric"], row["run_a"], row["run_b"]): row for row in scores.pairs}
    assert list(rows) == [(m, a, b) for m in METRICS for a, b in combinations(names, 2)]
    for (metric, a, b), row in rows.items():
        one, other = np.array(theirs[str(metric)][a]), np.array(theirs[str(metric)][b])
        assert row["difference"] == pytest.approx((other - one).mean(), abs=1e-9)
        assert row["p_t"] == pytest.approx(stats.ttest_rel(other, one).pvalue, rel=1e-6)
        random = stats.permutation_test(
            (other, one),
            lambda x, y, axis: (x - y).mean(axis=axis),
            permutation_type="samples",
            n_resamples=20_000,
            vectorized=True,
            rng=2,
        )
        assert row["p_randomisation"] == pytest.approx(random.pvalue, abs=0.015)
        assert (row["won"], row["lost"]) == (
            int((other - one > 1e-9).sum()),
            int((one - other > 1e-9).sum()),
        )


def test_tests_allow_for_documents_that_queries_share() -> None:
    runs, qrels = made()
    for number in range(0, N_QUERIES, 2):  # pairs of queries have a relevant document in common
        qrels[f"q{number}"][f"d{number + 1}_0"] = 1
    tables = {name: scored_table(run) for name, run in runs.items()}
    shared = score_runs(tables, document_judgments(qrels), ["ndcg@5"], Resampling(resamples=500))
    apart = score_runs(tables, document_judgments(made()[1]), ["ndcg@5"], Resampling(resamples=500))
    assert {row["n_clusters"] for row in shared.pairs} == {N_QUERIES}
    assert [row["p_randomisation"] for row in shared.pairs] != [
        row["p_randomisation"] for row in apart.pairs
    ]
    few = {name: qrels[name] for name in list(qrels)[:10]}
    alone = score_runs(tables, document_judgments(few), ["ndcg@5"], Resampling(resamples=500))
    assert alone.caveat == (
        "10 questions, some of which share documents, are fewer than 60, so p and the interval "
        "are approximate"
    )
