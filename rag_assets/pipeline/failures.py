"""Queries on which a retriever failed, as the manifests of its runs tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rag_assets.store.artifacts import Manifest

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


def failures_of(manifest: Manifest) -> Mapping[str, str]:
    """Return query id -> reason, of a run; empty when all queries were answered."""
    failures: Mapping[str, str] = getattr(manifest, "failures", {})
    return failures


def has_failures(pipeline: Pipeline) -> bool:
    """Return whether the retriever of any up-to-date run failed on a query."""
    for stage in pipeline.stages():
        if stage.group == "runs":
            for key in stage.keys(pipeline.experiment):
                artifact = pipeline.current(key)
                if artifact is not None and failures_of(artifact.manifest):
                    return True
    return False
