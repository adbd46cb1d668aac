"""An experiment at one moment, for checks that compare: what is up to date, or an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rag_assets.errors import StoreError
from rag_assets.pipeline.evaluation_names import anchor_id
from rag_assets.pipeline.evaluations import FOLDER, Evaluation, read_evaluation
from rag_assets.pipeline.origin import configuration_of
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.store.artifacts import Artifact, ArtifactKey

NO_ANCHOR = "there is no anchor; `rag-assets anchor PATH` pins an evaluation"


@dataclass(frozen=True)
class State:
    """One moment.

    Attributes:
        configuration: as :func:`rag_assets.pipeline.origin.configuration_of` gives it.
        artifact: gives the artifact of a partition; None: there is none that can be read.
    """

    configuration: Mapping[str, Any]
    artifact: Callable[[ArtifactKey], Artifact | None]


def of_pipeline(pipeline: Pipeline) -> State:
    """Return what is up to date now."""
    return State(configuration_of(pipeline.experiment), pipeline.current)


def of_evaluation(pipeline: Pipeline, evaluation: Evaluation) -> State:
    """Return what an evaluation of the same experiment names."""
    paths = {entry.key: pipeline.settings.store / entry.path for entry in evaluation.entries}

    def artifact(key: ArtifactKey) -> Artifact | None:
        return pipeline.store.read(paths[key]) if key in paths else None

    return State(evaluation.origin.configuration, artifact)


def anchor_of(pipeline: Pipeline) -> State | str:
    """Return the pinned evaluation; or why there is none to compare with, as a phrase."""
    root = pipeline.root
    try:
        pinned = anchor_id(root)
        if pinned is None:
            return NO_ANCHOR
        return of_evaluation(pipeline, read_evaluation(root / FOLDER / f"{pinned}.json"))
    except StoreError as error:
        return f"the anchor cannot be read: {error}"
