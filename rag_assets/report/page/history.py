"""Each metric over the states of an experiment, with what changed at each point.

A state is a row of evaluations that say the same: one that changed nothing is no point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rag_assets.pipeline.evaluation_names import anchor_id
from rag_assets.pipeline.history import History
from rag_assets.report.history import comparable, evaluation_changes, of_split
from rag_assets.report.page.environment import rounded, shortened
from rag_assets.report.result import EvaluationResult
from rag_assets.report.view import Context, View

Row = dict[str, Any]

_SAME = (
    "content_digest",
    "complete",
    "corpus_digest",
    "queries_digest",
    "qrels_digest",
    "configuration",
    "code_versions",
    "packages",
)
"""Columns of the history: two evaluations that are equal in these are one state."""

_LEAD = ("evaluation_id", "started", "trigger", "user", "git_commit")

MAX_POINTS = 50
"""Points that are shown, the newest."""

MAX_VALUES = 40_000
"""Numbers in all: fewer points are shown where there are many metrics, retrievers and cut-offs."""

MAX_REASONS = 12
"""Of each point, so many of what changed."""

Cells = Mapping[tuple[str, str, int], float]
"""(metric, retriever, top_k) -> mean, of one point."""


@dataclass(frozen=True)
class State:
    """Evaluations one after the other that say the same.

    Attributes:
        row: the first of them, without its lists.
        last: id of the last of them.
    """

    row: Row
    last: str

    @property
    def evaluation_id(self) -> str:
        """The id of the first of them."""
        return str(self.row["evaluation_id"])

    def holds(self, evaluation_id: str | None) -> bool:
        """Whether an evaluation is one of them."""
        return evaluation_id is not None and self.evaluation_id <= evaluation_id <= self.last


def states(result: EvaluationResult, most: int) -> list[State]:
    """Return the ``most`` last states with labels up to an evaluation, the oldest first.

    Raises:
        StoreError: the history cannot be read.
    """
    rows = History(result.root, None).newest_first((*_LEAD, *_SAME))
    until = (row for row in rows if row["evaluation_id"] <= result.evaluation.evaluation_id)
    labelled = (state for state in _grouped(until) if state.row["qrels_digest"])
    return list(islice(labelled, most))[::-1]


def _grouped(rows: Iterable[Row]) -> Iterator[State]:
    """Yield states, the newest first, of rows that are so ordered."""
    first: Row | None = None
    last = ""
    for row in rows:
        if first is not None and any(row[name] != first[name] for name in _SAME):
            yield State(first, last)
            first = None
        last = row["evaluation_id"] if first is None else last
        first = row
    if first is not None:
        yield State(first, last)


def history_identity(result: EvaluationResult) -> list[str | None]:
    """Return what changes where the states do: when the last one began, and the anchor."""
    newest = states(result, 1)
    return [newest[0].evaluation_id if newest else None, anchor_id(result.root)]


def history(view: View) -> Context | None:
    """Return the points, and the data of their chart; None without a value of the primary metric.

    ``points`` is empty where there is one state only.
    """
    if not view.ranked:
        return None
    cells = len(view.measures) * len(view.retrievers) * len(view.cutoffs)
    most = max(2, min(MAX_POINTS, MAX_VALUES // cells))
    all_states = states(view.result, most + 1)
    drawn = all_states[-most:]
    if len(drawn) < 2:
        return {"points": []}
    values, splits = _values(view, drawn)
    names = view.retrievers
    anchor = anchor_id(view.result.root)
    points = list(_points(all_states, drawn, splits, anchor))
    baseline = view.result.evaluation.baseline
    return {
        "points": points,
        "retrievers": names,
        "baseline": baseline,
        "has_older": len(all_states) > most,
        "anchor": next((point["number"] for point in points if point["anchor"]), None),
        "has_anchor": anchor is not None,
        "has_break": any(point["broken"] for point in points),
        "primary": [
            [of_point.get((view.measure, name, view.cutoff)) for name in names]
            for of_point in values
        ],
        "data": {
            "retrievers": names,
            "baseline": baseline,
            "measures": view.measures,
            "cutoffs": view.cutoffs,
            "primary": {"measure": view.measure, "cutoff": view.cutoff},
            "points": [_drawn(point) for point in points],
            "values": {
                measure: [
                    [[rounded(of.get((measure, name, k))) for of in values] for k in view.cutoffs]
                    for name in names
                ]
                for measure in view.measures
            },
        },
    }


def _values(view: View, drawn: Sequence[State]) -> tuple[list[Cells], list[str]]:
    """Return of each point its means, and the split that they are of."""
    rows: dict[str, list[Row]] = {state.evaluation_id: [] for state in drawn}
    for row in History(view.result.root, None).metrics(list(rows)):
        rows[row["evaluation_id"]].append(row)
    chosen = [of_split(of_point, None) for of_point in rows.values()]
    shown_name = view.result.shown_name
    cells = [
        {(row["metric"], shown_name(row["retriever"]), row["top_k"]): row["value"] for row in of}
        for of in chosen
    ]
    return [*cells], [of[0]["split"] if of else "" for of in chosen]


def _points(
    all_states: Sequence[State], drawn: Sequence[State], splits: Sequence[str], anchor: str | None
) -> Iterator[Context]:
    before = dict(zip((state.evaluation_id for state in all_states[1:]), all_states, strict=False))
    for number, state in enumerate(drawn):
        old = before.get(state.evaluation_id)
        reasons = [one.text for one in evaluation_changes(old.row, state.row)] if old else []
        broken = number > 0 and (
            splits[number] != splits[number - 1]
            or (old is not None and not comparable(old.row, state.row))
        )
        yield {
            "number": number + 1,
            "id": state.evaluation_id,
            "time": f"{state.row['started']:%Y-%m-%d %H:%M}",
            "reasons": [shortened(text) for text in reasons[:MAX_REASONS]],
            "n_more": max(len(reasons) - MAX_REASONS, 0),
            "first": old is None,
            "complete": state.row["complete"],
            "broken": broken,
            "anchor": state.holds(anchor),
        }


def _drawn(point: Context) -> Context:
    """Return what the chart says of a point; the table beside it has the rest."""
    texts = point["reasons"][:3]
    more = len(point["reasons"]) + point["n_more"] - len(texts)
    lines = [*texts, *([f"and {more} more"] if more else [])]
    return {"said": lines, **{name: point[name] for name in ("time", "broken", "anchor")}}
