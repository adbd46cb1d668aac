"""Answerers side by side: rows for programs, the sheet of every face, and a notebook's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.answers.metrics import METRICS as ANSWER_METRICS
from rag_assets.answers.options import AnswerCell
from rag_assets.answers.summary_stage import GROUPS
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.judges.calibration import JUDGED_CORRECT
from rag_assets.report.judged import judged_rows
from rag_assets.report.metric_sources import chosen_source
from rag_assets.report.notebook import Tabular, bars, figure, plain
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import TEXT, Column, Sheet

if TYPE_CHECKING:
    import plotly.graph_objects as go

Row = dict[str, Any]

METRICS = {
    "answer_f1": "F1",
    "answer_em": "EM",
    "evidence_cited": "evidence cited",
    "grounded": "grounded",
    "abstained": "abstained",
}
"""Metrics that are shown, and their headings; the first that has a value decides."""

OF_SHORT_ANSWERS = ("answer_em", "answer_f1")
"""They say little of copied sentences, and are not shown where only such were given."""


def answer_rows(result: EvaluationResult, split: str, questions: str = "all") -> list[Row]:
    """Return a row for each answerer at each cut-off, in the order of the experiment.

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


def answers_sheet(result: EvaluationResult, split: str, questions: str = GROUPS[0]) -> Sheet | None:
    """Return the answerers; None where there is none."""
    rows = answer_rows(result, split, questions)
    if not rows:
        return None
    decisive = decisive_metric(result)
    names = [name for name in METRICS if any(row.get(name) is not None for row in rows)]
    if decisive == "evidence_cited":
        names = [name for name in names if name not in OF_SHORT_ANSWERS]
    names.sort(key=lambda name: name != decisive)
    columns = (
        Column("key", "answerer", TEXT, min_width=16),
        *(_column(name, is_required=name == decisive) for name in names),
        Column("n_failed", "failed", "d", help="no answer, because something went wrong; counts 0"),
    )
    title = f"answers to {rows[0]['n_questions']} questions"
    return Sheet(title, columns, [{**row, "key": answerer_key(row)} for row in rows])


def _column(name: str, *, is_required: bool) -> Column:
    return Column(
        name,
        METRICS[name],
        bounds=(f"{name}_low", f"{name}_high"),
        # Refusing is neither good nor bad in itself.
        better=None if name == "abstained" else "more",
        interval="interval" if is_required else "",
        is_required=is_required,
    )


def answerer_key(row: Row) -> str:
    """Return the name of an answerer at its cut-off."""
    return AnswerCell(row["answerer"], row["top_k"]).key


def decisive_metric(result: EvaluationResult) -> str:
    """Return F1, which is of short answers; where only sentences are copied, evidence cited."""
    rows = result.answer_summary.to_pylist()
    present = {row["metric"] for row in rows if row["mean"] is not None}
    copied = {row["answerer"] for row in rows} <= set(sentence_copiers(result))
    preferred = ("evidence_cited", *METRICS) if copied else tuple(METRICS)
    return next((name for name in preferred if name in present), "abstained")


def sentence_copiers(result: EvaluationResult) -> list[str]:
    """Return the answerers whose generator has no model, and copies whole sentences."""
    copiers = {
        name
        for name, options in configured(result, "generators").items()
        if options["type"] == "extractive" and options.get("model") is None
    }
    return [
        name
        for name, options in configured(result, "answers").items()
        if options["generator"] in copiers
    ]


def configured(result: EvaluationResult, block: str) -> Mapping[str, Any]:
    """Return a block of the configuration that an evaluation was made with."""
    options: Mapping[str, Any] = result.evaluation.origin.configuration.get(block, {})
    return options


def answer_sheets(result: EvaluationResult, split: str) -> list[Sheet]:
    """Return the sheet of the answerers, if there are any, with what limits a comparison."""
    sheet = answers_sheet(result, split)
    if sheet is None:
        return []
    unanswerable = answer_rows(result, split, "unanswerable")
    notes = [
        f"{name} reads the relevant texts: {unanswerable[0]['n_questions']} questions have none, "
        "and it refuses them by itself; compare is on the others"
        for name in (result.gold_answerers if unanswerable else ())
    ]
    return [replace(sheet, notes=notes)]


class AnswerTable(Tabular):
    """A row an answerer at a cut-off, a split and a group of questions: means with intervals."""

    def __init__(self, result: EvaluationResult) -> None:
        """Read the answerers of an evaluation.

        Raises:
            NotEvaluated: there are none.
        """
        self.result = result
        splits = dict.fromkeys(result.answer_summary["split"].to_pylist())
        self.rows: list[Row] = [
            {**row, "questions": group}
            for split in splits
            for group in GROUPS
            for row in answer_rows(result, split, group)
        ]
        if not self.rows:
            name = result.evaluation.experiment
            raise NotEvaluated(f"the last evaluation of {name} has no answers")

    def to_arrow(self) -> pa.Table:
        """Return the rows of :func:`answer_rows`, of all questions."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return pa.table({name: [row.get(name) for row in self.rows] for name in names})

    def plot(self, metric: str | None = None, *, dark: bool = False) -> go.Figure:
        """Return bars of a metric by answerer, with intervals.

        Args:
            metric: such as ``answer_em``; what answerers are compared by when absent.
            dark: for a dark page.

        Raises:
            UsageError: the answerers have no such metric.
        """
        rows = answer_rows(self.result, self.result.chosen_split())
        names = [name for name in ANSWER_METRICS if any(row.get(name) is not None for row in rows)]
        chosen = metric or str(
            chosen_source(self.result, None, list(self.result.answer_metrics)).metric
        )
        if chosen not in names:
            raise UsageError(f"unknown metric {allowed_names(chosen, names)}")
        drawn = [
            (answerer_key(row), row.get(chosen), row[f"{chosen}_low"], row[f"{chosen}_high"])
            for row in rows
        ]
        return figure(
            [bars(chosen, drawn, 0, dark)],
            dark,
            title=f"{plain(self.result.evaluation.experiment)}: {chosen}",
            xaxis={"type": "category"},
            yaxis={"title": {"text": chosen}, "rangemode": "tozero"},
        )

    def _sheets(self) -> list[Sheet]:
        sheet = answers_sheet(self.result, self.result.chosen_split())
        return [sheet] if sheet is not None else []
