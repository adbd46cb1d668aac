"""Queries on which a retriever failed, as the manifest of a run tells."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.store.artifacts import Manifest


def failures_of(manifest: Manifest) -> Mapping[str, str]:
    """Return query id -> reason, of a run; empty when all queries were answered."""
    failures: Mapping[str, str] = getattr(manifest, "failures", {})
    return failures
