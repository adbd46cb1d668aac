"""Checks that the model of a judge, or of the questions, had no part in what it judges."""

from __future__ import annotations

from rag_assets.judges.llm import LlmJudge
from rag_assets.pipeline.checks.check import WARNING, Check, Found, Reads
from rag_assets.pipeline.circular_models import circular_uses, question_circles
from rag_assets.store.artifacts import Artifact, ArtifactKey


def _independent(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found | None:
    experiment = reads.pipeline.experiment
    if not isinstance(experiment.judges[key["judge"]], LlmJudge):
        return None  # there is no model, or nobody knows which
    return Found(circular_uses(experiment, key, reads.queries))


def _unbiased(reads: Reads, key: ArtifactKey, artifact: Artifact) -> Found:
    return Found(question_circles(reads.pipeline.experiment), WARNING)


QUESTIONS_UNBIASED = (
    Check(
        "questions_are_independent",
        "No retriever uses the model that wrote the questions.",
        _unbiased,
    ),
)

INDEPENDENT = (
    Check(
        "judge_is_independent",
        "The judge's model did not rerank, rewrite, answer, or write questions.",
        _independent,
    ),
)
