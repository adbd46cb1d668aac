"""The HTML report of an evaluation: one self-contained page, no network."""

from __future__ import annotations

from pathlib import Path

from rag_assets.report.page.identity import identity, is_at
from rag_assets.report.result import EvaluationResult
from rag_assets.store.atomic import write_text

REPORT_FILE = "report.html"


def write_report(result: EvaluationResult, path: Path | None = None) -> Path:
    """Write the report and return its path; one that is there and says the same is left alone.

    Args:
        result: the evaluation.
        path: the file to write; beside the experiment's artifacts when absent.

    Raises:
        StoreError: the file cannot be written.
    """
    file = path or result.root / REPORT_FILE
    wanted = identity(result)
    if not is_at(file, wanted):
        write_text(file, _page(result, wanted))
    return file


def render(result: EvaluationResult) -> str:
    """Return the page; all text from data is escaped."""
    return _page(result, identity(result))


def _page(result: EvaluationResult, wanted: str) -> str:
    # Most evaluations change nothing and need none of what builds a page.
    from rag_assets.report.page.page import page

    return page(result, wanted)
