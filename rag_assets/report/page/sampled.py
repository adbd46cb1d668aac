"""The section on a sample of labels: what it estimates, beside nothing that is complete."""

from __future__ import annotations

from rag_assets.report.metric_choice import SAMPLED, metric_at
from rag_assets.report.sampled import sampled_differences, sampled_sheets, sampled_text
from rag_assets.report.view import Context, View

MOST_PAIRS = 12


def sampled(view: View) -> Context | None:
    """Return the variables of the section; None without a sample, or with all of it graded."""
    sheets = sampled_sheets(view.result)
    if not sheets:
        return None
    metric = metric_at(f"{SAMPLED}{sheets[0].rows[0]['metric']}", view.result.primary)
    pairs = sampled_differences(view.result, metric)[:MOST_PAIRS]
    return {"sheets": sheets, "pairs": [sampled_text(row) for row in pairs]}
