"""From corpus to answer: what became of each question, as rows, a terminal's table and a flow."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType

from rag_assets.answers.waterfall import CLASSES, UNKNOWN, WITH, shares
from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.query_facts import ALL
from rag_assets.report.attribution import LEFT, LOSSES
from rag_assets.report.formats import Row
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import FittedTable, number_cell, plain_cell, title_line
from rag_assets.report.view import Context

STAGE_NAMES = {**LOSSES, "dropped_from_context": "dropped by order or budget"}
_CONTEXT_NAMES = {WITH: "the context has it", UNKNOWN: "context not known"}

CLASS_NAMES = {
    "failed": "failed",
    "evidence_not_labelled": "evidence not labelled",
    "answer_not_labelled": "answer not labelled",
    "unanswerable_refused": "unanswerable, refused",
    "unanswerable_answered": "unanswerable, answered",
    "right_with_evidence": "right, with the evidence",
    "right_without_evidence": "right, without the evidence",
    "right_context_unknown": "right, context not known",
    **{
        f"{kind}_{place}": f"{kind}: {name}"
        for kind in ("wrong", "refused")
        for place, name in {**STAGE_NAMES, **_CONTEXT_NAMES}.items()
    },
}
"""Class -> what it is called."""


def waterfall_rows(result: EvaluationResult, split: str) -> list[Row]:
    """Return a row for each class of each answerer that has a question.

    Args:
        result: the evaluation; one without classes of answers has no rows.
        split: of the questions.

    Returns:
        ``answerer`` (``name@k``), ``split``, ``outcome`` (of
        :data:`rag_assets.answers.waterfall.CLASSES`, in their order), ``n`` questions, ``share``
        of all by weight. The shares of an answerer sum to 1.
    """
    entries = result.evaluation.entries_of("answer_waterfall")
    weights = result.weights(split) if entries else {}
    rows: list[Row] = []
    for entry in entries:
        table = result.table(entry.key)
        counted = [query_id in weights for query_id in table["query_id"].to_pylist()]
        rows += [
            {
                "answerer": entry.partition["answerer"],
                "split": split,
                **{"outcome": one.outcome, "n": one.n, "share": one.share},
            }
            for one in shares(table.filter(counted), weights)
        ]
    return rows


def by_answerer(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """Return answerer -> class -> row, from :func:`waterfall_rows`."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(str(row["answerer"]), {})[str(row["outcome"])] = row
    return found


def present_classes(rows: Sequence[Row]) -> list[str]:
    """Return the classes that any row has, in the order in which they are decided."""
    present = {row["outcome"] for row in rows}
    return [name for name in CLASSES if name in present]


_CLASS_WIDTH, _COUNT_WIDTH = 22, 9
"""Characters to which names of classes, and those of answerers, are folded."""


def waterfall_view(experiment: str, rows: Sequence[Row]) -> RenderableType:
    """Return a table, a row a class and a column an answerer.

    Args:
        experiment: its name.
        rows: as :func:`waterfall_rows` gives, at least one.
    """
    answerers = by_answerer(rows)
    table = FittedTable()
    table.text_column("class", min_width=_CLASS_WIDTH)
    for name in answerers:
        table.add_column(plain_cell(name), justify="right", overflow="fold", min_width=_COUNT_WIDTH)
    for outcome in present_classes(rows):
        cells = [_count(classes.get(outcome)) for classes in answerers.values()]
        table.add_row(CLASS_NAMES[outcome], *cells)
    table.add_row("questions", *(f"{_total(classes)} 100%" for classes in answerers.values()))
    split = "" if rows[0]["split"] == ALL else f", {rows[0]['split']}"
    return Group(title_line(f"{experiment}: from corpus to answer{split}"), table)


def checked_rows(result: EvaluationResult, split: str) -> list[Row]:
    """Return :func:`waterfall_rows`.

    Raises:
        NotEvaluated: there are none: no answerer, no labels, or metrics that the classes need are
            not computed.
    """
    rows = waterfall_rows(result, split)
    if not rows:
        name = result.evaluation.experiment
        problem = f"the last evaluation of {name} says of no question what became of it"
        raise NotEvaluated(f"{problem}; that needs `answers` in experiment.yaml, and labels")
    return rows


def _count(row: Row | None) -> str:
    return f"0 {'0%':>4}" if row is None else f"{row['n']} {number_cell(row['share'], '.0%'):>4}"


def _total(classes: dict[str, Row]) -> int:
    return sum(int(str(row["n"])) for row in classes.values())


LOST, NEUTRAL, GAINED = "lost", "neutral", "gained"

_LEFT = {**LEFT, "cut_at_k": "in the first k", "dropped_from_context": "in the context"}

_STEPS = (
    ("failed", ("failed",), "answered", LOST),
    ("not labelled", ("evidence_not_labelled", "answer_not_labelled"), "labelled", NEUTRAL),
    ("unanswerable, refused", ("unanswerable_refused",), "other", GAINED),
    ("unanswerable, answered", ("unanswerable_answered",), "answerable", LOST),
    ("right without the evidence", ("right_without_evidence",), "the rest", GAINED),
    *(
        (name, (f"wrong_{stage}", f"refused_{stage}"), _LEFT[stage], LOST)
        for stage, name in STAGE_NAMES.items()
    ),
    ("refused all the same", (f"refused_{WITH}", f"refused_{UNKNOWN}"), "not refused", LOST),
    ("wrong all the same", (f"wrong_{WITH}", f"wrong_{UNKNOWN}"), "right", LOST),
)
"""What leaves the flow: its name, its classes, what is left behind it, and how that is judged."""


def answer_flow(classes: dict[str, Row]) -> Context:
    """Return the number of questions of one answerer, and of each step what leaves and is left.

    Args:
        classes: class -> row of :func:`waterfall_rows`.
    """
    left = n = _total(classes)
    steps = []
    for name, outcomes, behind, kind in _STEPS:
        n_lost = sum(int(str(classes[one]["n"])) for one in outcomes if one in classes)
        if n_lost:
            left -= n_lost
            step = {"lost": name, "n_lost": n_lost, "left": behind, "n_left": left, "kind": kind}
            steps.append(step)
    if steps:
        steps[-1]["left"] = "right"
    return {"n": n, "found": left, "steps": steps}
