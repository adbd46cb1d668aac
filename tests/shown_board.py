"""An experiment brought up to date without Dagster, and what a terminal shows of it."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console

from rag_assets.analysis.leaderboard import leaderboard_sheets, selected_rows
from rag_assets.analysis.result import EvaluationResult
from rag_assets.pipeline.evaluation_record import record
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.sheets.terminal_table import sheets_view
from tests.tiny_experiment import materialize


def evaluated(pipeline: Pipeline) -> EvaluationResult:
    materialize(pipeline)
    evaluation = record(pipeline, started=datetime.now(UTC), trigger="test", computed=0)
    return EvaluationResult(pipeline.root, evaluation)


def shown(result: EvaluationResult, split: str | None = None) -> list[str]:
    selection = Selection(tuple(result.run_retrievers), (1,))
    result = EvaluationResult(result.root, result.evaluation, split)
    rows = selected_rows(result, selection)
    console = Console(width=80)
    with console.capture() as capture:
        console.print(sheets_view(leaderboard_sheets(result, rows)))
    return [line.rstrip() for line in capture.get().splitlines()]
