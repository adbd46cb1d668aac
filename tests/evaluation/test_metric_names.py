from __future__ import annotations

import pytest

from rag_assets.errors import UsageError
from rag_assets.evaluation.metric_names import ALIASES, MEASURES, Metric, parse_metric


@pytest.mark.parametrize(
    ("name", "measure", "cutoff"),
    [
        ("ndcg@10", "ndcg", 10),
        ("nDCG@10", "ndcg", 10),
        ("ndcg_cut_10", "ndcg", 10),
        ("ndcg", "ndcg", None),
        ("P@5", "precision", 5),
        ("P_5", "precision", 5),
        ("precision@1", "precision", 1),
        ("R@100", "recall", 100),
        ("recall_100", "recall", 100),
        ("RR", "mrr", None),
        ("RR@10", "mrr", 10),
        ("recip_rank", "mrr", None),
        ("mrr@10", "mrr", 10),
        ("AP", "map", None),
        ("AP@100", "map", 100),
        ("map_cut_100", "map", 100),
        ("Success@1", "hit_rate", 1),
        ("success_5", "hit_rate", 5),
        ("hit_rate@3", "hit_rate", 3),
        ("hit_rate_3", "hit_rate", 3),
        ("hit@3", "hit_rate", 3),
        ("hits@3", "hit_rate", 3),
        (" map@7 ", "map", 7),
    ],
)
def test_three_vocabularies(name: str, measure: str, cutoff: int | None) -> None:
    assert parse_metric(name) == Metric(measure, cutoff)


def test_canonical_name_is_parsed_to_itself() -> None:
    for measure in MEASURES:
        for metric in (Metric(measure, None), Metric(measure, 10)):
            assert parse_metric(str(metric)) == metric
    assert str(Metric("ndcg", 10)) == "ndcg@10"
    assert str(Metric("ndcg", None)) == "ndcg"


def test_aliases_mean_measures_and_hide_none() -> None:
    assert set(ALIASES.values()) <= set(MEASURES)
    assert not set(ALIASES) & set(MEASURES)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("ndgc", "ndcg"),
        ("recal@5", "recall"),
        ("hitrate@10", "hit_rate"),
        ("precison", "precision"),
    ],
)
def test_unknown_name_says_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_metric(name)
    assert str(caught.value) == (
        f"unknown metric '{name}' (did you mean '{nearest}'?); allowed: hit_rate, mrr, ndcg, "
        "recall, precision, map, answer_hit, each with or without @k"
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "name", ["", "@10", "10", "ndcg@", "ndcg@-1", "ndcg@1.5", "ndcg@x", "ndcg@@3", "ndcg@\u0663"]
)
def test_malformed_names(name: str) -> None:
    with pytest.raises(UsageError, match="unknown metric"):
        parse_metric(name)


@pytest.mark.parametrize("name", ["ndcg@0", "P_0", "recall@00", "map@2147483648", f"mrr@{10**30}"])
def test_cutoff_out_of_range(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^metric '{name}': the cut-off must be at least 1 and"):
        parse_metric(name)


def test_largest_cutoff() -> None:
    assert parse_metric("map@2147483647").cutoff == 2147483647
