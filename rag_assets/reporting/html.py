"""The HTML report of an evaluation: one self-contained page, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from rag_assets.evaluation.leaderboard import TIE
from rag_assets.evaluation.metric_names import metric_columns
from rag_assets.evaluation.query_facts import ALL
from rag_assets.reporting.ceilings import ceilings
from rag_assets.reporting.overlap_rows import overlap_rows
from rag_assets.reporting.result import EvaluationResult
from rag_assets.reporting.rows import Row
from rag_assets.store.atomic import write_text

REPORT_FILE = "report.html"


def write_report(result: EvaluationResult) -> Path:
    """Write the report beside the experiment's artifacts and return its path.

    Raises:
        StoreError: the store cannot be written.
    """
    path = result.root / REPORT_FILE
    write_text(path, render(result))
    return path


def render(result: EvaluationResult) -> str:
    """Return the page; all text from data is escaped."""
    loader = PackageLoader("rag_assets.reporting", "templates")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template("report.html").render(_context(result))


def _context(result: EvaluationResult) -> dict[str, Any]:
    board = result.leaderboard.to_pylist() if result.has_metrics else []
    split = result.chosen_split() if result.has_metrics else ALL
    rows = [
        {n: v for n, v in row.items() if v is not None} for row in board if row["split"] == split
    ]
    measure, cutoff = result.primary.column, result.primary.cutoff
    at_cutoff = [row for row in rows if row["top_k"] == cutoff]
    return {
        "evaluation": result.evaluation,
        "primary": str(result.primary),
        "measure": measure,
        "cutoff": cutoff,
        "top": [row for row in at_cutoff if measure in row],
        "split": split,
        "weighted": any(row["weight"] != row["n_queries"] for row in rows),
        "measures": metric_columns({name for row in rows for name in row}),
        "best": _best(rows),
        "rows": rows,
        "cutoffs": sorted({row["top_k"] for row in rows}),
        "retrievers": list(dict.fromkeys(row["retriever"] for row in rows)),
        "ceilings": ceilings(result, split) if result.has_metrics else {},
        "curve": {(row["retriever"], row["top_k"]): row.get(measure) for row in rows},
        "slices": result.slices(),
        "has_tokens": any("tokens" in row for row in rows),
        "has_metrics": result.has_metrics,
        "pairs": overlap_rows(result),
        "speed": result.milliseconds_per_query(),
        "tie": TIE,
    }


def _best(rows: list[Row]) -> dict[tuple[object, str], float]:
    """Return (top_k, metric) -> the highest mean."""
    best: dict[tuple[object, str], float] = {}
    for row in rows:
        for name in metric_columns(row):
            value = row.get(name)
            if isinstance(value, float):
                place = (row["top_k"], name)
                best[place] = max(value, best.get(place, value))
    return best
