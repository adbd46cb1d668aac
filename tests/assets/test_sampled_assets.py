"""A sample of labels in Dagster: exact edges, fresh after an evaluation, estimates as metadata."""

from __future__ import annotations

from rag_assets.labels.experiment_pool import sampled_pool
from rag_assets.labels.logs import LoggedJudgment, append_lines
from rag_assets.labels.sampling.design import Design
from rag_assets.labels.sampling.sample_stage import SAMPLED_ESTIMATES_KEY
from tests.assets.exact_edges import check_edges
from tests.dagster_state import evaluate_now, latest, not_fresh
from tests.labels.sampling.made_pool import drawn_line
from tests.tiny_experiment import Tiny

SAMPLED = ("sampled_passages", "sampled_labels", "sampled_estimates")


def test_edges_freshness_and_metadata(fresh: Tiny) -> None:
    fresh.run()
    sampled = sampled_pool(fresh.pipeline(), 5)
    append_lines(sampled.log, lines(sampled.design, 0, 9))
    assert check_edges(fresh, SAMPLED) > 5
    evaluate_now(fresh)
    assert not_fresh(fresh) == {}
    assert evaluate_now(fresh).computed == 0
    assert latest(fresh, SAMPLED_ESTIMATES_KEY).metadata["labels"].value != 0
    append_lines(sampled.log, lines(sampled.design, 9, 12))
    assert fresh.run() == {"sampled_labels", "sampled_estimates"}


def lines(design: Design, first: int, end: int) -> list[LoggedJudgment]:
    """Return judgments of some items, in the order in which they are asked."""
    items = (design.items[number] for number in design.order()[first:end])
    return [drawn_line(item, 1) for item in items]
