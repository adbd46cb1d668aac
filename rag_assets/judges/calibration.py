"""Means and differences of a judge's verdicts, calibrated with what people say of drawn questions.

A failed answer, and one without a word, is not correct: nobody has to say so. Two answers that are
equal, character by character, differ by 0 whatever anybody says of them. So a difference between
two evaluations is about the answers that changed alone, and a judge that was exchanged changes
nothing of it.

An estimate needs a label of every answer to every drawn question. Those that happen to have one
are no random sample: an answer that changed has none yet, and would be left out. A mean is then
estimated from labels of other answers, by Rogan and Gladen, and that is said; a difference is not,
since a judge that likes one system would make it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.judges.answer_labels import drawn_so_far, labelled_questions, needs_person
from rag_assets.statistics.calibration import (
    Estimate,
    calibrated_difference,
    calibrated_mean,
    rogan_gladen,
)
from rag_assets.statistics.units import Counted, Floats, splits_counted

Row = dict[str, Any]
Flags = npt.NDArray[np.bool_]

JUDGED_CORRECT = "judged_correct"
"""Verdicts, and labels, on answers: 1 is correct."""

VERDICT, LABEL, OPEN = "verdict", "label", "open"

ROGAN_GLADEN_NOTE = (
    "until then by labels of other answers, as if the judge erred on these as on those"
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

``open`` is 1 where nobody was asked, and 0 where nobody needs to be.
"""


@dataclass(frozen=True)
class Sample:
    """The questions of one split that can be judged, and which of them were drawn."""

    counted: Counted
    drawn: Flags

    @classmethod
    def of(cls, counted: Counted, drawn: Collection[str]) -> Sample:
        """Return the sample of some questions by the names of those that were drawn."""
        return cls(counted, np.array([one in drawn for one in counted.query_ids], dtype=np.bool_))

    def only(self, chosen: Flags) -> Sample:
        """Return the same of some of the questions."""
        own = self.counted
        ids, clusters = (
            tuple(name for name, use in zip(names, chosen, strict=True) if use)
            for names in (own.query_ids, own.clusters)
        )
        return Sample(Counted(own.split, ids, own.weights[chosen], clusters), self.drawn[chosen])

    @property
    def n_drawn(self) -> int:
        """How many questions were drawn."""
        return int(self.drawn.sum())


def judged_answers(answers: pa.Table, verdicts: pa.Table, labels: pa.Table) -> pa.Table:
    """Put beside each answer what a judge and people say of it.

    Args:
        answers: table of :data:`rag_assets.schemas.ANSWERS`, of one answerer.
        verdicts: table of :data:`rag_assets.schemas.ANSWER_VERDICTS`, of one judge.
        labels: table of :data:`rag_assets.schemas.ANSWER_LABELS`.

    Returns:
        Table of :data:`JUDGED`.
    """
    judged, labelled = _by_answer(verdicts), _by_answer(labels)
    rows = []
    for query_id, answer in _columns(answers, "query_id", "answer"):
        key = (query_id, answer)
        asked = needs_person(answer)
        verdict = judged.get(key) if asked else 0
        label = labelled.get(key) if asked else 0
        rows.append((query_id, 1, answer, verdict, label, asked and key not in labelled))
    columns = zip(*rows, strict=True) if rows else [()] * len(JUDGED)
    arrays = [
        pa.array([None if v is None else float(v) for v in column], field.type)
        if pa.types.is_floating(field.type)
        else pa.array(column, field.type)
        for field, column in zip(JUDGED, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=JUDGED)


def _by_answer(table: pa.Table) -> dict[tuple[str, str], Any]:
    rows = _columns(table, "query_id", "answer", "correct")
    return {(query_id, answer): correct for query_id, answer, correct in rows}


def _columns(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def samples(counting: pa.Table, questions: Collection[str], labels: pa.Table) -> Iterator[Sample]:
    """Yield the questions of each split, with those that were drawn for people.

    Args:
        counting: query_id, weight, split, cluster of every query.
        questions: those that can be judged.
        labels: table of :data:`rag_assets.schemas.ANSWER_LABELS`; of questions that somebody
            chose, which have no probability, it takes nothing.
    """
    labelled = labelled_questions(labels)
    for counted in splits_counted(counting, questions):
        clusters = dict(zip(counted.query_ids, counted.clusters, strict=True))
        yield Sample.of(counted, drawn_so_far(clusters, labelled))


def labels_with_verdicts(labels: pa.Table, verdicts: pa.Table) -> tuple[Floats, Floats]:
    """Return label and verdict of every answer that has both, whoever gave it.

    Args:
        labels: table of :data:`rag_assets.schemas.ANSWER_LABELS`.
        verdicts: table of :data:`rag_assets.schemas.ANSWER_VERDICTS`.
    """
    said, judged = _by_answer(labels), _by_answer(verdicts)
    pairs = [
        (float(correct), float(judged[key]))
        for key, correct in said.items()
        if correct is not None and judged.get(key) is not None
    ]
    first, second = np.array(pairs, np.float64).reshape(-1, 2).T
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

    Args:
        name: of the answerer at its cut-off, or of the retriever.
        metric: what the values are.
        table: of :data:`JUDGED`.
        sample: the questions.
        level: of the intervals.
        elsewhere: labels of other answers with the verdicts on them, by which a mean is estimated
            that has no sample of its own; ``human`` is then None, and ``reason`` says so.
    """
    verdicts, labels, is_open = (sample.counted.values(table, c) for c in (VERDICT, LABEL, OPEN))
    lead = {"name": name, "split": sample.counted.split, "metric": metric}
    row = estimated_row(
        calibrated_mean,
        sample,
        verdicts,
        labels,
        is_open > 0,
        level,
        of_passages=metric != JUDGED_CORRECT,
    )
    if row["calibrated"] is None and elsewhere is not None:
        found = rogan_gladen(*elsewhere, verdicts, level=level)
        if found.value is not None:
            row |= {"calibrated": found.value, "low": found.low, "high": found.high}
            row |= {"weight": found.weight, "method": found.method, "n_labels": found.n_labels}
            row["reason"] = f"{row['reason']}; {ROGAN_GLADEN_NOTE}"
    return {**lead, **row}


def difference_row(
    names: tuple[str, str],
    metric: str,
    tables: tuple[pa.Table, pa.Table],
    sample: Sample,
    level: float,
) -> Row:
    """Return one row of :data:`rag_assets.schemas.CALIBRATED_DIFFERENCES`, b - a.

    Args:
        names: a and b.
        metric: what the values are.
        tables: of :data:`JUDGED`, of a and b; also of two evaluations, and of two judges.
        sample: the questions.
        level: of the intervals.
    """
    a, b = tables
    same = same_answers(a, b, sample)
    verdicts, labels = (
        np.where(same, 0.0, sample.counted.values(b, column) - sample.counted.values(a, column))
        for column in (VERDICT, LABEL)
    )
    is_open = ~same & ((sample.counted.values(a, OPEN) > 0) | (sample.counted.values(b, OPEN) > 0))
    lead = {"name_a": names[0], "name_b": names[1], "split": sample.counted.split}
    estimated = estimated_row(calibrated_difference, sample, verdicts, labels, is_open, level)
    if same.all():  # nothing is to be estimated
        known = ("calibrated", "low", "high", "human", "human_low", "human_high")
        estimated |= {**dict.fromkeys(known, 0.0), "method": "equal answers", "reason": None}
    return {**lead, "metric": metric, **estimated}


def same_answers(a: pa.Table, b: pa.Table, sample: Sample) -> Flags:
    """Return for each question of a sample whether two tables of :data:`JUDGED` agree on it."""
    answers = [dict(_columns(table, "query_id", "answer")) for table in (a, b)]
    ids = sample.counted.query_ids
    pairs = [tuple(one.get(query_id) for one in answers) for query_id in ids]
    return np.array([before == after for before, after in pairs], dtype=np.bool_)


def estimated_row(
    estimator: Callable[..., Estimate],
    sample: Sample,
    verdicts: Floats,
    labels: Floats,
    is_open: Flags,
    level: float,
    *,
    of_passages: bool = False,
) -> Row:
    """Return the columns that means and differences share.

    Args:
        estimator: of the mean of values, or of differences.
        sample: the questions.
        verdicts: of the judge; NaN: missing.
        labels: of people; NaN: there is none.
        is_open: where nobody was asked.
        level: of the intervals.
        of_passages: whether people label passages, and not answers.
    """
    drawn = sample.drawn
    n_open = int((drawn & is_open).sum())
    labelled = drawn & ~is_open & ~np.isnan(labels)
    nobody = np.zeros_like(drawn)
    row: Row = {
        "judge": _mean(verdicts, sample.counted.weights),
        "confidence": level,
        "n": len(drawn),
        "n_labels": int(labelled.sum()),
        "n_cannot_tell": int((drawn & ~is_open & np.isnan(labels)).sum()),
        "n_missing": int(np.isnan(verdicts).sum()),
        N_UNITS: len({sample.counted.clusters[number] for number in np.flatnonzero(labelled)}),
    }
    if n_open or not labelled.any():
        return {
            **row,
            **dict.fromkeys(("calibrated", "low", "high", "human", "human_low", "human_high")),
            "weight": 0.0,
            "method": "none",
            "reason": _passages_lacking(n_open) if of_passages else _lacking(n_open),
        }
    found, human = (
        _estimate(estimator, sample.counted, verdicts, labels, labelled, others, level)
        for others in (~drawn, nobody)
    )
    return {
        **row,
        **{"calibrated": found.value, "low": found.low, "high": found.high},
        **{"human": human.value, "human_low": human.low, "human_high": human.high},
        **{"weight": found.weight, "method": found.method, "reason": found.reason},
    }


def _lacking(n_open: int) -> str:
    if not n_open:
        return "no label of a drawn question; `rag-assets judge sheet` draws some"
    of = (
        "1 answer to a drawn question has"
        if n_open == 1
        else (f"{n_open} answers to drawn questions have")
    )
    return f"{of} no label; `rag-assets judge sheet` asks for {'it' if n_open == 1 else 'them'}"


def _passages_lacking(n_open: int) -> str:
    sheet = "`rag-assets judge sheet --passages`"
    if not n_open:
        return f"no passage of a drawn question is labelled; {sheet} draws some"
    questions = "1 drawn question has" if n_open == 1 else f"{n_open} drawn questions have"
    return f"{questions} a passage without a label; {sheet} asks for it"


def _estimate(
    estimator: Callable[..., Estimate],
    counted: Counted,
    verdicts: Floats,
    labels: Floats,
    labelled: Flags,
    others: Flags,
    level: float,
) -> Estimate:
    names = np.array(counted.clusters, dtype=object)
    alone = len(set(counted.clusters)) == len(counted.clusters)
    return estimator(
        labels[labelled],
        verdicts[labelled],
        verdicts[others],
        clusters=None if alone else (list(names[labelled]), list(names[others])),
        weights=(counted.weights[labelled], counted.weights[others]),
        level=level,
    )


def _mean(values: Floats, weights: Floats) -> float | None:
    given = ~np.isnan(values)
    if not given.any():
        return None
    return float(np.average(values[given], weights=weights[given]))


def questions_with_golds(facts: pa.Table) -> frozenset[str]:
    """Return the questions whose answers can be judged: those with a right answer.

    Args:
        facts: table of :data:`rag_assets.schemas.QUERY_FACTS`.
    """
    rows = _columns(facts, "query_id", "answers")
    return frozenset(query_id for query_id, golds in rows if golds)
