"""The section on judges: what their verdicts are worth, once people labelled a few answers."""

from __future__ import annotations

from rag_assets.evaluation.metric_names import Metric
from rag_assets.judges.calibration import JUDGED_CORRECT
from rag_assets.report.judge_check import (
    Row,
    kept_checks,
    outcome,
    people_lines,
    score_text,
    trials_sheet,
)
from rag_assets.report.judged import (
    difference_text,
    judge_names,
    judged_differences,
    judged_sheets,
    unlabelled_texts,
)
from rag_assets.report.sheet import Sheet
from rag_assets.report.view import Context, View

MAX_PAIRS = 12


def judged(view: View) -> Context | None:
    """Return the variables of the section; None where there is nothing of judges."""
    judges, checks = judge_names(view.result), kept_checks(view.result)
    if not judges and not checks:
        return None
    sheets = judged_sheets(view.result, view.split)
    return {
        "sheets": [(sheet, _pairs(view, sheet)) for sheet in sheets],
        "unlabelled": unlabelled_texts(view.result, view.split),
        "checks": [_check(check) for check in checks],
    }


def _check(check: Row) -> Context:
    kinds = [
        (trials_sheet(check["judge"], kind), [score_text(kind), *people_lines(kind)])
        for kind in check["kinds"]
    ]
    return {**check, "kinds": kinds, "outcome": outcome(check)}


def _pairs(view: View, sheet: Sheet) -> list[str]:
    """Return what the pairs of answerers come to whose difference is calibrated."""
    if sheet.rows[0]["metric"] != JUDGED_CORRECT or len(sheet.rows) == 1:
        return []
    metric = Metric(f"{JUDGED_CORRECT}:{sheet.rows[0]['by']}")
    rows = judged_differences(view.result, metric, view.split)
    known = [row for row in rows if row["calibrated"] is not None]
    return [difference_text(row) for row in known[:MAX_PAIRS]]
