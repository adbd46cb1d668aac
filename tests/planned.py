"""What a plan says of an experiment, by the short names of its partitions."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.pipeline.plan import ACTIONS, CHECK, COMPUTE, Plan, plan
from rag_assets.pipeline.selection import Selection
from tests.tiny_experiment import Tiny, short


def planned(tiny: Tiny, retrievers: Sequence[str] = (), top_k: Sequence[int] = ()) -> Plan:
    pipeline = tiny.pipeline()
    return plan(pipeline, Selection.of(pipeline.experiment, retrievers, top_k))


def by_action(found: Plan) -> dict[str, set[str]]:
    """Return action -> partitions, such as ``metrics/bm25/5``."""
    actions: dict[str, set[str]] = {action: set() for action in ACTIONS}
    for step in found.steps:
        actions[step.action].add(short(step.key))
    return actions


def is_done(found: Plan, computed: set[str]) -> bool:
    """Whether all that is to be computed was, and nothing that is to be reused."""
    actions = by_action(found)
    return actions[COMPUTE] <= computed <= actions[COMPUTE] | actions[CHECK]
