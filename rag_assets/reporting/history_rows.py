"""The history as rows for programs: a metric over time, with what changed from row to row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rag_assets.pipeline.reasons import Reason
from rag_assets.reporting.evaluation_changes import evaluation_changes

Row = dict[str, Any]


def history_rows(evaluations: Sequence[Row], values: Iterable[Row], split: str | None) -> list[Row]:
    """Return one row an evaluation and retriever, the oldest first.

    Args:
        evaluations: the oldest first; the first is compared with nothing.
        values: rows of one metric, see :meth:`rag_assets.pipeline.history.History.metric`.
        split: the split to show; None: ``test`` where an evaluation has one, else ``all``.

    Returns:
        Rows with ``change``, the difference to the same retriever in the evaluation before; None
        also where queries or labels are others, so that means are not comparable. ``changes`` is a
        list of what differs from that evaluation: mappings of ``what``, ``old`` and ``new``.
        An evaluation without the metric has one row, with ``retriever`` and ``value`` None.
    """
    by_id: dict[str, list[Row]] = {}
    for value in values:
        by_id.setdefault(value["evaluation_id"], []).append(value)
    rows: list[Row] = []
    before: Row | None = None
    known: dict[str, float] = {}
    for evaluation in evaluations:
        if before is not None and not _comparable(before, evaluation):
            known = {}
        reasons = [asdict(one) for one in evaluation_changes(before, evaluation)] if before else []
        lead = _lead(evaluation)
        found = _of_split(by_id.get(evaluation["evaluation_id"], []), split)
        for value in found or [{"retriever": None, "split": None, "value": None, "n_queries": 0}]:
            name, mean = value["retriever"], value["value"]
            own = {field: value[field] for field in ("retriever", "split", "value", "n_queries")}
            change = mean - known[name] if name in known else None
            rows.append({**lead, **own, "change": change, "changes": reasons})
        known = {value["retriever"]: value["value"] for value in found}
        before = evaluation
    return rows


def _comparable(old: Row, new: Row) -> bool:
    """Whether two evaluations have the same queries and labels."""
    return all(old[column] == new[column] for column in ("queries_digest", "qrels_digest"))


def flat_history_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the same with a text in place of the list: for CSV and Markdown."""
    return [{**row, "changes": changes_text(row["changes"])} for row in rows]


def changes_text(reasons: Iterable[Mapping[str, Any]]) -> str:
    """Return ``k1 1.2 -> 0.9; documents changed``."""
    return "; ".join(Reason(**reason).text for reason in reasons)


def _lead(evaluation: Row) -> Row:
    started = evaluation["started"]
    return {
        "evaluation_id": evaluation["evaluation_id"],
        "started": started.isoformat(timespec="seconds"),
        "complete": evaluation["complete"],
        "trigger": evaluation["trigger"],
        "user": evaluation["user"],
        "git_commit": evaluation["git_commit"],
    }


def _of_split(values: Sequence[Row], split: str | None) -> list[Row]:
    there = {value["split"] for value in values}
    chosen = split or ("test" if "test" in there else "all")
    return [value for value in values if value["split"] == chosen]
