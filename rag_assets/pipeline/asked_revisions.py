"""Asks searches for their revisions: once, when an evaluation begins, and by nobody else."""

from __future__ import annotations

from collections.abc import Iterable

from rag_assets.pipeline.failed_queries import read_by
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.external.base import ExternalRetriever, Tools


def ask_revisions(pipeline: Pipeline, retrievers: Iterable[str]) -> None:
    """Keep the revisions that the searches behind some retrievers have now.

    Raises:
        RagAssetsError: one of them cannot be asked.
    """
    experiment = pipeline.experiment
    names = {base for name in retrievers for base in read_by(experiment, name)}
    for name in sorted(names):
        config = experiment.retrievers[name]
        if isinstance(config, ExternalRetriever) and config.asks_revision:
            with Tools(pipeline.workspace(name)) as tools:
                revision = config.current_revision(tools)
            pipeline.revisions.keep(config.ranking_config(), revision)
            pipeline.forget()
