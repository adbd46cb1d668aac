"""Scores of run files."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

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


@pytest.fixture(scope="module")
def cranfield(shared_data: Callable[[str], Path]) -> tuple[Path, pa.Table, pa.Table]:
    """The folder of its runs, one of them, and its judgments."""
    runs = shared_data("cranfield") / "runs"
    run = read_run_file(runs / "bm25s_lucene_k1.2_b0.75_top100.trec")
    return runs, run, read_labels(runs / "qrels.test.trec").judgments


@pytest.mark.real_data
@pytest.mark.parametrize("trec_mean", [False, True])
def test_cranfield_equals_trec_eval(
    cranfield: tuple[Path, pa.Table, pa.Table], trec_mean: bool
) -> None:
    runs, run, qrels = cranfield
    expected = trec_eval_output(runs / "bm25s_top100.trec_eval-9.0.8.all.txt")
    names = [name for _, name in expected]
    assert len(names) == 3 + 4 * 9 + 3
    found = score(run, qrels, [*names, "mrr@100"], trec_mean=trec_mean)
    assert found.n_queries == 225
    assert (found.n_unanswerable, found.n_missing, found.n_unjudged_queries) == (0, 0, 0)
    for (_, name), value in expected.items():
        mean = found.means[name]
        assert mean is not None
        assert round(mean, 4) == pytest.approx(value, abs=1e-9), name
    assert found.means["mrr@100"] == found.means["recip_rank"]


@pytest.mark.real_data
def test_cranfield_equals_trec_eval_for_each_query(
    cranfield: tuple[Path, pa.Table, pa.Table],
) -> None:
    runs, run, qrels = cranfield
    expected = trec_eval_output(runs / "bm25s_top100.trec_eval-9.0.8.perquery.txt")
    names = sorted({name for _, name in expected})
    assert names == ["P_10", "map", "ndcg", "ndcg_cut_10", "recall_100", "recip_rank"]
    rows = score(run, qrels, names).per_query
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


def test_accounting_and_trec_mean() -> None:
    """trec_mean counts queries without a relevant document."""
    scores = score(RUN, QRELS, ["mrr"])
    counts = (scores.n_queries, scores.n_unanswerable, scores.n_missing, scores.n_unjudged_queries)
    assert counts == (2, 1, 1, 1)
    of_trec = score(RUN, QRELS, ["mrr"], trec_mean=True)
    assert (of_trec.n_queries, of_trec.means) == (3, {"mrr": (0.5 + 0 + 0) / 3})
    for found, none in ((scores, None), (of_trec, 0.0)):
        values = {row["query_id"]: row["mrr"] for row in found.per_query}
        assert values == {"hit": 0.5, "lost": 0.0, "none": none}


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
