"""What a sample of labels says so far: estimates, decided differences, what is left to judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

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
from rag_assets.report.sheet import INTERVAL, SIGNED, TEXT, Column, Sheet


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
        counted, judged = sample.pool.counted, sample.judged
        first, *rest = sampled_metrics(experiment.primary, depth)
        now = sample_status(sample, first, lines, clusters, level)
        notes = [*_notes(experiment, clusters), *_outside(now)]
        others: list[Row] = []
        if now.estimates:
            others = [row for one in rest for row in estimate_rows(sample, one, clusters, level)]
            notes.append(PRICE)
        return LabelStatus(
            n_items=int(counted.sum()),
            n_judged=int(judged.sum()),
            n_missing=int((sample.asked & ~judged & counted).sum()),
            n_certain=int((sample.certain & counted).sum()),
            n_questions=len(sample.pool.question_ids),
            level=level,
            standing=now,
            others=tuple(others),
            notes=tuple(notes),
            question_marks=mark_counts(read_marks(experiment.question_marks_file)),
            sources=source_counts(lines),
        )

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


def status_sheets(experiment: str, status: LabelStatus) -> list[Sheet]:
    """Return the tables of a status."""
    counts = (
        f"{experiment}: {status.n_judged} of {status.n_items} passages judged, "
        f"{status.n_missing} asked without a grade, {status.n_certain} labelled before; "
        f"{status.n_questions} questions"
    )
    heads = [counts]
    if marks := status.question_marks:
        n_out = sum(marks.get(mark, 0) for mark in LEFT_OUT)
        heads.append(f"questions: {mark_counts_text(marks)}; {n_out} left out of evaluations")
    if status.sources.keys() - {PERSON}:
        heads.append(f"by source: {mark_counts_text(status.sources)}")
    notes = [f"note: {note}" for note in status.notes]
    now = status.standing
    if not now.estimates:
        nothing = "nothing is estimated yet: no passage of the sample is judged"
        return [Sheet("", (), (), notes=[*heads, nothing, *notes])]
    estimates = (*now.estimates, *status.others)
    sheets = [
        _estimates(metric, [row for row in estimates if row["metric"] == metric], status.level)
        for metric in dict.fromkeys(str(row["metric"]) for row in estimates)
    ]
    sheets += [_differences(now, status.level)] if now.differences else []
    last = replace(sheets[-1], notes=[*sheets[-1].notes, *notes])
    return [Sheet("", (), (), notes=heads), *sheets[:-1], last]


def _estimates(metric: str, rows: Sequence[Row], level: float) -> Sheet:
    items, questions = ITEMS.replace(" and", "\nand"), QUESTIONS.replace(" like", "\nlike")
    unsure = any(row["lowest"] != row["highest"] for row in rows)
    columns = (
        Column("retriever", "retriever", TEXT),
        Column("value", metric),
        Column("items", items, INTERVAL, bounds=("items_low", "items_high")),
        Column("questions", questions, INTERVAL, bounds=("questions_low", "questions_high")),
        Column("n_labels", "labels", "d"),
        Column("effective_labels", "effective", ".1f"),
        *([Column("", "cannot tell", INTERVAL, bounds=("lowest", "highest"))] if unsure else []),
    )
    return Sheet(f"estimated {metric}, with {level:.0%} intervals", columns, rows)


def _differences(now: SampleStatus, level: float) -> Sheet:
    rows = [
        {
            **row,
            "state": "yes" if row["decided"] else "no",
            **({} if row["decided"] else {name: _range(row, name) for name in _MORE}),
        }
        for row in now.differences
    ]
    columns = (
        Column("retriever_a", "a", TEXT),
        Column("retriever_b", "b", TEXT),
        Column("value", "a - b", SIGNED, bounds=("low", "high"), interval="interval"),
        Column("state", "decided", "s"),
        *(Column(name, title, "s") for name, title in _MORE.items()),
    )
    metric = now.differences[0]["metric"]
    title = f"differences of {metric} on {ITEMS}, {level:.0%} however often one looks"
    return Sheet(title, columns, rows, notes=[_rest(now)])


_MORE = {"more_judgments": "more\njudgments", "more_minutes": "minutes"}


def _rest(now: SampleStatus) -> str:
    n_decided = sum(bool(row["decided"]) for row in now.differences)
    text = f"{n_decided} of {len(now.differences)} differences are decided"
    if n_decided < len(now.differences):
        row = now._asdict()
        time = _range(row, "more_minutes")
        pace = "" if time is None else f" ({time} minutes at the pace so far)"
        text += (
            f"; the rest takes about {_range(row, 'more_judgments') or '-'} more judgments{pace}"
        )
    return text


def _range(row: Row, name: str) -> str | None:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None or high is None:
        return None
    return str(low) if low == high else f"{low} to {high}"
