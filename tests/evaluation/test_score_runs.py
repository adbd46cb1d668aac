"""Several runs: every number against trec_eval's metrics and scipy's tests."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from scipy import stats

from rag_assets.evaluation.score import RunScores, score_runs
from rag_assets.statistics.units import Resampling
from tests.made_tables import document_judgments, scored_table

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
