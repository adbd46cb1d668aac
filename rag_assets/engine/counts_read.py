"""Which counted words a lexical retriever reads: asked by stages, and by what only shows."""

from __future__ import annotations

from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.base import LexicalRetriever
from rag_assets.store.artifacts import ArtifactKey


def counts_read(experiment: Experiment, retriever: str) -> ArtifactKey | None:
    """Return the analysed texts that a retriever's index is made of; None: it has none."""
    config = experiment.retrievers[retriever]
    analysis = config.analysis() if isinstance(config, LexicalRetriever) else None
    if analysis is None:
        return None
    chunking = experiment.chunking_of(retriever)
    return ArtifactKey.of("term_counts", analysis=f"{chunking}:{analysis.label}")
