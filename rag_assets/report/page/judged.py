"""The section on judges: what their verdicts are worth, once people labelled a few answers."""

from __future__ import annotations

from rag_assets.evaluation.metric_names import Metric
from rag_assets.judges.calibration import JUDGED_CORRECT
from rag_assets.report.judge_check import (
    VERDICTS,
    Row,
    kept_checks,
    outcome,
    people_lines,
    score_text,
)
from rag_assets.report.judged import (
    by_metric,
    difference_text,
    how,
    judge_names,
    judged_differences,
    judged_rows,
    missing_text,
    worth_text,
)
from rag_assets.report.view import Context, View

MOST_PAIRS = 12


def judged(view: View) -> Context | None:
    """Return the variables of the section; None where there is nothing of judges."""
    judges, checks = judge_names(view.result), kept_checks(view.result)
    if not judges and not checks:
        return None
    rows = judged_rows(view.result, view.split)
    return {
        "judges": [
            _judge(view, name, metric, own)
            for name in judges
            for metric, own in (
                by_metric(row for row in rows if row["by"] == name) or {"": []}
            ).items()
        ],
        "checks": [_check(check) for check in checks],
    }


def _check(check: Row) -> Context:
    kinds = [{**kind, "lines": [score_text(kind), *people_lines(kind)]} for kind in check["kinds"]]
    return {**check, "kinds": kinds, "verdicts": VERDICTS, "outcome": outcome(check)}


def _judge(view: View, name: str, metric: str, rows: list[Context]) -> Context:
    calibrated = [row for row in rows if row["calibrated"] is not None]
    return {
        "name": name,
        "metric": metric,
        "how": how(view.result),
        "rows": rows,
        "confidence": rows[0]["confidence"] if rows else None,
        "n": rows[0]["n"] if rows else 0,
        "labels": max((row["n_labels"] for row in rows), default=0),
        "missing": missing_text(rows) if rows else None,
        "cannot_tell": max((row["n_cannot_tell"] for row in rows), default=0),
        "worth": worth_text(rows),
        "methods": list(dict.fromkeys(row["method"] for row in calibrated)),
        "reasons": [(row["name"], row["reason"]) for row in rows if row["reason"] is not None],
        "pairs": _pairs(view, name) if metric == JUDGED_CORRECT and len(calibrated) > 1 else [],
    }


def _pairs(view: View, judge: str) -> list[str]:
    metric = Metric(f"{JUDGED_CORRECT}:{judge}")
    rows = judged_differences(view.result, metric, view.split)
    known = [row for row in rows if row["calibrated"] is not None]
    return [difference_text(row) for row in known[:MOST_PAIRS]]
