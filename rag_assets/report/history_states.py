"""The states that an experiment went through: evaluations that changed nothing are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rag_assets.errors import StoreError
from rag_assets.pipeline.evaluation_names import anchor_id
from rag_assets.pipeline.history import History
from rag_assets.pipeline.history_files import ATTEMPTS
from rag_assets.report.result import EvaluationResult

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
    history = History(result.root, None)
    for _ in range(ATTEMPTS):
        try:
            rows = history.newest_first((*_LEAD, *_SAME))
            until = (r for r in rows if r["evaluation_id"] <= result.evaluation.evaluation_id)
            labelled = (state for state in _grouped(until) if state.row["qrels_digest"])
            return list(islice(labelled, most))[::-1]
        except FileNotFoundError as error:  # it was gathered into another file
            missing = error
    raise StoreError(f"{missing.filename}: cannot be read; try again") from missing


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
    """Return what changes where the states do: when the last one began, and the anchor.

    The history only grows at its end, so an evaluation without a change costs a look at the last
    few of its rows.
    """
    newest = states(result, 1)
    return [newest[0].evaluation_id if newest else None, anchor_id(result.root)]
