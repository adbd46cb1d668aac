from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import pytrec_eval

from rag_assets.errors import UsageError
from rag_assets.evaluation.metric_names import (
    MEASURES,
    RANKING_MEASURES,
    Metric,
    metric_columns,
    parse_metric,
    split_metrics,
)
from rag_assets.evaluation.trec_measures import NO_METRICS
from rag_assets.testing import MetricContract, metrics


@pytest.mark.parametrize(
    ("name", "measure", "cutoff"),
    [
        ("ndcg@10", "ndcg", 10),
        ("ndcg_cut_10", "ndcg", 10),
        ("ndcg", "ndcg", None),
        ("P@5", "precision", 5),
        ("R@100", "recall", 100),
        ("RR", "mrr", None),
        ("recip_rank", "mrr", None),
        ("AP", "map", None),
        ("map_cut_100", "map", 100),
        ("Success@1", "hit_rate", 1),
        ("Rprec", "r_precision", None),
        ("ERR@20", "err", 20),
        ("nDCG(dcg='exp-log2')@10", "ndcg_exp", 10),
        ("num_rel_ret", "tp", None),
        ("R_cap@5", "recall_cap", 5),
        ("set_recall", "recall", None),
        ("P(rel=1)@5", "precision", 5),
        ("set_P", "set_p", None),
        ("set_F", "group_f1", None),
        ("11pt_avg", "eleven_pt_avg", None),
        ("Rndcg", "rndcg", None),
        ("iprec_at_recall_0.00", "iprec", None),
    ],
)
def test_three_vocabularies(name: str, measure: str, cutoff: int | None) -> None:
    assert parse_metric(name) == Metric(measure, cutoff)


def test_canonical_name_is_parsed_to_itself() -> None:
    for measure in MEASURES:
        for metric in (Metric(measure, None), Metric(measure, 10)):
            assert parse_metric(str(metric)) == metric
            assert parse_metric(metric.column) == metric._replace(cutoff=None)
    assert str(Metric("ndcg", 10)) == "ndcg@10"
    assert str(Metric("ndcg", None)) == "ndcg"
    names = ["f_beta", "F_beta(beta=2.0)", "f_beta(beta=3.0)", "fbeta(beta=.5)"]
    columns = ["f_beta(beta=2)", "f_beta(beta=2)", "f_beta(beta=3)", "f_beta(beta=0.5)"]
    assert [parse_metric(name).column for name in names] == columns


def test_each_name_of_trec_eval_is_a_metric_or_has_its_reason() -> None:
    assert str(parse_metric("iprec_at_recall_0.10")) == "iprec(recall=0.1)"
    names = {*pytrec_eval.supported_measures, *pytrec_eval.supported_nicknames}
    assert len(names & NO_METRICS.keys()) >= 15
    for name in names - NO_METRICS.keys():
        parse_metric(name)
    for name, reason in NO_METRICS.items():
        with pytest.raises(UsageError) as caught:
            parse_metric(name)
        assert str(caught.value) == f"metric '{name}' of trec_eval is {reason}"


@pytest.mark.parametrize(
    ("name", "column", "canonical"),
    [
        ("P(rel=2)@5", "precision(rel=2)", "precision(rel=2)@5"),
        ("RBP", "rbp(p=0.8)", "rbp(p=0.8)"),
        ("rbp( rel = 2 , p=.50 )_7", "rbp(p=0.5,rel=2)", "rbp(p=0.5,rel=2)@7"),
        ("ERR@20", "err(gmax=4)", "err(gmax=4)@20"),
        ("Bpref(rel=3)", "bpref(rel=3)", "bpref(rel=3)"),
        ("rbp(p=0.00000001)", "rbp(p=1e-08)", "rbp(p=1e-08)"),
    ],
)
def test_parameters(name: str, column: str, canonical: str) -> None:
    metric = parse_metric(name)
    assert (metric.column, str(metric)) == (column, canonical)
    assert parse_metric(canonical) == metric


MALFORMED = ("", "@10", "10", "ndcg@", "ndcg@-1", "ndcg@1.5", "ndcg@x", "ndcg@@3", "ndcg@\u0663")
OUT_OF_RANGE = ("ndcg@0", "P_0", "recall@00", "map@2147483648", f"mrr@{10**30}")
REFUSED = {
    **dict.fromkeys(MALFORMED, "unknown metric '{name}'"),
    "ndgc": "unknown metric '{name}' (did you mean 'ndcg'?); allowed: " + ", ".join(MEASURES),
    "recal@5": "unknown metric '{name}' (did you mean 'recall'?)",
    "precison": "unknown metric '{name}' (did you mean 'precision'?)",
    **dict.fromkeys(OUT_OF_RANGE, "metric '{name}': the cut-off must be at least 1 and"),
    "P(rel=0)@5": "metric '{name}': rel should be greater than or equal to 1",
    "RBP(p=1)": "metric '{name}': p should be less than 1",
    "f_beta(beta=0)": "metric '{name}': beta should be greater than 0",
    "err(gmax=1001)": "metric '{name}': gmax should be less than or equal to 1000",
    "RBP(q=0.5)": "metric '{name}': rbp has no parameter 'q'; allowed: p, rel",
    "nDCG(dcg=raw)": "metric '{name}': dcg must be log2 or exp-log2",
    "P(rel=2,rel=2)@5": "metric '{name}': parameters are written (name=value), each once",
    "utility_1,-1,0,0": "metric '{name}' of trec_eval is " + NO_METRICS["utility"],
    "relstring.20": "metric '{name}' of trec_eval is " + NO_METRICS["relstring"],
    "num_ret@10": "metric '{name}' of trec_eval is " + NO_METRICS["num_ret"],
    "prefs_simp_ret": "metric '{name}' of trec_eval is " + NO_METRICS["prefs"],
}


@pytest.mark.parametrize(("name", "problem"), REFUSED.items())
def test_a_name_that_is_refused(name: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_metric(name)
    assert str(caught.value).startswith(problem.replace("{name}", name))
    assert caught.value.exit_code == 2


def test_columns_in_canonical_order() -> None:
    names = ["map", "query_id", "precision(rel=2)", "judged", "precision", "top_k", "mrr"]
    names += ["rbp(p=0.8)"]
    expected = ["mrr", "precision", "precision(rel=2)", "map", "rbp(p=0.8)"]
    assert metric_columns(names) == expected


def test_a_list_is_split_at_commas_outside_brackets() -> None:
    names = split_metrics("ndcg@10, rbp(p=0.9,rel=2)@5,,P_5 ")
    assert names == ["ndcg@10", "rbp(p=0.9,rel=2)@5", "P_5"]


@pytest.fixture(scope="class")
def values_are_computed_once() -> Iterator[None]:
    """Keep the values of a metric for the drawn queries, with which five tests compare others."""
    compute, drawn_values = metrics.values_of, dict[str, dict[str, float | None]]()
    drawn = repr(metrics.drawn())

    def values_of(name: str, *given: Any) -> dict[str, float | None]:
        if repr(given) != drawn:  # their order counts too
            return compute(name, *given)
        if name not in drawn_values:
            drawn_values[name] = compute(name, *given)
        return drawn_values[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "values_of", values_of)
        yield


@pytest.mark.usefixtures("values_are_computed_once")
class TestEveryMetric(MetricContract):
    @pytest.fixture(params=[*(m for m in RANKING_MEASURES if m != "tn"), "rbp(p=0.5,rel=2)"])
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)
