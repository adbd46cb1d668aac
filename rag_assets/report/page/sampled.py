"""The section on a sample of labels: what it estimates, beside nothing that is complete."""

from __future__ import annotations

from itertools import groupby

from rag_assets.labels.sampling.standing import ITEMS, QUESTIONS
from rag_assets.report.metric_choice import SAMPLED, metric_at
from rag_assets.report.sampled import (
    is_wholly_graded,
    sampled_differences,
    sampled_notes,
    sampled_rows,
    sampled_text,
)
from rag_assets.report.view import Context, View

MOST_PAIRS = 12


def sampled(view: View) -> Context | None:
    """Return the variables of the section; None without a sample, or with all of it graded."""
    rows = sampled_rows(view.result)
    if not rows or is_wholly_graded(view.result):
        return None
    metrics = [
        {"name": name, "rows": own, "notes": sampled_notes(own)}
        for name, own in ((n, list(group)) for n, group in groupby(rows, lambda r: r["metric"]))
    ]
    metric = metric_at(f"{SAMPLED}{metrics[0]['name']}", view.result.primary)
    pairs = sampled_differences(view.result, metric)[:MOST_PAIRS]
    return {
        "metrics": metrics,
        "pairs": [sampled_text(row) for row in pairs],
        "n": rows[0]["n"],
        "confidence": rows[0]["confidence"],
        "items": ITEMS,
        "questions": QUESTIONS,
    }
