"""Check of verdicts: that ``judge check`` tried their judge, and it passed."""

from __future__ import annotations

from rag_assets.judges.verdicts_stage import judge_fingerprint
from rag_assets.pipeline.checks.check import WARNING, Check, Found, Reads
from rag_assets.pipeline.judge_check import stored_check
from rag_assets.store.artifacts import Artifact, ArtifactKey


def _proven(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    check = stored_check(reads.pipeline.root, key["judge"])
    own = judge_fingerprint(artifact.manifest)
    kinds = [kind for kind in check["kinds"] if kind["fingerprint"] == own] if check else []
    if not kinds:
        reason = "the judge was not tried as it is now; `rag-assets judge check` does it"
        return Found([], not_checked=reason)
    problems = [f"it fails: {name}" for kind in kinds for name in kind["failed"]]
    n_tried = sum(kind["tried"] for kind in kinds)
    numbers = (
        {"mutation_score": sum(kind["noticed"] for kind in kinds) / n_tried} if n_tried else {}
    )
    return Found(problems, WARNING, numbers)


PROVEN = (
    Check("judge_is_proven", "`rag-assets judge check` tried the judge, and it passed.", _proven),
)
