"""Which retrieval configuration is best on your questions, kept up to date as Dagster assets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rag_assets.api import ask, compare, evaluate, gate, history, leaderboard, score

if TYPE_CHECKING:
    from rag_assets.assets.alerts import alert_sensors
    from rag_assets.assets.experiment_definitions import build_defs
    from rag_assets.assets.resources import RagAssets, parquet_io_manager
    from rag_assets.evaluation.online_metrics import team_draft
    from rag_assets.evaluation.score import metrics
    from rag_assets.experiment import load_experiment

__version__ = "0.1.0"

__all__ = [
    "RagAssets",
    "RetrievalExperiment",
    "alert_sensors",
    "ask",
    "build_defs",
    "compare",
    "evaluate",
    "gate",
    "history",
    "leaderboard",
    "load_experiment",
    "metrics",
    "parquet_io_manager",
    "score",
    "team_draft",
]

_LATER = {
    "RagAssets": "assets.resources",
    "RetrievalExperiment": "component",
    "alert_sensors": "assets.alerts",
    "build_defs": "assets.experiment_definitions",
    "load_experiment": "experiment",
    "metrics": "evaluation.score",
    "parquet_io_manager": "assets.resources",
    "team_draft": "evaluation.online_metrics",
}
"""Name -> the module that it is imported from when it is asked for: they need heavy libraries."""


def __getattr__(name: str) -> object:
    """Import what needs Dagster or other libraries when it is asked for."""
    if name in _LATER:
        return getattr(import_module(f"rag_assets.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what is offered, and what is not imported yet: `dg` finds the component so."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
