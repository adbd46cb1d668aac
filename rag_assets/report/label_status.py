"""What a sample of labels says so far: estimates, decided differences, and what is left to judge.

Two targets, which are never mixed: estimates have an interval for *these questions and this pool*
and one for *questions like these*. Decisions, and how much more is to be judged, speak of the
first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.evaluation.metric_names import Metric
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.sampling.confidence_sequence import decisions, minutes
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.labels.sampling.judgment_log import LoggedJudgment
from rag_assets.labels.sampling.label_pool import LINEAR, POOL_RECALL
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.report.formats import Row
from rag_assets.report.terminal_table import FittedTable, number_cell, plain_cell, title_line

ITEMS, QUESTIONS = "these questions and this pool", "questions like these"


@dataclass(frozen=True)
class LabelStatus:
    """What the labels say so far.

    Attributes:
        n_items, n_judged, n_missing, n_certain: passages of the pool; drawn and judged; drawn and
            without a grade; with a label of the dataset.
        n_questions: of all splits; each counts 1.
        level: of each interval; of each decision over all looks together.
        estimates: one row a metric and retriever, the best first: ``metric``, ``retriever``,
            ``value``; ``items_low``, ``items_high`` of :data:`ITEMS`; ``questions_low``,
            ``questions_high`` of :data:`QUESTIONS`; ``lowest``, ``highest``: with all "cannot tell"
            at the lowest and the highest gain; ``n_labels``, ``effective_labels``.
        differences: one row a pair: ``metric``, ``retriever_a``, ``retriever_b``, ``value``,
            ``low``, ``high``, ``decided``, ``more_judgments``, ``more_minutes``.
        more_judgments, more_minutes: that decide all pairs; minutes are None without a pace.
        notes: what the numbers do not say.
    """

    n_items: int
    n_judged: int
    n_missing: int
    n_certain: int
    n_questions: int
    level: float
    estimates: tuple[Row, ...] = ()
    differences: tuple[Row, ...] = ()
    more_judgments: int | None = None
    more_minutes: float | None = None
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(
        experiment: Experiment,
        sample: LabelSample,
        lines: Sequence[LoggedJudgment],
        depth: int,
        clusters: Sequence[str] | None,
    ) -> LabelStatus:
        """Return the status of an experiment's sample.

        Args:
            experiment: whose metric is decided.
            sample: the pool with its labels.
            lines: of the log, for the pace.
            depth: of the pool.
            clusters: one name a question; None: each is its own.
        """
        level = experiment.statistics.confidence
        judged = sample.judged
        counts = (
            len(sample.pool.items),
            int(judged.sum()),
            int((sample.asked & ~judged).sum()),
            int(sample.certain.sum()),
            len(sample.pool.question_ids),
            level,
        )
        notes = tuple(_notes(experiment, clusters))
        if not judged.any() and not sample.certain.all():
            return LabelStatus(*counts, notes=notes)
        metrics = _metrics(experiment.primary, depth)
        estimates = [row for one in metrics for row in _estimates(sample, one, clusters, level)]
        order = [str(row["retriever"]) for row in estimates if row["metric"] == str(metrics[0])]
        differences = _differences(sample, metrics[0], order, lines, level)
        more = max((int(str(row["more_judgments"])) for row in differences), default=0)
        time = _minutes(lines, more)
        return LabelStatus(*counts, tuple(estimates), tuple(differences), more, time, notes)

    def as_row(self) -> Row:
        """Return everything as one mapping, for programs."""
        return {**asdict(self), "targets": {"items": ITEMS, "questions": QUESTIONS}}


def _metrics(primary: Metric, depth: int) -> tuple[Metric, ...]:
    """Return dcg and precision, the one that is decided first."""
    usual = (Metric("dcg", depth), Metric("precision", depth))
    if primary.measure not in LINEAR or primary.measure == POOL_RECALL or primary.cutoff != depth:
        return usual
    return (primary, *(one for one in usual if one.measure != primary.measure))


def _notes(experiment: Experiment, clusters: Sequence[str] | None) -> Iterator[str]:
    if experiment.primary.measure not in LINEAR:
        yield (
            f"{experiment.primary} is no sum over passages, so a sample of them does not estimate "
            "it; `primary: dcg@k` or `precision@k` is what it decides"
        )
    if experiment.split is not None:
        yield "questions of dev and test count together"
    if experiment.weight is not None:
        yield f"every question counts 1; {experiment.weight!r} is not read"
    if experiment.statistics.cluster != "none" and clusters is None:
        yield f"{QUESTIONS}: each is taken for independent; clusters are known with labels only"


def _estimates(
    sample: LabelSample, metric: Metric, clusters: Sequence[str] | None, level: float
) -> list[Row]:
    estimator = Estimator(sample, metric, clusters)
    of_items = estimator.estimates("items", level)
    of_questions = estimator.estimates("questions", level)
    return [
        {
            "metric": str(metric),
            "retriever": name,
            "value": one.value,
            "items_low": _finite(one.low),
            "items_high": _finite(one.high),
            "questions_low": _finite(of_questions[name].low),
            "questions_high": _finite(of_questions[name].high),
            "lowest": one.lowest,
            "highest": one.highest,
            "n_labels": one.n_labels,
            "effective_labels": one.effective_labels,
        }
        for name, one in sorted(of_items.items(), key=lambda pair: (-pair[1].value, pair[0]))
    ]


def _differences(
    sample: LabelSample,
    metric: Metric,
    order: Sequence[str],
    lines: Sequence[LoggedJudgment],
    level: float,
) -> list[Row]:
    pairs = list(combinations(order, 2))
    return [
        {
            "metric": str(metric),
            "retriever_a": first,
            "retriever_b": second,
            "value": one.value,
            "low": _finite(one.low),
            "high": _finite(one.high),
            "decided": one.decided,
            "more_judgments": one.more,
            "more_minutes": _minutes(lines, one.more),
        }
        for (first, second), one in decisions(sample, metric, level=level, pairs=pairs).items()
    ]


def _minutes(lines: Sequence[LoggedJudgment], more: int) -> float | None:
    time = minutes(lines, more)
    return None if time is None else float(math.ceil(time))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def status_view(experiment: str, status: LabelStatus) -> RenderableType:
    """Return the tables of a status.

    Args:
        experiment: its name.
        status: what the labels say.
    """
    counts = (
        f"{experiment}: {status.n_judged} of {status.n_items} passages judged, "
        f"{status.n_missing} asked without a grade, {status.n_certain} labelled before; "
        f"{status.n_questions} questions"
    )
    notes = [Text(f"note: {note}") for note in status.notes]
    if not status.estimates:
        return Group(
            Text(counts),
            Text("nothing is estimated yet: no passage of the sample is judged"),
            *notes,
        )
    parts: list[RenderableType] = [Text(counts)]
    for metric in dict.fromkeys(str(row["metric"]) for row in status.estimates):
        rows = [row for row in status.estimates if row["metric"] == metric]
        title = f"estimated {metric}, with {status.level:.0%} intervals"
        parts += ["", title_line(title), _estimate_table(metric, rows)]
    if status.differences:
        metric = str(status.differences[0]["metric"])
        title = f"differences of {metric} on {ITEMS}, {status.level:.0%} however often one looks"
        parts += ["", title_line(title), _difference_table(status.differences), _rest(status)]
    return Group(*parts, *notes)


def _estimate_table(metric: str, rows: Sequence[Row]) -> RenderableType:
    table = FittedTable()
    table.text_column("retriever")
    unsure = any(row["lowest"] != row["highest"] for row in rows)
    headers = (metric, ITEMS.replace(" and", "\nand"), QUESTIONS.replace(" like", "\nlike"))
    for header in (*headers, "labels", "effective", *(["cannot tell"] if unsure else [])):
        table.number_column(header)
    for row in rows:
        bounds = [_interval(row["lowest"], row["highest"])] if unsure else []
        table.add_row(
            plain_cell(row["retriever"]),
            number_cell(row["value"]),
            _interval(row["items_low"], row["items_high"]),
            _interval(row["questions_low"], row["questions_high"]),
            str(row["n_labels"]),
            number_cell(row["effective_labels"], ".1f"),
            *bounds,
        )
    return table


def _difference_table(rows: Sequence[Row]) -> RenderableType:
    table = FittedTable()
    table.text_column("a")
    table.text_column("b")
    for header in ("a - b", "interval", "decided", "more\njudgments", "minutes"):
        table.number_column(header)
    for row in rows:
        is_open = not row["decided"]
        table.add_row(
            plain_cell(row["retriever_a"]),
            plain_cell(row["retriever_b"]),
            number_cell(row["value"], "+.4f"),
            _interval(row["low"], row["high"], "+.4f"),
            "no" if is_open else "yes",
            str(row["more_judgments"]) if is_open else "-",
            number_cell(row["more_minutes"] if is_open else None, ".0f"),
        )
    return table


def _rest(status: LabelStatus) -> Text:
    n_decided = sum(bool(row["decided"]) for row in status.differences)
    text = f"{n_decided} of {len(status.differences)} differences are decided"
    if n_decided < len(status.differences):
        time = status.more_minutes
        pace = "" if time is None else f", {time:.0f} minutes at the pace so far,"
        text += f"; about {status.more_judgments} more judgments{pace} decide the rest"
    return Text(text)


def _interval(low: object, high: object, form: str = ".4f") -> str:
    return "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"
