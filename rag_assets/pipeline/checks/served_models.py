"""Check of what language models wrote: that one model answered under the name asked for."""

from __future__ import annotations

from itertools import pairwise

from rag_assets.pipeline.checks.check import WARNING, Check, Found, Reads
from rag_assets.query_sets.stage import SERVED_MODELS
from rag_assets.store.artifacts import Artifact, ArtifactKey


def _one_model(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found | None:
    names = artifact.manifest.facts.get(SERVED_MODELS, [])
    if not names:
        return None  # a local model, or a server that gives no name
    problems = [
        f"The server answered by the model {after}, and before by {before}: name the one that is "
        "meant, with its version, as `model`"
        for before, after in pairwise(names)
    ]
    return Found(problems, WARNING)


SERVED = (Check("one_model_answered", "One model answered under the name asked for.", _one_model),)
