"""Which judge gave the verdicts of an evaluation: a hash of options, prompt, model and files."""

from __future__ import annotations

from pathlib import Path

from rag_assets.judges.verdicts_stage import answer_verdicts_key, judge_fingerprint
from rag_assets.pipeline.evaluations import Evaluation, manifest_of

DIGITS = 12
"""So many are kept: enough to tell judges apart."""


def recorded_judge(root: Path, evaluation: Evaluation, judge: str) -> str | None:
    """Return the fingerprint of a judge of answers; None: the evaluation has no verdicts of it.

    What it judged is no part of it, nor is the parser of its replies.

    Args:
        root: the experiment's folder in the store.
        evaluation: whose judge.
        judge: its name.
    """
    key = answer_verdicts_key(judge)
    for entry in evaluation.entries_of(key.asset):
        if entry.key == key:
            manifest = manifest_of(root, evaluation, entry)
            if manifest is not None:
                return judge_fingerprint(manifest)[:DIGITS]
    return None
