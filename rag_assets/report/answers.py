"""Answerers side by side: rows for programs, and a table for a terminal."""

from __future__ import annotations

from rich.console import RenderableType

from rag_assets.answers.options import AnswerCell
from rag_assets.answers.summary import GROUPS
from rag_assets.judges.calibration import JUDGED_CORRECT
from rag_assets.report.formats import Row, interval_text
from rag_assets.report.judged import judged_rows
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import (
    FittedTable,
    count_cell,
    number_cell,
    plain_cell,
    title_line,
)

SHOWN = {
    "answer_em": "EM",
    "answer_f1": "F1",
    "abstained": "abstained",
    "evidence_cited": "evidence cited",
    "grounded": "grounded",
}
"""Metrics of a terminal's table, and their headings."""


def answer_rows(result: EvaluationResult, split: str, questions: str = "all") -> list[Row]:
    """Return a row for each answerer at each cut-off, in the order of the experiment.

    Args:
        result: the evaluation; one without answerers has no rows.
        split: of the questions.
        questions: ``all`` of them, or those that are ``answerable`` or ``unanswerable``.

    Returns:
        ``answerer``, ``top_k``, the mean of every metric with its interval as ``<metric>_low`` and
        ``<metric>_high``, ``n_failed`` and ``n_questions``. Of each judge, over all questions with
        a right answer, ``judged_correct:<judge>`` calibrated, with its interval, ``_labels`` and
        ``_method``.
    """
    rows: dict[tuple[str, int | None], Row] = {}
    for one in result.answer_summary.to_pylist():
        if (one["split"], one["questions"]) != (split, questions):
            continue
        row = rows.setdefault(
            (one["answerer"], one["top_k"]),
            {name: one[name] for name in ("answerer", "top_k", "split")},
        )
        row[one["metric"]] = one["mean"]
        row |= {f"{one['metric']}_{bound}": one[bound] for bound in ("low", "high")}
        row |= {name: one[name] for name in ("n_failed", "n_questions")}
    for one in judged_rows(result, split) if questions == GROUPS[0] else ():
        name = f"{JUDGED_CORRECT}:{one['by']}"
        calibrated = {name: one["calibrated"], f"{name}_labels": one["n_labels"]}
        calibrated |= {f"{name}_{part}": one[part] for part in ("low", "high", "method")}
        for (answerer, top_k), row in rows.items():
            if one["metric"] == JUDGED_CORRECT and AnswerCell(answerer, top_k).key == one["name"]:
                row |= calibrated
    return list(rows.values())


def answer_parts(result: EvaluationResult, split: str) -> list[RenderableType]:
    """Return a heading and a table of the answerers; nothing where there is none."""
    rows = answer_rows(result, split)
    if not rows:
        return []
    names = [name for name in SHOWN if any(row.get(name) is not None for row in rows)]
    table = FittedTable(required=("F1",))
    table.text_column("answerer")
    table.number_column("k")
    for name in names:
        table.number_column(SHOWN[name])
        if name == "answer_f1":
            table.number_column("interval")
    table.number_column("failed")
    for row in rows:
        cells = [count_cell(row["top_k"])]
        for name in names:
            cells.append(number_cell(row.get(name)))
            if name == "answer_f1":
                bounds = {bound: row[f"{name}_{bound}"] for bound in ("low", "high")}
                cells.append(interval_text(bounds))
        table.add_row(plain_cell(str(row["answerer"])), *cells, str(row["n_failed"]))
    title = f"answers to {rows[0]['n_questions']} questions"
    parts: list[RenderableType] = ["", title_line(title), table]
    unanswerable = answer_rows(result, split, "unanswerable")
    if unanswerable:
        parts += [
            f"{name} reads the relevant texts: {n} questions have none, and it refuses them by "
            "itself; compare is on the others"
            for name in result.gold_answerers
            for n in [unanswerable[0]["n_questions"]]
        ]
    return parts
