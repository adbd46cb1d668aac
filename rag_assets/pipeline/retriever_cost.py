"""Which retrievers come first: those that are cheap, so that something is seen soon."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rag_assets.experiment.experiment import Experiment

_COSTS = {"lexical": 0, "imported": 0, "embedding": 1, "external": 1}
"""Family -> about how dear; what reads others is as dear as the dearest of these, and more."""


def cost(experiment: Experiment, retriever: str) -> int:
    """Return 0 for what needs no model and no server; the dearer, the greater."""
    family = experiment.retrievers[retriever].family
    if family in _COSTS:
        return _COSTS[family]
    below = max(cost(experiment, name) for name in experiment.retrievers[retriever].input_names)
    return below + (1 if family == "fused" else 3)


def by_cost(experiment: Experiment, retrievers: Iterable[str]) -> list[str]:
    """Return retrievers with the cheapest first, equals in their order."""
    return sorted(retrievers, key=lambda name: cost(experiment, name))


def groups_by_cost(experiment: Experiment, retrievers: Iterable[str]) -> list[list[str]]:
    """Return retrievers in groups of about the same cost, the cheapest first."""
    ordered = by_cost(experiment, retrievers)
    return [list(group) for _, group in groupby(ordered, lambda name: cost(experiment, name))]
