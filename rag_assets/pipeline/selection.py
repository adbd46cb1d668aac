"""Which cells an evaluation is about: all, or some retrievers and cut-offs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_assets.errors import UsageError, allowed_names
from rag_assets.experiment.experiment import Experiment


def check_cell_names(experiment: Experiment, names: Sequence[str]) -> None:
    """Refuse names that are neither a retriever nor an answerer at its cut-off, as ``plain@5``.

    Raises:
        UsageError: the experiment has no such name.
    """
    for name in names:
        if "@" not in name:
            _check_retriever(experiment, name)
        elif name not in experiment.answer_cells:
            raise UsageError(f"unknown answerer {allowed_names(name, experiment.answer_cells)}")


def _check_retriever(experiment: Experiment, name: str) -> None:
    if name not in experiment.retrievers:
        raise UsageError(f"unknown retriever {allowed_names(name, experiment.retrievers)}")


@dataclass(frozen=True)
class Selection:
    """Retrievers and cut-offs, both in the order of the experiment."""

    retrievers: tuple[str, ...]
    top_k: tuple[int, ...]

    @classmethod
    def of(
        cls, experiment: Experiment, retrievers: Sequence[str] = (), top_k: Sequence[int] = ()
    ) -> Selection:
        """Narrow an experiment; nothing given means all.

        Raises:
            UsageError: a name or a cut-off is not the experiment's.
        """
        for name in retrievers:
            _check_retriever(experiment, name)
        for k in top_k:
            if k not in experiment.top_k:
                allowed = ", ".join(map(str, experiment.top_k))
                raise UsageError(
                    f"top_k {k} is not in {experiment.name}; allowed: {allowed} "
                    f"(others: list them under `top_k` in experiment.yaml)"
                )
        return cls(
            tuple(r for r in experiment.retrievers if not retrievers or r in retrievers),
            tuple(k for k in experiment.top_k if not top_k or k in top_k),
        )


_COSTS = {"lexical": 0, "embedding": 1, "external": 1}
"""Family -> about how dear; what reads others is as dear as the dearest of these, and more."""


def cost(experiment: Experiment, retriever: str) -> int:
    """Return 0 for what needs no model and no server; the dearer, the greater."""
    family = experiment.retrievers[retriever].family
    if family in _COSTS:
        return _COSTS[family]
    below = max(cost(experiment, name) for name in experiment.retrievers[retriever].input_names)
    return below + (1 if family == "fused" else 3)
