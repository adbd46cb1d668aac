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
