"""The HTML report of an evaluation: one self-contained page, no network.

What a page is made of is one hash in its head: a page with the same one is not written again.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from rag_assets.analysis.result import EvaluationResult
from rag_assets.package_versions import version
from rag_assets.pipeline.history import History
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint

HEAD = 2_000
"""Characters at the start of a page within which it names its identity."""

REPORT_FILE, EXPLORER_FILE = "report.html", "explorer.html"


def identity(result: EvaluationResult, *, has_explorer: bool = False) -> str:
    """Return the hash of what an evaluation says and of the code that shows it.

    When an evaluation was made, and how often it was made again with the same content, is no part
    of it; the last point of its history is.
    """
    evaluation = result.evaluation
    parts = [
        History(result.root, None).states(evaluation.evaluation_id)[-1:],
        evaluation.content,
        evaluation.source,
        evaluation.primary,
        evaluation.baseline,
        evaluation.complete,
        evaluation.remarks,
        {name: repr(value) for name, value in result.speed.items()},
        {f"{name} {k}": repr(value) for (name, k), value in result.cost_times.items()},
        has_explorer,
    ]
    return fingerprint(
        [*parts, version("rag-assets"), version("plotly") if has_explorer else "", _code()]
    )


def is_at(path: Path, page_identity: str) -> bool:
    """Return whether the page at ``path`` has that identity."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return f'content="{page_identity}"' in file.read(HEAD)
    except OSError:
        return False


@cache
def _code() -> str:
    """Return a hash of all files that make a page."""
    hashed = hashlib.sha256()
    for folder in ("analysis", "report", "sheets"):
        for file in sorted((Path(__file__).parents[1] / folder).rglob("*.*")):
            if file.suffix in (".py", ".html", ".css", ".js"):
                hashed.update(file.read_bytes())
    return hashed.hexdigest()


def write_report(
    result: EvaluationResult, path: Path | None = None, *, has_explorer: bool = False
) -> Path:
    """Write the report and return its path; one that is there and says the same is left alone.

    Args:
        result: the evaluation.
        path: the file to write; beside the experiment's artifacts when absent.
        has_explorer: with charts, and with what each retriever returned for each query; without
            it the page is tables alone, small enough to be sent by mail.

    Raises:
        StoreError: the file cannot be written.
    """
    file = path or result.root / (EXPLORER_FILE if has_explorer else REPORT_FILE)
    if not is_at(file, identity(result, has_explorer=has_explorer)):
        write_text(file, render(result, has_explorer=has_explorer))
    return file


def render(result: EvaluationResult, *, has_explorer: bool = False) -> str:
    """Return the page; all text from data is escaped."""
    # Most evaluations change nothing and need none of what builds a page.
    from rag_assets.report.page.page import page

    return page(result, identity(result, has_explorer=has_explorer), has_explorer=has_explorer)
