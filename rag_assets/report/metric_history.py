"""A metric over the evaluations of an experiment, for the command line, Python and a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.judges.calibration import JUDGED_CORRECT
from rag_assets.labels.sampling.label_pool import sampled_metrics
from rag_assets.pipeline.history import COST_TIME, History
from rag_assets.report.history import (
    Row,
    flat_history_rows,
    history_rows,
    history_sheet,
    time_text,
    what_changed,
)
from rag_assets.report.metric_choice import (
    ANSWER_HEADLINES,
    SAMPLED,
    check_names,
    is_answerer,
    is_judged,
    is_of_answers,
    is_sampled,
    judge_named,
    metric_at,
    named,
    noun,
)
from rag_assets.report.notebook import Tabular, colours, figure, look, plain
from rag_assets.report.sheet import Sheet

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCHEMA = pa.schema(
    [
        ("evaluation_id", pa.string()),
        ("started", pa.timestamp("s", "UTC")),
        ("complete", pa.bool_()),
        ("trigger", pa.string()),
        ("user", pa.string()),
        ("git_commit", pa.string()),
        ("retriever", pa.string()),
        ("split", pa.string()),
        ("value", pa.float64()),
        ("n_queries", pa.int64()),
        ("change", pa.float64()),
        ("comparable", pa.bool_()),
        ("changes", pa.string()),
    ]
)
"""Columns of the table; ``changes`` is the text that ``rag-assets history`` prints."""

MAX_DATES = 8
"""Dates below a figure, so that they do not touch."""

MAX_CHARACTERS = 120
"""Characters of what changed that stand at a point of the figure; the table has all."""


class MetricHistory(Tabular):
    """A metric over evaluations; a row is a retriever in an evaluation, the oldest first.

    Attributes:
        experiment: its name.
        metric: with its cut-off.
        rows: see :func:`rag_assets.report.history.history_rows`.
    """

    def __init__(self, experiment: str, metric: Metric, rows: Sequence[Row]) -> None:
        """Hold what was read."""
        self.experiment = experiment
        self.metric = metric
        self.rows = list(rows)

    @classmethod
    def of(
        cls,
        history: History,
        metric: str | None = None,
        retrievers: Sequence[str] = (),
        split: str | None = None,
        last: int = 10,
    ) -> MetricHistory:
        """Read the last evaluations.

        Args:
            history: the experiment's evaluations.
            metric: such as ``recall@10`` or ``answer_f1``; the primary one of the last evaluation
                when absent, of answerers F1.
            retrievers: whose values, answerers as ``plain@5``; all when empty.
            split: whose queries; ``test`` where there is one when absent.
            last: so many of the newest evaluations.

        Raises:
            NotEvaluated: there is no evaluation, or none with the metric.
            UsageError: an unknown metric or retriever.
        """
        evaluations = history.evaluations(last + 1)
        if not evaluations:
            root = history.root
            raise NotEvaluated(f"{root.name} has no evaluation in {root.parent} yet")
        primary = parse_metric(str(evaluations[-1]["primary_metric"]))
        if metric is None and any(map(is_answerer, retrievers)):
            metric = ANSWER_HEADLINES[0]
        chosen_metric = _time_at(metric, primary) or metric_at(metric, primary)
        check_names(chosen_metric, retrievers)
        since = str(evaluations[0]["evaluation_id"])
        values = _values(history, chosen_metric, since)
        if metric is None and not values:  # what a sample of labels decides, where there is one
            decided, *_ = sampled_metrics(primary, primary.cutoff or 0)
            sampled = decided._replace(measure=SAMPLED + decided.measure)
            values = _values(history, sampled, since)
            chosen_metric = sampled if values else chosen_metric
        _check(chosen_metric, retrievers, [str(row["retriever"]) for row in values])
        chosen = [row for row in values if not retrievers or row["retriever"] in retrievers]
        shown = {row["evaluation_id"] for row in evaluations[-last:]}
        rows = history_rows(evaluations, chosen, split)
        if is_judged(chosen_metric) or is_sampled(chosen_metric):
            rows = _with_judges(rows, values)
        return cls(
            history.root.name, chosen_metric, [row for row in rows if row["evaluation_id"] in shown]
        )

    def to_arrow(self) -> pa.Table:
        """Return a table of :data:`SCHEMA`; of answerers with ``answerer`` for ``retriever``."""
        rows = flat_history_rows(self.rows)
        started = SCHEMA.field("started").type
        arrays = [
            pa.array([row[name] for row in rows], pa.string()).cast(started)
            if name == "started"
            else pa.array([row[name] for row in rows], SCHEMA.field(name).type)
            for name in SCHEMA.names
        ]
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        return table.rename_columns(list(named(dict.fromkeys(SCHEMA.names), self.metric)))

    def plot(self, *, dark: bool = False) -> go.Figure:
        """Return a line a retriever; only evaluations that can be compared are joined.

        Args:
            dark: for a dark page.
        """
        groups = list(_by_evaluation(self.rows).values())
        names = list(dict.fromkeys(row["retriever"] for row in self.rows if row["retriever"]))
        broken = [n for n, group in enumerate(groups) if n and group[0]["comparable"] is False]
        traces = [_line(groups, name, look(n, dark), broken) for n, name in enumerate(names)]
        metric = plain(str(self.metric))
        step = max(-(-len(groups) // MAX_DATES), 1)
        dated = range(len(groups) - 1, -1, -step)
        return figure(
            traces,
            dark,
            title=f"{plain(self.experiment)}: {metric} over evaluations",
            xaxis={
                "tickvals": [n + 1 for n in dated],
                "ticktext": [time_text(groups[n][0]).replace(" ", "<br>") for n in dated],
                "tickangle": 0,
                "showgrid": False,
                "zeroline": False,
            },
            yaxis={"title": {"text": metric}},
            shapes=[_break(n + 0.5, dark) for n in broken],
        )

    def _sheets(self) -> list[Sheet]:
        """Return a row an evaluation and retriever, the newest evaluation first."""
        groups = reversed(list(_by_evaluation(self.rows).values()))
        title = f"{self.experiment}: {self.metric} over evaluations"
        sheet = history_sheet([row for group in groups for row in group], str(self.metric), title)
        note = "without a change: the first of its name, or over other queries, labels or weights"
        return [replace(sheet, notes=[note])]


def _time_at(name: str | None, primary: Metric) -> Metric | None:
    """Return ``cost_time`` at its cut-off or the primary one; None: another metric is meant."""
    measure, _, cutoff = (name or "").partition("@")
    if measure != COST_TIME or not (cutoff.isdecimal() or not cutoff):
        return None
    return Metric(COST_TIME, int(cutoff) if cutoff else primary.cutoff)


def _values(history: History, metric: Metric, since: str) -> list[Row]:
    """Return the values of a metric; an answerer stands where a retriever does."""
    if is_judged(metric):
        return _judged(history, metric, since)
    if is_sampled(metric):
        own = str(metric).removeprefix(SAMPLED)
        rows = history.judged_metric("", own, since)
        return [{**row, "retriever": row["name"], "n_queries": row["n"]} for row in rows]
    if not is_of_answers(metric):
        return history.metric(metric.column, metric.cutoff or 0, since=since)
    return [
        {**row, "retriever": row["answerer"], "n_queries": row["n_questions"]}
        for row in history.answer_metric(metric.column, since)
    ]


def _judged(history: History, metric: Metric, since: str) -> list[Row]:
    """Return the calibrated means of one judge; of the judge that is there where none is named.

    Raises:
        UsageError: there are several.
    """
    rows = history.judged_metric(judge_named(metric), JUDGED_CORRECT, since)
    judges = list(dict.fromkeys(str(row["judge"]) for row in rows))
    if len(judges) > 1:
        names = ", ".join(f"{JUDGED_CORRECT}:{name}" for name in judges)
        raise UsageError(f"{JUDGED_CORRECT} needs its judge: {names}")
    return [{**row, "retriever": row["name"], "n_queries": row["n"]} for row in rows]


def _with_judges(rows: Sequence[Row], values: Sequence[Row]) -> list[Row]:
    """Return rows of the history that also say where the judge, or the labels, are others."""
    judged = {row["evaluation_id"]: row for row in values}
    told: dict[str, list[dict[str, Any]]] = {}
    last: Row | None = None
    for name in dict.fromkeys(row["evaluation_id"] for row in rows):
        now = judged.get(name, last)
        if last is not None and now is not None:
            labels = "labelled answers" if now["judge"] else "sampled labels"
            whats = {"fingerprint": f"judge {now['judge']}", "n_labels": labels}
            told[name] = [
                {"what": what, "old": str(last[column]), "new": str(now[column])}
                for column, what in whats.items()
                if last[column] != now[column]
            ]
        last = now
    return [
        {**row, "changes": [*row["changes"], *told.get(row["evaluation_id"], [])]} for row in rows
    ]


def _check(metric: Metric, names: Sequence[str], available: list[str]) -> None:
    if not available:
        raise NotEvaluated(f"none of these evaluations has a cell of {metric}")
    for name in names:
        if name not in available:
            raise UsageError(
                f"unknown {noun(metric)} {allowed_names(name, dict.fromkeys(available))}"
            )


def _by_evaluation(rows: list[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["evaluation_id"], []).append(row)
    return groups


def _line(
    groups: list[list[Row]], name: str, drawn: dict[str, str], broken: list[int]
) -> dict[str, Any]:
    points: list[tuple[float, float | None, str]] = []
    for n, group in enumerate(groups):
        if n in broken:
            points.append((n + 0.5, None, ""))
        points += [
            (n + 1, row["value"], plain(what_changed(row)[:MAX_CHARACTERS]))
            for row in group
            if row["retriever"] == name
        ]
    x, y, texts = zip(*points, strict=True)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        "x": x,
        "y": y,
        "customdata": [[text] for text in texts],
        "line": {"color": drawn["colour"], "dash": drawn["dash"], "width": 2},
        "marker": {"color": drawn["colour"], "symbol": drawn["symbol"], "size": 9},
        "hovertemplate": "%{fullData.name}: %{y:.4f}<br>%{customdata[0]}<extra></extra>",
    }


def _break(x: float, dark: bool) -> dict[str, Any]:
    line = {"color": colours(dark)["soft"], "dash": "dot", "width": 2}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}
