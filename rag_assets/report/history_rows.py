"""The history as rows for programs: a metric over time, with what changed from row to row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rag_assets.pipeline.reasons import Reason
from rag_assets.report.evaluation_changes import evaluation_changes

Row = dict[str, Any]


def history_rows(evaluations: Sequence[Row], values: Iterable[Row], split: str | None) -> list[Row]:
    """Return one row an evaluation and retriever, the oldest first.

    Args:
        evaluations: the oldest first; the first is compared with nothing.
        values: rows of one metric, see :meth:`rag_assets.pipeline.history.History.metric`.
        split: the split to show; None: ``test`` where an evaluation has one, else ``all``.

    Returns:
        Rows with ``change``, the difference to the same retriever in the evaluation before; None
        also where the means are not :func:`comparable`, which ``comparable`` says (None: there is
        none before). ``changes`` is a list of what differs from that evaluation: mappings of
        ``what``, ``old`` and ``new``.
        An evaluation without the metric has one row, with ``retriever`` and ``value`` None.
    """
    by_id: dict[str, list[Row]] = {}
    for value in values:
        by_id.setdefault(value["evaluation_id"], []).append(value)
    rows: list[Row] = []
    before: Row | None = None
    known: dict[tuple[str, str], float] = {}
    for evaluation in evaluations:
        alike = None if before is None else comparable(before, evaluation)
        if not alike:
            known = {}
        reasons = [asdict(one) for one in evaluation_changes(before, evaluation)] if before else []
        lead = _lead(evaluation)
        found = of_split(by_id.get(evaluation["evaluation_id"], []), split)
        for value in found or [{"retriever": None, "split": None, "value": None, "n_queries": 0}]:
            name, mean = value["retriever"], value["value"]
            own = {field: value[field] for field in ("retriever", "split", "value", "n_queries")}
            place = name, value["split"]
            change = mean - known[place] if place in known else None
            rows.append({**lead, **own, "change": change, "comparable": alike, "changes": reasons})
        known = {(value["retriever"], value["split"]): value["value"] for value in found}
        before = evaluation
    return rows


_COUNTED = ("judge", "split", "weight")
"""Parts of a configuration that say what is judged, and how much each query counts."""


def comparable(old: Row, new: Row) -> bool:
    """Whether two evaluations have the same queries and labels, and count them alike."""
    if any(old[column] != new[column] for column in ("queries_digest", "qrels_digest")):
        return False
    if old["configuration"] == new["configuration"]:
        return True
    was, now = json.loads(old["configuration"]), json.loads(new["configuration"])
    # An evaluation of an older version of the program did not keep its configuration.
    return not was or not now or all(was.get(name) == now.get(name) for name in _COUNTED)


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


def of_split(values: Sequence[Row], split: str | None) -> list[Row]:
    """Return the values of a split; where it is None of ``test``, or else of ``all``."""
    there = {value["split"] for value in values}
    chosen = split or ("test" if "test" in there else "all")
    return [value for value in values if value["split"] == chosen]
