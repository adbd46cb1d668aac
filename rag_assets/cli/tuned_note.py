"""The warning that a table shows what was tuned on the very queries that it is about."""

from __future__ import annotations

from collections.abc import Collection

from rag_assets.cli.terminal import messages
from rag_assets.report.result import EvaluationResult


def print_tuned_note(result: EvaluationResult, retrievers: Collection[str], split: str) -> None:
    """Say on stderr which of these retrievers were tuned on the split; nothing when none was."""
    tuned = [name for name in result.tuned_on(split) if name in retrievers]
    if tuned:
        text = f"parameters of {', '.join(tuned)} were chosen on {split}, which flatters them there"
        messages().print(f"note: {text}; see `--split test`")
