"""Which retrieval configuration is best on your questions, kept up to date as Dagster assets."""

from __future__ import annotations

from importlib import import_module

from rag_assets.api import compare, evaluate, history, leaderboard, load_experiment, score

__version__ = "0.1.0"

__all__ = [
    "RetrievalExperiment",
    "compare",
    "evaluate",
    "history",
    "leaderboard",
    "load_experiment",
    "score",
]


def __getattr__(name: str) -> object:
    """Import what needs Dagster when it is asked for: the component."""
    if name == "RetrievalExperiment":
        return import_module("rag_assets.component").RetrievalExperiment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the component too: `dg` finds it so."""
    return sorted({*globals(), *__all__})
