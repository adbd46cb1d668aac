"""What judges say, calibrated with labels of people: rows for programs, and for a terminal.

What a judge says is shown only beside what it is calibrated to: alone it is no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType

from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, counting_of
from rag_assets.judges.calibration import (
    JUDGED_CORRECT,
    N_UNITS,
    Sample,
    difference_row,
    questions_with_golds,
    samples,
)
from rag_assets.report.formats import interval_name, interval_text
from rag_assets.report.metric_choice import judge_named
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import FittedTable, number_cell, plain_cell, title_line

Row = dict[str, Any]

ASSETS = ("calibrated_means", "calibrated_rankings")
"""What calibrates means: of answerers, and of retrievers."""


def how(result: EvaluationResult) -> str:
    """Return how people give the labels that calibrate the judges of an evaluation."""
    kind = "" if result.evaluation.entries_of("answer_verdicts") else " --passages"
    return f"`rag-assets judge sheet PATH{kind}` draws the questions that people should label"


def judged_rows(result: EvaluationResult, split: str | None = None) -> list[Row]:
    """Return a row for each calibrated mean: judge by judge, in the order of the experiment.

    Args:
        result: the evaluation; one without judges, or without labels of people, has no rows.
        split: of the questions; all splits when absent.

    Returns:
        ``by`` (the judge), the columns of :data:`rag_assets.schemas.CALIBRATED_MEANS`, ``judge``
        None where nothing is calibrated, and ``worth``: how many labels alone give so narrow an
        interval.
    """
    rows = []
    entries = [entry for asset in ASSETS for entry in result.evaluation.entries_of(asset)]
    for entry in entries:
        for row in result.table(entry.key).to_pylist():
            if split in (None, row["split"]):
                rows.append({"by": entry.partition["judge"], **shown(row)})
    return rows


def shown(row: Row) -> Row:
    """Return a stored row without what the judge says where nothing calibrates it."""
    judge = row["judge"] if row["calibrated"] is not None else None
    known = {name: value for name, value in row.items() if name != N_UNITS}
    return {**known, "judge": judge, "worth": worth(row)}


def worth(row: Row) -> float | None:
    """Return how many labels alone would give as narrow an interval; None without intervals."""
    if None in (row["low"], row["human_low"]) or row["n_labels"] == 0:
        return None
    width, alone = row["high"] - row["low"], row["human_high"] - row["human_low"]
    return row["n_labels"] * (alone / width) ** 2 if width > 0 else None


def judged_parts(result: EvaluationResult, split: str) -> list[RenderableType]:
    """Return a heading and a table of each judge and metric; nothing where there is no judge."""
    rows = judged_rows(result, split)
    parts: list[RenderableType] = []
    for judge in judge_names(result):
        own = by_metric(row for row in rows if row["by"] == judge)
        for metric, of_metric in own.items():
            measure = metric.partition("@")[0]
            if measure not in (JUDGED_CORRECT, result.primary.column):
                continue  # the report and programs have the others
            head = title_line(f"{metric} by {judge}, {of_metric[0]['n']} questions")
            what = "answerer" if metric == JUDGED_CORRECT else "retriever"
            table = _table(what, [(row["name"], row) for row in of_metric])
            parts += ["", head, table, *_notes(of_metric)]
        if not own:
            parts += [
                "",
                f"judge {judge}: no labels of people, so its verdicts count nowhere; {how(result)}",
            ]
    return parts


def judge_names(result: EvaluationResult) -> list[str]:
    """Return the judges of an evaluation, of answers and of passages, each once."""
    passages = result.evaluation.entries_of("relevance_verdicts")
    return list(dict.fromkeys([*result.judges, *(one.partition["judge"] for one in passages)]))


def by_metric(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return metric -> its rows."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["metric"], []).append(row)
    return found


def _table(what: str, named: Sequence[tuple[str, Row]], form: str = ".4f") -> RenderableType:
    """Return a table of means, or of differences; a row is a name and its values."""
    table = FittedTable(required=["calibrated"])
    table.text_column(what)
    interval = interval_name(named[0][1]["confidence"])
    for heading in ("judge", "calibrated", interval, "labels", "labels alone"):
        table.number_column(heading)
    for name, row in named:
        human = {"low": row["human_low"], "high": row["human_high"]}
        table.add_row(
            plain_cell(name),
            number_cell(row["judge"], form),
            number_cell(row["calibrated"], form),
            interval_text(row),
            str(row["n_labels"]),
            interval_text(human),
        )
    return table


def _notes(rows: Sequence[Row]) -> Iterator[RenderableType]:
    for row in rows:
        if row["reason"] is not None:
            yield plain_cell(f"{row['name']}: {row['reason']}")
    if text := worth_text(rows):
        yield text
    if text := missing_text(rows):
        yield plain_cell(text)


def missing_text(rows: Sequence[Row]) -> str | None:
    """Return how many verdicts of a metric are missing, by name where they differ; None: none."""
    numbers = {row["name"]: row["n_missing"] for row in rows}
    if not any(numbers.values()):
        return None
    if len(set(numbers.values())) == 1:
        counts = f"{rows[0]['n_missing']} questions"
    else:
        listed = ", ".join(f"{name} {number}" for name, number in numbers.items() if number)
        counts = f"questions ({listed})"
    return f"{counts} without a verdict, which counts as nothing, not as 0"


def worth_text(rows: Sequence[Row]) -> str | None:
    """Return what the verdicts bring to the labels, in a sentence; None without intervals."""
    values = [row["worth"] / row["n_labels"] for row in rows if row["worth"] is not None]
    if not values:
        return None
    least, most = f"{min(values):.2f}", f"{max(values):.2f}"
    times = least if least == most else f"{least} to {most}"
    return f"with the verdicts, a label is worth {times} labels alone"


def sample_of(result: EvaluationResult, split: str) -> Sample | None:
    """Return the questions of a split that can be judged; None: there is none."""
    questions = questions_with_golds(result.table(QUERY_FACTS_KEY))
    for sample in samples(counting_of(result.table), questions, result.answer_labels):
        if sample.counted.split == split:
            return sample
    return None


def judged_differences(
    result: EvaluationResult, metric: Metric, split: str, names: Sequence[str] = ()
) -> list[Row]:
    """Return rows of :data:`rag_assets.schemas.CALIBRATED_DIFFERENCES` with ``by``, the judge.

    Args:
        result: the evaluation.
        metric: ``judged_correct`` with its judge.
        split: of the questions.
        names: two answerers, the second is compared with the first; all pairs when empty.

    Raises:
        NotEvaluated: the evaluation has none, or none of these names.
    """
    judge = judge_named(metric)
    if not names:
        rows = [
            row
            for entry in result.evaluation.entries_of("calibrated_differences")
            if entry.partition["judge"] == judge
            for row in result.table(entry.key).to_pylist()
            if row["split"] == split
        ]
    else:
        rows = _pair(result, metric, split, names)
    if not rows:
        problem = (
            f"the last evaluation of {result.evaluation.experiment} has no calibrated {metric}"
        )
        raise NotEvaluated(f"{problem} to compare; {how(result)}")
    return [{"by": judge, **shown(row)} for row in rows]


def _pair(result: EvaluationResult, metric: Metric, split: str, names: Sequence[str]) -> list[Row]:
    cells, sample = result.cells_of(metric), sample_of(result, split)
    a, b = names
    if sample is None or a not in cells or b not in cells:
        return []
    entries = result.evaluation.entries_of("calibrated_differences")
    manifest = result.manifest_of(entries[0]) if entries else None
    level = manifest.config["confidence"] if manifest is not None else 0.95
    return [difference_row((a, b), JUDGED_CORRECT, (cells[a], cells[b]), sample, level)]


def difference_text(row: Row) -> str:
    """Return what a calibrated difference comes to, in one sentence that claims no more."""
    a, b = row["name_a"], row["name_b"]
    if row["calibrated"] is None:
        return f"{b} against {a}: {row['reason']}"
    size = f"{abs(row['calibrated']):.4f}"
    better, worse = (b, a) if row["calibrated"] >= 0 else (a, b)
    if row["low"] is None:
        return f"no interval for {b} against {a}: {row['reason']}"
    if row["low"] == row["high"] == 0:
        return f"{a} and {b} give the same answers"
    low, high = (row["low"], row["high"]) if better == b else (-row["high"], -row["low"])
    rest = f"{size} [{low:.4f}, {high:.4f}], {row['n_labels']} labels"
    if low > 0:
        return f"{better} is more often correct than {worse} by {rest}"
    return f"no difference shown between {a} and {b}: {better} is ahead by {rest}"


def differences_view(rows: Sequence[Row], title: str) -> RenderableType:
    """Return a table of pairs, each read as "the second minus the first", and what they come to."""
    pairs = [(f"{row['name_b']} - {row['name_a']}", row) for row in rows]
    table = _table("answerers", pairs, "+.4f")
    said = (plain_cell(difference_text(row)) for row in rows)
    return Group(title_line(title), table, "", *said)
