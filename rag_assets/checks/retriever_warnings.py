"""Warnings about retrievers before they run: too narrow searches, missing prompts."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rag_assets.errors import ModelUnavailable
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.base import EmbeddingRetriever, Retriever
from rag_assets.retrieval.external.base import ExternalRetriever
from rag_assets.retrieval.workspace import retriever_prompts


def narrow_search_warnings(experiment: Experiment) -> list[str]:
    """Return a line for each search that looks at fewer chunks than are read of it."""
    lines = []
    for name, config in experiment.retrievers.items():
        bound = _most_results(config)
        read = experiment.depth(name)
        if bound is not None and bound[1] < read:
            lines.append(
                f"{name}: {bound[0]} {bound[1]} is below {read}, the largest top_k "
                f"or candidates that uses it; no query gets more than {bound[1]} results"
            )
    return lines


def _most_results(config: Retriever) -> tuple[str, int] | None:
    if isinstance(config, ExternalRetriever):
        return None if config.k is None else ("k", config.k)
    return config.most_results() if isinstance(config, EmbeddingRetriever) else None


def prompt_warnings(experiment: Experiment) -> list[str]:
    """Return a line for each retriever whose model runs without a prompt that it was trained with.

    A model that is not there is no matter of this function: the evaluation itself will say so.
    """
    lines = []
    for name, config in experiment.retrievers.items():
        with suppress(ModelUnavailable):
            if (warning := _prompt_warning(config)) is not None:
                lines.append(f"retriever '{name}': {warning}")
    return lines


def _prompt_warning(config: Retriever) -> str | None:
    embedding: Any = getattr(config, "embedding", None)
    prompts = retriever_prompts(embedding)
    if prompts is not None:  # of a search that is not ours, which has the documents' vectors
        warning = prompts.warning(embedding.model, ("query",))
        return f"embedding: {warning}" if warning else None
    served = isinstance(config, EmbeddingRetriever) and config.asks_server
    prompts = retriever_prompts(config, served=served)
    return prompts.warning(str(getattr(config, "model", ""))) if prompts is not None else None
