"""A metric over evaluations: what changed at each, rows, and a sheet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rag_assets.pipeline.reasons import Reason, changes, file_changes
from rag_assets.report.metric_choice import is_answerer
from rag_assets.report.sheet import SIGNED, TEXT, Column, Sheet

DIGESTS = {
    "corpus_digest": "documents changed",
    "queries_digest": "queries changed",
    "qrels_digest": "labels changed",
}
"""Column of the history -> what is said where two evaluations differ in it."""

LABELS_ADDED, LABELS_REMOVED = "labels added", "labels removed"

_NAMED = {
    "retrievers": "retriever",
    "chunking": "chunking",
    "query_sets": "query set",
    "generators": "generator",
    "answers": "answerer",
    "judges": "judge",
}
"""Parts of a configuration that are named by people; one that is new is one reason."""

_JSON = {"configuration": "", "code_versions": "rag_assets.", "packages": ""}
"""Columns that hold JSON -> what stands before the name of what differs."""


def evaluation_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Reason]:
    """Return why two rows of the history may differ: what a person changed, not what follows."""
    reasons = [
        Reason(text)
        for column, text in DIGESTS.items()
        if None not in (old[column], new[column]) and old[column] != new[column]
    ]
    labelled = [one["qrels_digest"] is not None for one in (old, new)]
    if labelled[0] != labelled[1]:
        reasons.append(Reason(LABELS_ADDED if labelled[1] else LABELS_REMOVED))
    for column, before in _JSON.items():
        if old[column] != new[column]:
            was, now = json.loads(old[column]), json.loads(new[column])
            # An evaluation of an older version of the program did not keep them.
            if was and now:
                if column == "code_versions":  # a stage that came or went follows from something
                    was = {stage: was[stage] for stage in was if stage in now}
                    now = {stage: now[stage] for stage in was}
                reasons += _json_changes(before, was, now)
    return reasons


def _json_changes(before: str, was: dict[str, Any], now: dict[str, Any]) -> Iterator[Reason]:
    files = was.pop("files", None), now.pop("files", None)
    if None not in files:
        yield from file_changes(*files)
    for part, noun in _NAMED.items():
        old, new = was.get(part, {}), now.get(part, {})
        if not isinstance(old, dict) or not isinstance(new, dict):
            continue
        for name in [name for name in new if name not in old]:
            yield Reason(f"{noun} {name} added")
        for name in [name for name in old if name not in new]:
            yield Reason(f"{noun} {name} removed")
        shared = old.keys() & new.keys()
        was = {**was, part: {name: old[name] for name in old if name in shared}}
        now = {**now, part: {name: new[name] for name in new if name in shared}}
    for change in changes(was, now):
        yield Reason(f"{before}{change.what.removeprefix('retrievers.')}", change.old, change.new)


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
    last: dict[tuple[str, str], float] = {}
    for evaluation in evaluations:
        alike = None if before is None else comparable(before, evaluation)
        reasons = [asdict(one) for one in evaluation_changes(before, evaluation)] if before else []
        cells = of_split(by_id.get(evaluation["evaluation_id"], []), split)
        for cell in cells or [_NO_CELL]:
            place = cell["retriever"], cell["split"]
            change = cell["value"] - last[place] if alike and place in last else None
            measured = {name: cell[name] for name in _NO_CELL}
            told = {"change": change, "comparable": alike, "changes": reasons}
            rows.append({**_lead(evaluation), **measured, **told})
        last = {(cell["retriever"], cell["split"]): cell["value"] for cell in cells}
        before = evaluation
    return rows


_NO_CELL: Row = {"retriever": None, "split": None, "value": None, "n_queries": 0}

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
    names = ("complete", "trigger", "user", "git_commit")
    return {
        "evaluation_id": evaluation["evaluation_id"],
        "started": evaluation["started"].isoformat(timespec="seconds"),
        **{name: evaluation[name] for name in names},
    }


def of_split(values: Sequence[Row], split: str | None) -> list[Row]:
    """Return the values of a split; where it is None of ``test``, or else of ``all``."""
    splits = {value["split"] for value in values}
    chosen = split or ("test" if "test" in splits else "all")
    return [value for value in values if value["split"] == chosen]


ID_END = 4
"""So many last characters of an id are shown; `diff` and `gate` take the end of an id."""


def history_sheet(rows: Sequence[Row], metric: str, title: str = "") -> Sheet:
    """Return the table; the time and the reasons of an evaluation stand at its first retriever."""
    lines: list[Row] = []
    for row in rows:
        is_first = not lines or row["evaluation_id"] != lines[-1]["evaluation_id"]
        texts = (time_text(row), row["evaluation_id"][-ID_END:], what_changed(row))
        names = ("time", "id", "what")
        lines.append({**row, **dict(zip(names, texts if is_first else ("", "", ""), strict=True))})
    is_of_answers = any(is_answerer(row["retriever"] or "") for row in rows)
    columns = (
        Column("time", "evaluation", TEXT, min_width=10, missing=""),
        Column("id", "id", TEXT, is_whole=True, missing=""),
        Column("retriever", "answerer" if is_of_answers else "retriever", TEXT),
        Column("value", metric, is_required=True),
        Column("change", "change", SIGNED, missing=""),
        Column("what", "what changed", TEXT, missing=""),
    )
    return Sheet(title, columns, lines)


def what_changed(row: Mapping[str, Any]) -> str:
    """Return the reasons of an evaluation as text, and whether it is incomplete."""
    parts = [changes_text(row["changes"]), "" if row["complete"] else "incomplete"]
    return "; ".join(part for part in parts if part)


def time_text(row: Mapping[str, Any]) -> str:
    """Return when an evaluation began, to the minute."""
    return str(row["started"])[:16].replace("T", " ")
