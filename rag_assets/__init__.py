"""Which retrieval configuration is best on your questions, kept up to date as Dagster assets."""

from __future__ import annotations

from rag_assets.api import evaluate, load_experiment, score

__version__ = "0.1.0"

__all__ = ["evaluate", "load_experiment", "score"]
