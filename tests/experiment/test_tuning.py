"""``weights: tuned`` and ``tune`` in an experiment.yaml."""

from __future__ import annotations

import pytest

from rag_assets.retrieval.derived import FusedRetriever
from tests.experiment.conftest import Load, Problem

BASE = "  x: {type: bm25}\n  y: {type: bm25, k1: 2}\n  z: {type: bm25, b: 0}\n"
SPLIT = "split: {dev: 0.5}\n"


def fused(keys: str, *, split: str = SPLIT) -> str:
    return f"top_k: [3, 10]\n{split}retrievers:\n{BASE}  h: {{type: rrf, inputs: [x, y], {keys}}}\n"


@pytest.mark.parametrize(
    ("keys", "metric", "grid"),
    [
        ("weights: tuned", "ndcg@10", 11),
        ("tune: {}", "ndcg@10", 11),
        ("weights: tuned, tune: {grid: 5}", "ndcg@10", 5),
        ("tune: {metric: RR@3}", "mrr@3", 11),
    ],
)
def test_all_ways_to_ask(load: Load, keys: str, metric: str, grid: int) -> None:
    experiment = load(fused(keys))
    tune = experiment.tune("h")
    assert (str(experiment.tuning_metric("h")), tune and tune.grid) == (metric, grid)
    assert experiment.tune("x") is None
    config = experiment.retrievers["h"]
    assert isinstance(config, FusedRetriever)
    assert config.weights is None
    assert config.weighted((0.2, 0.8)).described()["weights"] == [0.2, 0.8]
    assert "tune" not in config.described()


@pytest.mark.parametrize("kind", ["rrf", "convex", "comb_sum", "comb_mnz", "borda", "isr"])
def test_every_fusion_can_be_tuned(load: Load, kind: str) -> None:
    experiment = load(fused("weights: tuned").replace("type: rrf", f"type: {kind}"))
    assert experiment.tuned == {"h"}


def test_what_reranks_a_tuned_fusion_is_tuned_too(load: Load) -> None:
    more = "  m: {type: mmr, input: h}\n  n: {type: mmr, input: x}\n"
    assert load(fused("weights: tuned") + more).tuned == {"h", "m"}
    assert load(fused("weights: [1, 2]") + more).tuned == set()


def test_the_inputs_are_ranked_as_deep_as_tuning_reads(load: Load) -> None:
    assert load(fused("candidates: top_k, tune: {metric: ndcg@3}")).tuning_depth("h") == 3
    experiment = load(fused("candidates: 70, tune: {metric: ndcg@3}"))
    assert experiment.tuning_depth("h") == 70
    tuned = load(fused("candidates: top_k, weights: tuned"))
    assert tuned.candidate_depths("x", 3) == {3, 10}


WRONG = {
    "no split": (
        fused("weights: tuned", split=""),
        ":6: `retrievers.h.weights`: tuned weights are chosen on dev and reported on test; add the "
        "key `split`, such as split: {dev: 0.5, seed: 0}",
    ),
    "another word": (
        fused("weights: tunned"),
        ":7: `retrievers.h.weights`: must be a list of numbers or the word tuned; found 'tunned'",
    ),
    "both": (
        fused("weights: [1, 2], tune: {grid: 3}"),
        ":7: `retrievers.h.tune`: give weights or tune, not both",
    ),
    "a metric without its cut-off": (
        fused("tune: {metric: ndcg}"),
        ":7: `retrievers.h.tune.metric`: 'ndcg' needs a cut-off of the experiment; allowed: @ 3, "
        "10",
    ),
    "a metric of texts": (
        fused("tune: {metric: answer_hit@3}"),
        ":7: `retrievers.h.tune.metric`: answer_hit is not a measure of a ranking and its labels",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line(problem: Problem, text: str, expected: str) -> None:
    assert problem(text) == expected


def test_an_unknown_metric(problem: Problem) -> None:
    assert problem(fused("tune: {metric: ndgc@3}")).startswith(
        ":7: `retrievers.h.tune.metric`: unknown metric 'ndgc@3' (did you mean 'ndcg'?)"
    )
