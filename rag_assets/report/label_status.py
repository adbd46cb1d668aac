"""What a sample of labels says so far: estimates, decided differences, what is left to judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.question_marks import (
    LEFT_OUT,
    mark_counts,
    mark_counts_text,
    read_marks,
)
from rag_assets.labels.sampling.judgment_log import PERSON, LoggedJudgment, source_counts
from rag_assets.labels.sampling.label_pool import LINEAR, sampled_metrics
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.labels.sampling.standing import (
    ITEMS,
    PRICE,
    QUESTIONS,
    SampleStatus,
    estimate_rows,
    sample_status,
)
from rag_assets.report.formats import Row
from rag_assets.report.terminal_table import FittedTable, number_cell, plain_cell, title_line


@dataclass(frozen=True)
class LabelStatus:
    """What the labels say so far.

    Attributes:
        n_items, n_judged, n_missing, n_certain: passages of the pool; drawn and judged; drawn and
            without a grade; with a label of the dataset.
        n_questions: of all splits; each counts 1.
        level: of each interval; of each decision over all looks together.
        standing: of the metric that is decided.
        others: rows of :func:`..labels.sampling.standing.estimate_rows` of other metrics.
        notes: what the numbers do not say.
        question_marks: mark -> how many questions people gave it.
        sources: source -> how many lines of the log are from it; the last of each passage.
    """

    n_items: int
    n_judged: int
    n_missing: int
    n_certain: int
    n_questions: int
    level: float
    standing: SampleStatus
    others: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    question_marks: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, int] = field(default_factory=dict)

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
        counted = sample.pool.counted
        judged = sample.judged
        counts = (
            int(counted.sum()),
            int(judged.sum()),
            int((sample.asked & ~judged & counted).sum()),
            int((sample.certain & counted).sum()),
            len(sample.pool.question_ids),
            level,
        )
        first, *rest = sampled_metrics(experiment.primary, depth)
        now = sample_status(sample, first, lines, clusters, level)
        notes = [*_notes(experiment, clusters), *_outside(now)]
        others: list[Row] = []
        if now.estimates:
            others = [row for one in rest for row in estimate_rows(sample, one, clusters, level)]
            notes.append(PRICE)
        marks = mark_counts(read_marks(experiment.question_marks_file))
        return LabelStatus(*counts, now, tuple(others), tuple(notes), marks, source_counts(lines))

    def as_row(self) -> Row:
        """Return everything as one mapping, for programs."""
        row = asdict(self)
        now = row.pop("standing")._asdict()
        estimates = [*now.pop("estimates"), *row.pop("others")]
        targets = {"items": ITEMS, "questions": QUESTIONS}
        return {**row, "estimates": estimates, **now, "targets": targets}


def _notes(experiment: Experiment, clusters: Sequence[str] | None) -> Iterator[str]:
    if experiment.primary.measure not in LINEAR:
        yield (
            f"{experiment.primary} is no sum over passages, so a sample of them does not estimate "
            "it; set `primary` to dcg@k or precision@k, which it does estimate"
        )
    if experiment.config.split is not None:
        yield "questions of dev and test count together"
    if experiment.weight is not None:
        yield f"every question counts 1; {experiment.weight!r} is not read"
    if experiment.statistics.cluster != "none" and clusters is None:
        yield f"{QUESTIONS}: each is taken for independent; clusters are known with labels only"


def _outside(now: SampleStatus) -> Iterator[str]:
    pairs = [row for row in now.differences if row["outside"]]
    if pairs:
        names = ", ".join(f"{row['retriever_a']} - {row['retriever_b']}" for row in pairs)
        yield (
            f"the estimate lies outside the interval that earlier looks allow: {names}; one of the "
            "two is wrong, which happens in about one pair of a hundred, and more judgments tell"
        )


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
    heads = [Text(counts), *_told_counts(status)]
    now = status.standing
    if not now.estimates:
        return Group(
            *heads,
            Text("nothing is estimated yet: no passage of the sample is judged"),
            *notes,
        )
    parts: list[RenderableType] = [*heads]
    estimates = (*now.estimates, *status.others)
    for metric in dict.fromkeys(str(row["metric"]) for row in estimates):
        rows = [row for row in estimates if row["metric"] == metric]
        title = f"estimated {metric}, with {status.level:.0%} intervals"
        parts += ["", title_line(title), _estimate_table(metric, rows)]
    if now.differences:
        metric = str(now.differences[0]["metric"])
        title = f"differences of {metric} on {ITEMS}, {status.level:.0%} however often one looks"
        parts += ["", title_line(title), _difference_table(now.differences), _rest(now)]
    return Group(*parts, *notes)


def _told_counts(status: LabelStatus) -> Iterator[Text]:
    if status.question_marks:
        n_out = sum(status.question_marks.get(mark, 0) for mark in LEFT_OUT)
        yield Text(
            f"questions: {mark_counts_text(status.question_marks)}; {n_out} left out of evaluations"
        )
    if status.sources.keys() - {PERSON}:
        yield Text(f"by source: {mark_counts_text(status.sources)}")


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
            _range(row, "more_judgments") if is_open else "-",
            _range(row, "more_minutes") if is_open else "-",
        )
    return table


def _rest(now: SampleStatus) -> Text:
    n_decided = sum(bool(row["decided"]) for row in now.differences)
    text = f"{n_decided} of {len(now.differences)} differences are decided"
    if n_decided < len(now.differences):
        row = now._asdict()
        time = _range(row, "more_minutes")
        pace = "" if time == "-" else f" ({time} minutes at the pace so far)"
        text += f"; the rest takes about {_range(row, 'more_judgments')} more judgments{pace}"
    return Text(text)


def _range(row: Row, name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None or high is None:
        return "-"
    return str(low) if low == high else f"{low} to {high}"


def _interval(low: object, high: object, form: str = ".4f") -> str:
    return "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"
