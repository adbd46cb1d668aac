"""Which judge gave the verdicts of an evaluation: a hash of options, prompt, model and files."""

from __future__ import annotations

from pathlib import Path

from rag_assets.judges.verdicts_stage import judge_fingerprint
from rag_assets.pipeline.evaluations import Evaluation, manifest_of

DIGITS = 12
"""So many are kept: enough to tell judges apart."""


def recorded_judge(
    root: Path, evaluation: Evaluation, judge: str, asset: str = "answer_verdicts"
) -> str | None:
    """Return the fingerprint of a judge; None: the evaluation has no verdicts of it.

    What it judged is no part of it, nor is the parser of its replies.

    Args:
        root: the experiment's folder in the store.
        evaluation: whose judge.
        judge: its name.
        asset: its verdicts: on answers, or on passages.
    """
    for entry in evaluation.entries_of(asset):
        if entry.partition["judge"] == judge:
            manifest = manifest_of(root, evaluation, entry)
            if manifest is not None:
                return judge_fingerprint(manifest)[:DIGITS]
    return None
