"""Whether scores of a retriever at two moments are of one scale: configured alike, same model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.query_sets import PromptedQuerySet
from rag_assets.pipeline.checks.states import State
from rag_assets.pipeline.failed_queries import read_by
from rag_assets.pipeline.reasons import changes
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.retrieval.runs_stage import run_key

WEIGHTS = "weights_sha256"


def query_sets_of(experiment: Experiment, retriever: str) -> list[str]:
    """Return the query sets that a retriever searches for, itself or through others, sorted."""
    names = read_by(experiment, retriever)
    base = [name for name in names if isinstance(experiment.retrievers[name], BaseRetriever)]
    return sorted({experiment.query_set_of(name) for name in base})


def difference(
    experiment: Experiment, retriever: str, top_k: int, old: State, new: State
) -> str | None:
    """Return what makes the scores of a cell another quantity; None: they can be compared.

    The contents of files (documents, queries, variants, vectors) may differ: that is what drifts.

    Args:
        experiment: the experiment as it is now.
        retriever: whose scores are compared.
        top_k: of the cell.
        old: one moment.
        new: the later one.
    """
    if not old.configuration:
        return "the anchor does not say how it was configured"
    was, now = (_configured(experiment, retriever, state.configuration) for state in (old, new))
    found = [change.text.removeprefix("retrievers.") for change in changes(was, now)]
    if not found and _weights(experiment, retriever, top_k, old) != _weights(
        experiment, retriever, top_k, new
    ):
        found = ["other weights of a model"]
    return f"configured otherwise than in the anchor: {', '.join(found)}" if found else None


def _configured(
    experiment: Experiment, retriever: str, configuration: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the part of a configuration on which the scores of a retriever depend."""
    query_sets = query_sets_of(experiment, retriever)
    wanted = {
        "retrievers": read_by(experiment, retriever),
        "chunking": experiment.chunkings_of(retriever),
        "query_sets": query_sets,
    }
    found: dict[str, Any] = {"judge": configuration.get("judge")}
    for part, names in wanted.items():
        block = configuration.get(part, {})
        found[part] = {name: block[name] for name in names if name in block}
    # What a search holds by now is what drifts.
    found["retrievers"] = {
        name: {key: value for key, value in options.items() if key != "revision"}
        for name, options in found["retrievers"].items()
    }
    if any(isinstance(experiment.query_sets.get(name), PromptedQuerySet) for name in query_sets):
        found["llm"] = configuration.get("llm")
    return found


def _weights(experiment: Experiment, retriever: str, top_k: int, state: State) -> list[object]:
    return list(_weights_of(experiment, retriever, top_k, state))


def _weights_of(
    experiment: Experiment, retriever: str, top_k: int, state: State
) -> Iterator[object]:
    for name in read_by(experiment, retriever):
        keys = [run_key(experiment, name, top_k)]
        if isinstance(experiment.retrievers[name], BaseRetriever):
            keys.append(index_key(experiment.family(name), name))
        for key in keys:
            artifact = state.artifact(key)
            yield artifact.manifest.config.get(WEIGHTS) if artifact is not None else None
