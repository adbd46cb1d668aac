"""Each metric over the states of an experiment, with what changed at each point.

A state is a row of evaluations that say the same: one that changed nothing is no point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rag_assets.evaluation.metric_names import metric_columns
from rag_assets.pipeline.evaluation_names import anchor_id
from rag_assets.pipeline.history import History
from rag_assets.report.history import comparable, evaluation_changes, of_split
from rag_assets.report.page.embedded_data import rounded, shortened
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
    """Return the last states with labels up to an evaluation, the oldest first.

    Args:
        result: the evaluation that is the last one.
        most: so many of the newest.

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


MOST = 50
"""Points that are shown, the newest."""

VALUES = 40_000
"""Numbers in all: fewer points are shown where there are many metrics, retrievers and cut-offs."""

FORMER = 6
"""Retrievers that the current evaluation has no more, the last ones."""

REASONS = 12
"""Of each point, so many of what changed."""

Cells = Mapping[tuple[str, str, int], float]
"""(metric, retriever, top_k) -> mean, of one point."""


def history(view: View) -> Context | None:
    """Return the points, and the data of their chart; None without a value of the primary metric.

    A point is a state, see :mod:`rag_assets.report.page.history`. ``points`` is empty where
    there is one state only.
    """
    if not view.ranked:
        return None
    cells = len(view.measures) * (len(view.retrievers) + FORMER) * len(view.cutoffs)
    most = max(2, min(MOST, VALUES // cells))
    all_states = states(view.result, most + 1)
    shown = all_states[-most:]
    if len(shown) < 2:
        return {"points": []}
    values, splits = _values(view, shown)
    names, n_former = _retrievers(view, values)
    anchor = anchor_id(view.result.root)
    points = list(_points(all_states, shown, splits, anchor))
    return {
        "points": points,
        "retrievers": names,
        "baseline": view.result.evaluation.baseline,
        "n_left_out": n_former,
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
            "baseline": view.result.evaluation.baseline,
            "measures": view.measures,
            "cutoffs": view.cutoffs,
            "primary": {"measure": view.measure, "cutoff": view.cutoff},
            "points": [_drawn(point) for point in points],
            "values": {name: _series(name, names, view.cutoffs, values) for name in view.measures},
        },
    }


def _values(view: View, shown: Sequence[State]) -> tuple[list[Cells], list[str]]:
    """Return of each point its means, and the split that they are of."""
    rows: dict[str, list[Context]] = {state.evaluation_id: [] for state in shown}
    for row in History(view.result.root, None).metrics(list(rows)):
        rows[row["evaluation_id"]].append(row)
    shown_name = view.result.shown_name
    cells: list[Cells] = []
    splits: list[str] = []
    for point_rows in rows.values():
        chosen = of_split(point_rows, None)
        columns = set(metric_columns({row["metric"] for row in chosen}))
        cells.append(
            {
                (row["metric"], shown_name(row["retriever"]), row["top_k"]): row["value"]
                for row in chosen
                if row["metric"] in columns
            }
        )
        splits.append(chosen[0]["split"] if chosen else "")
    return cells, splits


def _retrievers(view: View, values: Sequence[Cells]) -> tuple[list[str], int]:
    """Return the retrievers of the evaluation, then former ones; and how many are left out."""
    last: dict[str, int] = {}
    for number, cells in enumerate(values):
        last |= dict.fromkeys((name for _, name, _ in cells), number)
    former = sorted(last.keys() - set(view.retrievers), key=lambda name: (-last[name], name))
    return [*view.retrievers, *former[:FORMER]], max(len(former) - FORMER, 0)


def _points(
    all_states: Sequence[State], shown: Sequence[State], splits: Sequence[str], anchor: str | None
) -> Iterable[Context]:
    before = dict(zip((state.evaluation_id for state in all_states[1:]), all_states, strict=False))
    for number, state in enumerate(shown):
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
            "reasons": [shortened(text) for text in reasons[:REASONS]],
            "n_more": max(len(reasons) - REASONS, 0),
            "first": old is None,
            "complete": state.row["complete"],
            "broken": broken,
            "anchor": state.holds(anchor),
        }


def _drawn(point: Context) -> Context:
    """Return what the chart says of a point; the table beside it has the rest."""
    texts = point["reasons"][:3]
    more = len(point["reasons"]) + point["n_more"] - len(texts)
    return {
        "time": point["time"],
        "said": [*texts, *([f"and {more} more"] if more else [])],
        "broken": point["broken"],
        "anchor": point["anchor"],
    }


def _series(
    measure: str, names: Sequence[str], cutoffs: Sequence[int], values: Sequence[Cells]
) -> list[list[list[float | None]]]:
    """Return for each retriever and cut-off a mean a point; null where there is none."""
    return [
        [[rounded(cells.get((measure, name, k))) for cells in values] for k in cutoffs]
        for name in names
    ]
