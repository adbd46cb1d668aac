"""Which retrievers of an experiment failed on queries, over all their up-to-date runs."""

from __future__ import annotations

from collections.abc import Iterable

from rag_assets.engine.attempts import UNANSWERED
from rag_assets.engine.failures import failures_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES


def failed_queries(pipeline: Pipeline) -> dict[str, set[str]]:
    """Return retriever -> the queries on which it failed, by its up-to-date runs; only if some."""
    found: dict[str, set[str]] = {}
    for stage in pipeline.stages():
        if stage.group == "runs":
            for key in stage.keys(pipeline.experiment):
                artifact = pipeline.current(key)
                if artifact is not None and failures_of(artifact.manifest):
                    found.setdefault(key["retriever"], set()).update(failures_of(artifact.manifest))
    return found


def failed_answers(pipeline: Pipeline) -> dict[str, int]:
    """Return answerer and cut-off -> how many of its answers a server did not give; only if some.

    Another evaluation may have them; what a file lacks is a finding.
    """
    found: dict[str, int] = {}
    for key in STAGES["answers"].keys(pipeline.experiment):
        artifact = pipeline.current(key)
        if artifact is not None and artifact.manifest.facts.get(UNANSWERED):
            found[key["answerer"]] = artifact.manifest.facts[UNANSWERED]
    return found


def unfinished(pipeline: Pipeline, retrievers: Iterable[str]) -> dict[str, set[str]]:
    """Return retriever -> the queries on which it failed in this evaluation.

    Those that an imported run names as failed are a finding, which no other evaluation changes.
    """
    failed, experiment = failed_queries(pipeline), pipeline.experiment
    found: dict[str, set[str]] = {}
    for name in retrievers:
        imported = [
            one for one in read_by(experiment, name) if experiment.family(one) == "imported"
        ]
        own = failed.get(name, set()) - set().union(*(failed.get(one, set()) for one in imported))
        if own:
            found[name] = own
    return found


def read_by(experiment: Experiment, retriever: str) -> list[str]:
    """Return a retriever, and all that it fuses or reranks."""
    inputs = experiment.inputs(retriever)
    return [retriever, *(name for one in inputs for name in read_by(experiment, one))]
