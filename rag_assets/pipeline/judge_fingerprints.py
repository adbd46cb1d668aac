"""Which judge gave the verdicts of an evaluation: a hash of options, prompt, model and files."""

from __future__ import annotations

from pathlib import Path

from rag_assets.pipeline.evaluations import Evaluation, manifest_of
from rag_assets.store.canonical import fingerprint

DIGITS = 12


def judge_fingerprint(root: Path, evaluation: Evaluation, judge: str) -> str | None:
    """Return the fingerprint of a judge of answers; None: the evaluation has no verdicts of it.

    What it judged is no part of it, nor is the parser of its replies.

    Args:
        root: the experiment's folder in the store.
        evaluation: whose judge.
        judge: its name.
    """
    for entry in evaluation.entries_of("answer_verdicts"):
        if entry.partition["judge"] == judge:
            manifest = manifest_of(root, evaluation, entry)
            if manifest is not None:
                config = {name: one for name, one in manifest.config.items() if name != "failed"}
                return fingerprint([config, dict(manifest.versions)])[:DIGITS]
    return None
