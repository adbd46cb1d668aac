"""From corpus to answer: what became of each question, as rows, a sheet and a flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag_assets.answers.waterfall_stage import CLASSES, UNKNOWN, WITH, shares
from rag_assets.errors import NotEvaluated
from rag_assets.report.attribution import LEFT, LOSSES, flow
from rag_assets.report.result import EvaluationResult, Row
from rag_assets.report.sheet import TEXT, Column, Sheet, of_split
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

    Returns:
        ``answerer`` (``name@k``), ``split``, ``outcome`` (of
        :data:`rag_assets.answers.waterfall_stage.CLASSES`, in their order), ``n`` questions,
        ``share``
        of all by weight. The shares of an answerer sum to 1.
    """
    entries = result.evaluation.entries_of("answer_waterfall")
    weights = result.weights(split) if entries else {}
    rows: list[Row] = []
    for entry in entries:
        table = result.table(entry.key)
        counted = [query_id in weights for query_id in table["query_id"].to_pylist()]
        lead = {"answerer": entry.partition["answerer"], "split": split}
        rows += [
            {**lead, "outcome": share.outcome, "n": share.n, "share": share.share}
            for share in shares(table.filter(counted), weights)
        ]
    return rows


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


def waterfall_sheet(title: str, rows: Sequence[Row]) -> Sheet:
    """Return a row a class and a column an answerer; rows as :func:`waterfall_rows` gives."""
    answerers = _by_answerer(rows)
    present = {row["outcome"] for row in rows}
    lines: list[Row] = [
        {"class": CLASS_NAMES[name], **_cells(answerers, name)}
        for name in CLASSES
        if name in present
    ]
    totals = {name: (_total(classes), 1.0) for name, classes in answerers.items()}
    lines.append({"class": "questions", **_flat(totals)})
    columns = (
        Column("class", "class", TEXT, min_width=22),
        *(Column(f"n {name}", name, "d", share=f"share {name}") for name in answerers),
    )
    return Sheet(f"{title}{of_split(rows[0]['split'])}", columns, lines, name="waterfall")


def _cells(answerers: Mapping[str, Mapping[str, Row]], outcome: str) -> Row:
    cells = {name: classes.get(outcome) for name, classes in answerers.items()}
    return _flat(
        {name: (row["n"], row["share"]) if row else (0, 0.0) for name, row in cells.items()}
    )


def _flat(cells: Mapping[str, tuple[int, float]]) -> Row:
    return {
        key: value
        for name, (n, share) in cells.items()
        for key, value in ((f"n {name}", n), (f"share {name}", share))
    }


def _by_answerer(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """Return answerer -> class -> row."""
    classes_of: dict[str, dict[str, Row]] = {}
    for row in rows:
        classes_of.setdefault(row["answerer"], {})[row["outcome"]] = row
    return classes_of


def _total(classes: Mapping[str, Row]) -> int:
    return sum(row["n"] for row in classes.values())


NEUTRAL, GAINED = "neutral", "gained"

_LEFT = {**LEFT, "cut_at_k": "in the first k", "dropped_from_context": "in the context"}

_STEPS = (
    ("failed", ("failed",), "answered"),
    ("not labelled", ("evidence_not_labelled", "answer_not_labelled"), "labelled"),
    ("unanswerable, refused", ("unanswerable_refused",), "other"),
    ("unanswerable, answered", ("unanswerable_answered",), "answerable"),
    ("right without the evidence", ("right_without_evidence",), "the rest"),
    *(
        (name, (f"wrong_{stage}", f"refused_{stage}"), _LEFT[stage])
        for stage, name in STAGE_NAMES.items()
    ),
    ("refused all the same", (f"refused_{WITH}", f"refused_{UNKNOWN}"), "not refused"),
    ("wrong all the same", (f"wrong_{WITH}", f"wrong_{UNKNOWN}"), "right"),
)
"""What leaves the flow: its name, its classes, and what is left behind it."""

_KINDS = {
    "not labelled": NEUTRAL,
    "unanswerable, refused": GAINED,
    "right without the evidence": GAINED,
}


def answer_flows(rows: Sequence[Row]) -> Context:
    """Return the answerers, and of each the flow of its questions from corpus to answer."""
    answerers = _by_answerer(rows)
    flows = [
        flow(
            _total(classes),
            [(name, _lost(classes, outcomes), left) for name, outcomes, left in _STEPS],
            "right",
            _KINDS,
        )
        for classes in answerers.values()
    ]
    return {"names": list(answerers), "flows": flows}


def _lost(classes: Mapping[str, Row], outcomes: Sequence[str]) -> int:
    return sum(classes[outcome]["n"] for outcome in outcomes if outcome in classes)
