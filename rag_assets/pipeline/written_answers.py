"""What answers are like apart from being right: how long they are, and what writing them took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_assets.answers.stage import SECONDS, answer_metrics_key, answers_key
from rag_assets.engine.measurements import MEASUREMENTS, Measurements
from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.llm.client import LENGTH
from rag_assets.llm.completions import Limits
from rag_assets.pipeline.stored_evaluation import StoredEvaluation, pairs_of

WRITTEN = ("answer_length", "answer_tokens", "answer_cost", SECONDS)
"""Means over answers, which the history keeps: characters, tokens, money, seconds."""


def written(stored: StoredEvaluation, key: str, split: str) -> dict[str, Any]:
    """Return how long the answers of an answerer are, and what writing one of them took.

    ``length_of_gold`` is how many times as long answers are as the longest right one, ``n_cut`` how
    many answers end at ``max_tokens``. Refusals have no length. Money is what the code or server
    says, else tokens by the prices of the experiment; a mean is over the answers of which it is
    known, None without any. Seconds are of all answers, whatever the split.
    """
    weights, manifest = stored.weights(split), stored.manifest(answers_key(key))
    measurements = Measurements(stored.root.parent / MEASUREMENTS)
    measured = measurements.find(SECONDS, manifest.fingerprint) if manifest is not None else None
    golds = pairs_of(stored.table(QUERY_FACTS_KEY), "query_id", "answers")
    rows = [r for r in stored.table(answers_key(key)).to_pylist() if r["query_id"] in weights]
    metrics = stored.table(answer_metrics_key(key)).to_pylist()
    refused = {row["query_id"] for row in metrics if row.get("abstained")}
    said = [r for r in rows if r["answer"] and r["query_id"] not in refused]
    given = [(r["answer"], golds.get(r["query_id"])) for r in said]
    pairs = [(len(answer), max(map(len, right))) for answer, right in given if right]
    longest = sum(right for _, right in pairs)
    counts = [(r["prompt_tokens"], r["completion_tokens"]) for r in rows]
    prices = _prices(stored, key.partition("@")[0])
    costs = [row.get("cost") for row in rows]
    if prices.priced and not any(cost is not None for cost in costs):
        costs = [None if None in pair else prices.cost(*pair) for pair in counts]
    return {
        "answer_length": mean([len(answer) for answer, _ in given]),
        "length_of_gold": sum(length for length, _ in pairs) / longest if longest else None,
        "answer_tokens": mean([sum(pair) for pair in counts if None not in pair]),
        "answer_cost": mean([cost for cost in costs if cost is not None]),
        SECONDS: measured["seconds"] if measured is not None else None,
        "n_cut": sum(r["finish_reason"] == LENGTH for r in rows),
    }


def _prices(stored: StoredEvaluation, answerer: str) -> Limits:
    """Return the prices of an answerer's model, by the evaluation's configuration."""
    generator = stored.configured("answers").get(answerer, {}).get("generator")
    options: Mapping[str, Any] = stored.configured("generators").get(generator, {})
    name = options.get("llm")
    llm = stored.configured("llms").get(name) if name else stored.configured("llm")
    named = llm if llm and options.get("type") == "llm" else {}
    return Limits(**{key: named.get(key) for key in ("prompt_price", "completion_price")})
