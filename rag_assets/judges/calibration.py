"""Means and differences of a judge's verdicts, calibrated with what people say of drawn questions.

A value a question: whether an answer is correct, or a metric of a retriever. Both have one by the
judge and, of questions that were drawn at random, one by people; PPI++ joins the two.

A failed answer, and one without a word, is not correct: nobody has to say so. Two answers that are
equal, character by character, differ by 0 whatever anybody says of them. So a difference between
two evaluations is about the answers that changed alone, and a judge that was exchanged changes
nothing of it.

An estimate needs a label of every answer to every drawn question. Those that happen to have one
are no random sample: an answer that changed has none yet, and would be left out. A mean is then
estimated from labels of other answers, by Rogan and Gladen, and that is said; a difference is not,
since a judge that likes one system would make it.

Of passages people label all of a drawn question that are in the pool. The items are merged spans of
all retrievers, and the relevant ones among them are all that is known to be relevant, so values
speak of this pool. A question without a relevant passage counts 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.evaluation.dialects.tools import precisions
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.judges.answer_labels import ClaimLabel, claim_id, drawn_so_far, needs_person
from rag_assets.judges.base import HIGHEST, OF_CLAIMS, ClaimItem
from rag_assets.labels.logs import LoggedJudgment
from rag_assets.labels.pool import LabelPool, PooledUnit, SamePassages, units_in
from rag_assets.schemas import RELEVANT_UNITS, RUNS, column_values
from rag_assets.statistics.calibration import (
    Estimate,
    calibrated_difference,
    calibrated_mean,
    rogan_gladen,
)
from rag_assets.statistics.units import Counted, Counting, Floats, splits_counted

Row = dict[str, Any]
Flags = npt.NDArray[np.bool_]

JUDGED_CORRECT = "judged_correct"
"""Verdicts, and labels, on answers: 1 is correct."""

VERDICT, LABEL, OPEN = "verdict", "label", "open"

ROGAN_GLADEN_NOTE = (
    "until then, labels of other answers are used, as if the judge made equal errors on them"
)
"""What is said of an estimate that has no sample of its own."""

N_UNITS = "n_units"
"""Beside the columns of a row: how many independent units people labelled."""

JUDGED = pa.schema(
    [
        ("query_id", pa.string()),
        ("n_relevant", pa.int32()),  # as statistics of retrieval ask: every question counts
        ("answer", pa.string()),
        (VERDICT, pa.float64()),
        (LABEL, pa.float64()),
        (OPEN, pa.float64()),
    ]
)
"""One question of one answerer: what the judge and people say (null: nothing, or they cannot).

``open`` is 1 where nobody was asked, and 0 where nobody needs to be. It is null where a retriever
failed, which no mean reads.
"""


@dataclass(frozen=True)
class Sample:
    """The questions of one split that can be judged, and which of them were drawn."""

    counted: Counted
    drawn: Flags

    def only(self, chosen: Flags) -> Sample:
        """Return the same of some of the questions."""
        ids, clusters = (
            tuple(name for name, use in zip(names, chosen, strict=True) if use)
            for names in (self.counted.query_ids, self.counted.clusters)
        )
        weights = self.counted.weights[chosen]
        return Sample(Counted(self.counted.split, ids, weights, clusters), self.drawn[chosen])


def judged_answers(answers: pa.Table, verdicts: pa.Table, labels: pa.Table) -> pa.Table:
    """Put beside each answer of one answerer what a judge and people say of it: :data:`JUDGED`."""
    judged, labelled = _by_answer(verdicts), _by_answer(labels)
    rows = []
    for key in column_values(answers, "query_id", "answer"):
        is_said = needs_person(key[1])
        values = (judged.get(key), labelled.get(key)) if is_said else (0, 0)
        row = (key[0], 1, key[1], *values, float(is_said and key not in labelled))
        rows.append(dict(zip(JUDGED.names, row, strict=True)))
    return pa.Table.from_pylist(rows, JUDGED)


def judged_claims(
    answers: pa.Table,
    claims: Iterable[ClaimItem],
    verdicts: Mapping[tuple[str | int, ...], int | None],
    labels: Mapping[str, ClaimLabel],
) -> pa.Table:
    """Put the mean grades of its claims by a judge and by people beside each answer: `JUDGED`.

    ``claims`` are of one kind, whose best grade counts 1. Without the grade of one of its claims
    an answer has no value; one that failed or is blank claims nothing, and has 0.
    """
    of_question: dict[str, list[ClaimItem]] = {}
    for item in claims:
        of_question.setdefault(item.query_id, []).append(item)
    rows = []
    for query_id, answer in column_values(answers, "query_id", "answer"):
        items = of_question.get(query_id, [])
        given = [labels.get(claim_id(item)) for item in items]
        by_judge = _mean_grade(items, [verdicts.get(item.place) for item in items])
        by_people = _mean_grade(items, [label and label.grade for label in given])
        row = (query_id, 1, answer, by_judge, by_people, float(None in given))
        rows.append(dict(zip(JUDGED.names, row, strict=True)))
    return pa.Table.from_pylist(rows, JUDGED)


def _mean_grade(items: Sequence[ClaimItem], grades: Sequence[int | None]) -> float | None:
    given = [grade / HIGHEST[items[0].kind] for grade in grades if grade is not None]
    return sum(given) / (len(given) or 1) if len(given) == len(items) else None


def _by_answer(table: pa.Table) -> dict[tuple[str, str], Any]:
    rows = column_values(table, "query_id", "answer", "correct")
    return {(query_id, answer): correct for query_id, answer, correct in rows}


def samples(
    counting: Counting, questions: Collection[str], labelled: Collection[str]
) -> Iterator[Sample]:
    """Yield the questions of each split that can be judged, with those drawn for people.

    ``labelled`` are those that were drawn and labelled, without those that somebody chose.
    """
    for counted in splits_counted(counting, questions):
        drawn = drawn_so_far(dict(zip(counted.query_ids, counted.clusters, strict=True)), labelled)
        flags = np.array([name in drawn for name in counted.query_ids], dtype=np.bool_)
        yield Sample(counted, flags)


def labels_with_verdicts(labels: pa.Table, verdicts: pa.Table) -> tuple[Floats, Floats]:
    """Return label and verdict of every answer that has both, whoever gave it."""
    judged = _by_answer(verdicts)
    pairs = [(correct, judged.get(key)) for key, correct in _by_answer(labels).items()]
    both = [pair for pair in pairs if None not in pair]
    first, second = np.array(both, np.float64).reshape(-1, 2).T
    return first, second


def mean_row(
    name: str,
    metric: str,
    table: pa.Table,
    sample: Sample,
    level: float,
    elsewhere: tuple[Floats, Floats] | None = None,
) -> Row:
    """Return one row of :data:`rag_assets.schemas.CALIBRATED_MEANS`.

    The name is that of the answerer at its cut-off, or of the retriever. Where the questions have
    no sample of their own, a mean is estimated by ``elsewhere``, labels of other answers with the
    verdicts on them; ``human`` is then None, and ``reason`` says so.
    """
    worked = ~np.isnan(sample.counted.values(table, OPEN))
    n_failed, sample = int((~worked).sum()), sample.only(worked)
    verdicts, labels, is_open = (sample.counted.values(table, c) for c in (VERDICT, LABEL, OPEN))
    given = (sample, verdicts, labels, is_open > 0, level)
    kind = "answer" if metric == JUDGED_CORRECT else "claim" if metric in OF_CLAIMS else "passage"
    row = estimated_row(calibrated_mean, *given, subject=kind)
    row |= {name: row[name] + n_failed for name in ("n", "n_missing")}
    if row["calibrated"] is None and elsewhere is not None:
        estimate = rogan_gladen(*elsewhere, verdicts, level=level)
        if estimate.value is not None:
            reason = f"{row['reason']}; {ROGAN_GLADEN_NOTE}"
            row |= {**_estimated(estimate), "n_labels": estimate.n_labels, "reason": reason}
    return {"name": name, "split": sample.counted.split, "metric": metric, **row}


def difference_row(
    names: tuple[str, str],
    metric: str,
    tables: tuple[pa.Table, pa.Table],
    sample: Sample,
    level: float,
) -> Row:
    """Return one row of :data:`rag_assets.schemas.CALIBRATED_DIFFERENCES`, b - a.

    The two tables of :data:`JUDGED` may also be of two evaluations, and of two judges.
    """
    a, b = tables
    same = same_answers(a, b, sample)
    verdicts, labels = (
        np.where(same, 0.0, sample.counted.values(b, column) - sample.counted.values(a, column))
        for column in (VERDICT, LABEL)
    )
    is_open = ~same & ((sample.counted.values(a, OPEN) > 0) | (sample.counted.values(b, OPEN) > 0))
    row = estimated_row(calibrated_difference, sample, verdicts, labels, is_open, level)
    if same.all():  # nothing is to be estimated
        row |= {**dict.fromkeys(ESTIMATED, 0.0), "method": "equal answers", "reason": None}
    lead = {"name_a": names[0], "name_b": names[1], "split": sample.counted.split}
    return {**lead, "metric": metric, **row}


def same_answers(a: pa.Table, b: pa.Table, sample: Sample) -> Flags:
    """Return for each question of a sample whether two tables of :data:`JUDGED` agree on it."""
    answers = [dict(column_values(table, "query_id", "answer")) for table in (a, b)]
    ids = sample.counted.query_ids
    pairs = [tuple(verdicts.get(query_id) for verdicts in answers) for query_id in ids]
    return np.array([before == after for before, after in pairs], dtype=np.bool_)


ESTIMATED = ("calibrated", "low", "high", "human", "human_low", "human_high")
"""Columns of an estimate, and of the labels alone."""


def estimated_row(
    estimator: Callable[..., Estimate],
    sample: Sample,
    verdicts: Floats,
    labels: Floats,
    is_open: Flags,
    level: float,
    *,
    subject: str = "answer",
) -> Row:
    """Return the columns that means and differences share.

    NaN is a verdict or a label that is missing, ``is_open`` where people have not
    labelled yet what ``subject`` names.
    """
    counted, drawn = sample.counted, sample.drawn
    n_open = int((drawn & is_open).sum())
    labelled = drawn & ~is_open & ~np.isnan(labels)
    names = np.array(counted.clusters, dtype=object)
    given = ~np.isnan(verdicts)
    row: Row = {
        "judge": float(np.average(verdicts[given], weights=counted.weights[given]))
        if given.any()
        else None,
        "confidence": level,
        "n": len(drawn),
        "n_labels": int(labelled.sum()),
        "n_cannot_tell": int((drawn & ~is_open & np.isnan(labels)).sum()),
        "n_missing": int((~given).sum()),
        N_UNITS: len(set(names[labelled])),
        **dict.fromkeys(ESTIMATED),
    }
    if n_open or not labelled.any():
        lacking = {"weight": 0.0, "method": "none", "reason": _lacking(n_open, subject)}
        return {**row, **lacking}

    def estimate(others: Flags) -> Estimate:
        alone = len(set(names)) == len(names)
        return estimator(
            labels[labelled],
            verdicts[labelled],
            verdicts[others],
            clusters=None if alone else (list(names[labelled]), list(names[others])),
            weights=(counted.weights[labelled], counted.weights[others]),
            level=level,
        )

    both, human = estimate(~drawn), estimate(np.zeros_like(drawn))
    by_people = dict(zip(ESTIMATED[3:], human, strict=False))
    return {**row, **_estimated(both), **by_people, "reason": both.reason}


def _estimated(estimate: Estimate) -> Row:
    value, low, high, _, method, weight, _ = estimate
    return {"calibrated": value, "low": low, "high": high, "method": method, "weight": weight}


def _lacking(n_open: int, subject: str) -> str:
    """Return why nothing is calibrated, and which command asks people."""
    sheet = f"`rag-assets judge sheet{'' if subject == 'answer' else f' --{subject}s'}`"
    if not n_open:
        what = "" if subject == "answer" else f"{subject} of a "
        return f"no {what}drawn question is labelled; {sheet} draws some"
    if subject != "answer":
        questions = "1 drawn question has" if n_open == 1 else f"{n_open} drawn questions have"
        return f"{questions} a {subject} without a label; {sheet} asks for it"
    of = "1 answer to a drawn question has"
    of = of if n_open == 1 else f"{n_open} answers to drawn questions have"
    return f"{of} no label; {sheet} asks for {'it' if n_open == 1 else 'them'}"


def questions_with_golds(facts: pa.Table) -> frozenset[str]:
    """Return the questions whose answers can be judged: those with a right answer."""
    rows = column_values(facts, "query_id", "answers")
    return frozenset(query_id for query_id, golds in rows if golds)


class Grades(NamedTuple):
    """Grades of the items of a pool, shape (items,): NaN where there is none.

    ``is_open`` says where nobody was asked.
    """

    values: Floats
    is_open: Flags


def verdict_grades(pool: LabelPool, verdicts: pa.Table) -> Grades:
    """Return the highest grade of the texts of each item; missing where one of them is.

    ``verdicts`` is a table of :data:`rag_assets.schemas.RELEVANCE_VERDICTS`.
    """
    grades = zip(units_in(verdicts), verdicts["grade"].to_pylist(), strict=True)
    return _grades(pool, grades, np.maximum)


def label_grades(pool: LabelPool, labels: Iterable[LoggedJudgment]) -> Grades:
    """Return people's grade of each item; of several lines on an item the last counts."""
    last = {label.item: label.grade for label in labels}
    return _grades(pool, last.items(), np.fmax)


def _grades(
    pool: LabelPool,
    graded: Iterable[tuple[PooledUnit, int | None]],
    join: Callable[[float, float], float],
) -> Grades:
    same = SamePassages(pool.items)
    values, is_open = np.full(len(pool.items), np.nan), np.ones(len(pool.items), np.bool_)
    for span, grade in graded:
        value = np.nan if grade is None else float(grade)
        for number in same.numbers(span):
            values[number] = value if is_open[number] else join(values[number], value)
            is_open[number] = False
    return Grades(values, is_open)


def judged_metrics(
    pool: LabelPool, verdicts: Grades, labels: Grades, metrics: Sequence[Metric]
) -> dict[tuple[str, Metric], pa.Table]:
    """Return each question's metrics by a judge's grades and by people's.

    By (retriever, metric) it is a table of :data:`JUDGED`, whose ``answer`` is null.
    """
    is_open, unsure, unjudged = (
        _questions_with(pool, flags)
        for flags in (labels.is_open, np.isnan(labels.values), np.isnan(verdicts.values))
    )
    by_people = _values(pool, labels.values, metrics)
    n = len(pool.question_ids)
    lead = {"query_id": pool.question_ids, "n_relevant": [1] * n, "answer": [None] * n}
    tables = {}
    for cell, values in _values(pool, verdicts.values, metrics).items():
        verdict = pa.array(np.where(unjudged, np.nan, values), from_pandas=True)
        label = pa.array(np.where(unsure, np.nan, by_people[cell]), from_pandas=True)
        columns = {VERDICT: verdict, LABEL: label, OPEN: is_open.astype(np.float64)}
        tables[cell] = pa.table({**lead, **columns}, JUDGED)
    return tables


CONTEXT_PRECISION = "context_precision"
ALONE = (CONTEXT_PRECISION, *OF_CLAIMS)
"""Metrics by a judge alone, without right answers or labels; shown as not calibrated too."""


def context_precision(grades: Sequence[float | None]) -> float | None:
    """Return sum_k precision@k * v_k / sum_k v_k, where v_k is 1 if the k-th grade is positive.

    So does Ragas 0.4.3 (``ragas/metrics/_context_precision.py``), but for 1e-10 in the denominator.
    Without a positive grade it is 0, and None where one is missing.
    """
    if None in grades:
        return None
    ranks = [rank for rank, grade in enumerate(grades, 1) if grade]
    return precisions(ranks) / len(ranks) if ranks else 0.0


def judged_precisions(
    pool: LabelPool, passages: Mapping[str, pa.Table], verdicts: pa.Table, labels: Grades
) -> dict[str, pa.Table]:
    """Return retriever -> table of :data:`JUDGED`: context precision by verdicts and by labels.

    A passage has the judge's grade of its own text, and people's of the item that it is part of.
    """
    same, tables = SamePassages(pool.items), {}
    by_judge = dict(zip(units_in(verdicts), verdicts["grade"].to_pylist(), strict=True))
    by_people = [None if np.isnan(grade) else float(grade) for grade in labels.values]
    for name, table in passages.items():
        units: dict[str, list[PooledUnit]] = {query_id: [] for query_id in pool.question_ids}
        for unit in units_in(table.sort_by("rank")):
            units.setdefault(unit.query_id, []).append(unit)
        rows = []
        for query_id in pool.question_ids:
            items = [same.numbers(unit)[0] for unit in units[query_id]]
            verdict = context_precision([by_judge.get(unit) for unit in units[query_id]])
            label = context_precision([by_people[item] for item in items])
            is_open = float(any(labels.is_open[item] for item in items))
            values = (query_id, 1, None, verdict, label, is_open)
            rows.append(dict(zip(JUDGED.names, values, strict=True)))
        tables[name] = pa.Table.from_pylist(rows, JUDGED)
    return tables


def without_failed(table: pa.Table, failed: Collection[str]) -> pa.Table:
    """Return a table of :data:`JUDGED` that says nothing of the queries that failed."""
    nothing = dict.fromkeys((VERDICT, LABEL, OPEN))
    rows = (row | nothing if row["query_id"] in failed else row for row in table.to_pylist())
    return pa.Table.from_pylist(list(rows), JUDGED)


def _questions_with(pool: LabelPool, flags: Flags) -> Flags:
    """Return which questions have an item with the flag."""
    questions = np.zeros(len(pool.question_ids), np.bool_)
    questions[pool.question[flags & pool.counted]] = True
    return questions


def _values(
    pool: LabelPool, grades: Floats, metrics: Sequence[Metric]
) -> dict[tuple[str, Metric], Floats]:
    """Return the metrics of all questions by some grades; without a relevant item they are 0."""
    runs = {name: _run(pool, number) for number, name in enumerate(pool.systems)}
    units_of: dict[int, set[str]] = {number: {str(number)} for number in range(len(pool.items))}
    for run in runs.values():
        for unit in run["unit_id"].to_pylist():
            units_of[int(unit.split("/")[0])].add(unit)
    relevant: list[dict[str, object]] = [
        {"query_id": item.query_id, "evidence_id": str(number), "unit_id": unit, "grade": int(g)}
        for number, (item, g) in enumerate(zip(pool.items, grades, strict=True))
        if g > 0 and pool.counted[number]
        for unit in sorted(units_of[number])
    ]
    queries = pa.table({"query_id": pa.array(pool.question_ids, pa.string())})
    units = {"pool": RELEVANT_UNITS.from_rows(relevant)}
    cells = [(name, metric.cutoff or 0) for name in pool.systems for metric in metrics]
    metric_tables = query_metrics(runs, units, dict.fromkeys(runs, "pool"), queries, cells, metrics)
    values = {}
    for name in pool.systems:
        for metric in metrics:
            table = metric_tables[name, metric.cutoff or 0]
            by_query = dict(column_values(table, "query_id", metric.column))
            numbers = [by_query[query_id] or 0.0 for query_id in pool.question_ids]
            values[name, metric] = np.array(numbers, np.float64)
    return values


def _run(pool: LabelPool, system: int) -> pa.Table:
    """Return a system's ranking: a unit is an item, or ``item/n`` where it comes again."""
    rows: list[dict[str, object]] = []
    seen: Counter[int] = Counter()
    places = np.flatnonzero(pool.system == system)
    for place in sorted(places, key=lambda n: (pool.question[pool.item[n]], pool.rank[n])):
        item, rank = int(pool.item[place]), int(pool.rank[place])
        seen[item] += 1
        name = f"{item}/{seen[item]}" if seen[item] > 1 else str(item)
        query_id = pool.items[item].query_id
        unit = {"unit_id": name, "chunk_id": name, "document_id": pool.items[item].document_id}
        rows.append({"query_id": query_id, "rank": rank, "score": -float(rank), **unit})
    return RUNS.from_rows(rows)
